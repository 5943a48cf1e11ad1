//go:build linux && (amd64 || arm64)

package selftest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"sweep/loadgen"
	"sweep/loadgen/truth"
)

// TestMain lets this program be the server of a test.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		if err := Serve(os.Stdin, os.Stdout); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// A test goes through all its steps, each event is accounted for, and the result names its units.
func TestRun(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, serve := range [][]string{{self, "serve"}, nil} {
		var told []string
		o := Options{Concurrency: 8, EventsPerS: 800, Serve: serve, OnStep: func(name string) { told = append(told, name) }, life: 200 * time.Millisecond}
		r, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Steps) != 5 || len(told) != 5 || r.Verdict == "" || r.Machine == "" || r.TookS > Limit.Seconds() {
			t.Fatalf("%d steps, %d told, verdict %q on %q in %v s", len(r.Steps), len(told), r.Verdict, r.Machine, r.TookS)
		}
		for i, s := range r.Steps {
			flood := i == 4
			if s.Mismatched > 0 || s.Requests < 16 || s.Events < s.Requests*2 || (s.ITLErrorP99US == nil) != flood || (s.TTFTErrorP50US == nil) != flood || (s.SendLagP99US != nil) != (i == 3) || (s.Verdict == "") != flood {
				t.Errorf("step %q: %+v", s.Name, s)
			}
			if (s.CPUPerEventUS != nil) != (serve != nil) {
				t.Errorf("step %q: CPU is told apart: %v", s.Name, s.CPUPerEventUS != nil)
			}
			if want := map[bool]string{true: loadgen.StampsUser}[i == 1]; want != "" && s.Stamps != want {
				t.Errorf("step %q: stamps by %s", s.Name, s.Stamps)
			}
		}
		data, err := json.Marshal(r)
		if err != nil || !bytes.Contains(data, []byte(`"itl_error_p99_us":`)) {
			t.Errorf("%v: %s", err, data)
		}
	}
}

// What cannot be tested is said before anything starts, and a server that does not start says why.
func TestProblems(t *testing.T) {
	for _, o := range []Options{{Concurrency: -1}, {Concurrency: 100, EventsPerS: 3}, {Concurrency: 1, EventsPerS: 1e9}, {Serve: []string{"false"}}, {Serve: []string{"/nonexistent"}}} {
		if _, err := Run(t.Context(), o); err == nil || !strings.HasPrefix(err.Error(), "selftest: ") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, err := Run(ctx, Options{}); err == nil {
		t.Error("a test that was cancelled ends well")
	}
}

// A request that is not recorded as it was written makes the client the limit, whatever else it says of itself.
func TestMismatch(t *testing.T) {
	s := Step{Verdict: loadgen.Valid}
	var record bytes.Buffer
	server, err := truth.Listen(truth.Options{Plan: truth.Plan{FirstUS: 1000, GapUS: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	spec := loadgen.Spec{
		URL: server.URL(), Route: "/v1/completions", Model: "m", Tagged: true, Record: &record,
		Classes: []loadgen.Class{{Name: "a", Concurrency: 2, Input: loadgen.Range{Min: 3, Max: 3}, Output: loadgen.Range{Min: 4, Max: 4}}},
		Window:  loadgen.Window{Max: time.Minute, Exactly: true, Requests: map[string]int{"a": 4}},
	}
	if _, err := loadgen.Run(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	log := server.Log()
	log[2].Sent = 5
	if err := s.compare(record.Bytes(), log[:3], false); err != nil {
		t.Fatal(err)
	}
	if s.Mismatched != 3 { // one of another length, one that is not in the log, and the sums differ
		t.Errorf("%d do not match", s.Mismatched)
	}
	r := Result{Verdict: loadgen.Valid}
	r.judge(&s)
	if r.Verdict != loadgen.ClientBound || len(r.Why) != 1 {
		t.Errorf("verdict %s %v", r.Verdict, r.Why)
	}
}

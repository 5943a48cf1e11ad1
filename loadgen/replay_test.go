package loadgen

import (
	"bytes"
	"io"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sweep/loadgen/mock"
)

// variedServer answers with times that depend on the request.
func variedServer() *mock.Server {
	return &mock.Server{Answer: func(r mock.Request) []mock.Step {
		n := r.PromptIDs[0] + 2*r.PromptIDs[1] + 5*r.PromptIDs[2]
		if n%17 == 3 {
			return mock.Answer(500, "x")
		}
		return mock.Stream(r, mock.Timing{First: time.Duration(80+n) * msec, Gap: time.Duration(5+n%13) * msec, Chunk: 1 + n%3})
	}}
}

// allTokens counts what arrived of requests that did not fail.
func allTokens(t *testing.T, record []byte) float64 {
	t.Helper()
	n := 0
	if _, err := ReadRecord(bytes.NewReader(record), func(r *Record) error {
		for _, c := range r.Chunks {
			n += c.Tokens
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return float64(n)
}

// A record gives the same numbers as the run that wrote it.
func TestSummarizeARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := variedServer()
		spec := testSpec(server, 6)
		spec.Classes[0].SLO = []Objective{{"ttft", 0.9, 200 * msec}, {"itl", 0.9, 12 * msec}}
		spec.Classes = append(spec.Classes, Class{Name: "open", Arrivals: &Arrivals{Law: Gamma, Rate: 20, Shape: 0.7}, Input: Range{3, 30}, Output: Range{1, 20}})
		var record, lines, again bytes.Buffer
		spec.Record, spec.Requests = &record, &lines
		res, err := Run(t.Context(), spec)
		server.Close()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Summarize(bytes.NewReader(record.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		want := maps.Clone(res.Values)
		delete(want, "client_max_silence_s") // of the run's own watch
		delete(want, "client_lag_p99_ms")
		wantValues(t, got.Values, want)
		wantValues(t, got.Whole, res.Whole)
		wantValues(t, res.Whole, map[string]float64{"output_tokens": allTokens(t, record.Bytes())})
		delete(res.Definitions, "output_throughput_half_width")
		wantValues(t, got.Definitions, res.Definitions)
		if len(got.Values) != len(want) || got.Window != res.Window || !got.Opened.Equal(res.Opened) || got.Sent != res.Sent || got.Failed != res.Failed || got.Verdict != res.Verdict || *got.Steady != *res.Steady || !got.Complete || got.FirstFailure != res.FirstFailure {
			t.Errorf("window %v of %v, %d sent, %d failed, verdict %s, complete %v, %q", got.Window, res.Window, got.Sent, got.Failed, got.Verdict, got.Complete, got.FirstFailure)
		}
		if err := WriteRequests(&again, &record); err != nil || again.String() != lines.String() {
			t.Errorf("the request file differs: %v", err)
		}
	})
}

// Two processes that share a load are merged into what one would have seen of all their requests.
func TestSummarizeParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := variedServer()
		var records [2]bytes.Buffer
		var results [2]Result
		var wg sync.WaitGroup
		start := time.Now().Add(second)
		for i := range records {
			wg.Go(func() {
				spec := testSpec(server, 7)
				spec.Classes = append(spec.Classes, Class{Name: "open", Arrivals: &Arrivals{Law: Poisson, Rate: 20}, Input: Range{3, 30}, Output: Range{1, 20}})
				spec.Part, spec.Parts, spec.Record, spec.StartAt = i, 2, &records[i], start
				spec.Warmup, spec.Window = Warmup{Time: second}, Window{Min: 20 * second}
				var err error
				if results[i], err = Run(t.Context(), spec); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		server.Close()
		res, err := Summarize(bytes.NewReader(records[0].Bytes()), bytes.NewReader(records[1].Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"sent", "completed", "failed", "output_tokens", "output_throughput", "mean_concurrency", "open_sent"} {
			wantValues(t, res.Values, map[string]float64{name: results[0].Values[name] + results[1].Values[name]})
		}
		wantValues(t, res.Values, map[string]float64{"max_ttft_ms": max(results[0].Values["max_ttft_ms"], results[1].Values["max_ttft_ms"])})
		if res.Window != 20*second || res.Verdict != Valid || !res.Complete || res.Evidence["reads"] != results[0].Evidence["reads"]+results[1].Evidence["reads"] {
			t.Errorf("window %v, verdict %s, complete %v", res.Window, res.Verdict, res.Complete)
		}
		for _, bad := range [][]io.ReadSeeker{{bytes.NewReader(records[0].Bytes())}, {bytes.NewReader(records[1].Bytes()), bytes.NewReader(records[1].Bytes())}, {}, {strings.NewReader("x")}} {
			if _, err := Summarize(bad...); err == nil {
				t.Errorf("%d records that do not fit are merged", len(bad))
			}
		}
	})
}

// A record whose writer was killed still gives numbers, and says so.
func TestSummarizeWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := variedServer()
		spec := testSpec(server, 6)
		var record bytes.Buffer
		spec.Record = &record
		if _, err := Run(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		server.Close()
		res, err := Summarize(bytes.NewReader(record.Bytes()[:record.Len()*2/3]))
		if err != nil || res.Complete || res.Verdict != Suspect || res.Values["completed"] < 50 || res.Window < 3*second {
			t.Errorf("%v, window %v, verdict %s, %v completed", err, res.Window, res.Verdict, res.Values["completed"])
		}
	})
}

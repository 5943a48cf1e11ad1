package truth

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

const ms = int64(time.Millisecond)

// ask is the body of a request by route.
func ask(route string, tokens int) string {
	switch route {
	case "/generate":
		return fmt.Sprintf(`{"input_ids": [1, 2, 3], "sampling_params": {"max_new_tokens": %d, "ignore_eos": true}, "stream": true}`, tokens)
	case "/v1/chat/completions":
		return fmt.Sprintf(`{"model":"mock","messages":[{"role":"user","content":"one two three"}],"max_completion_tokens":%d,"stream":true,"stream_options":{"include_usage":true}}`, tokens)
	}
	return fmt.Sprintf(`{"model":"mock","prompt":[1,2,3],"max_tokens":%d,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, tokens)
}

// Every pattern, on each route: what a plain client reads is what the log says was written, and that is what the plan says.
func TestPatternsOverLoopback(t *testing.T) {
	t.Parallel()
	fast := map[string]string{
		"role":  `"first_us":30000,"role_us":25000`,
		"split": `"first_us":3000,"gap_us":4000`,
		"stall": `"first_us":2000,"gap_us":500,"tokens":150,"seed":4`,
	}
	for _, pattern := range Patterns() {
		if pattern == "endless" || pattern == "prefill" {
			continue // other tests
		}
		t.Run(pattern, func(t *testing.T) {
			t.Parallel()
			s := listen(t, Options{})
			times := fast[pattern]
			if times == "" {
				times = `"first_us":3000,"gap_us":700`
			}
			plan := fmt.Sprintf(`{"pattern":%q,%s}`, pattern, times)
			routes := []string{"/v1/completions", "/v1/chat/completions", "/generate"}
			answers := make([]answer, len(routes))
			var wg sync.WaitGroup
			for i, route := range routes {
				wg.Go(func() { answers[i] = post(t, s.URL()+route, ask(route, 24), plan) })
			}
			wg.Wait()
			for _, r := range s.Log() {
				for i, route := range routes {
					if route == r.Path {
						compare(t, &r, &answers[i])
					}
				}
			}
			if n := len(s.Log()); n != len(routes) {
				t.Errorf("%d requests in the log", n)
			}
		})
	}
}

// compare holds an answer as a client saw it, the log of its request and the plan against each other.
func compare(t *testing.T, r *Request, a *answer) {
	t.Helper()
	x := Expect(r)
	if a.status != r.Status || r.Prompt != 3 || r.Asked != 24 || r.Accept > r.FirstByte || r.FirstByte > r.Complete || r.Complete < a.begun-ms || r.Arrived != 0 && (r.Arrived > r.Complete+ms || r.Arrived < a.begun-ms) {
		t.Errorf("%s: status %d, logged %+v", r.Path, a.status, r)
	}
	if r.Plan.Close != a.closes {
		t.Errorf("%s: closes: %v", r.Path, a.closes)
	}
	chat := r.Path == "/v1/chat/completions"
	steps := r.Plan.Steps(Ask{Tokens: r.Asked, Chat: chat, Usage: r.Path != "/generate", Number: r.Number}, 1000)
	if len(steps) != len(r.Events) {
		t.Fatalf("%s: %d events planned, %d logged", r.Path, len(steps), len(r.Events))
	}
	for i, e := range r.Events {
		due := e.Due - r.Complete - steps[i].AtNS
		exact := r.Plan.Phase == "" && r.Plan.Batch < 2 && (r.Plan.Split < 2 || e.Kind <= Content) // what follows an event in pieces waits for them
		if steps[i].Kind != e.Kind || steps[i].Tokens != int(e.Tokens) || e.Due == 0 != r.Plan.Flood || !r.Plan.Flood && (e.Start < e.Due || exact && due != 0 || due < 0) {
			t.Errorf("%s: event %d: planned %+v, logged %+v, due %d ns after the plan", r.Path, i, steps[i], e, due)
		}
		if split := r.Plan.Split > 1 && e.Kind <= Usage; e.Last < e.Start || split != (e.Last > e.Start) {
			t.Errorf("%s: event %d: first write at %d, last at %d", r.Path, i, e.Start, e.Last)
		}
	}
	if r.Status != 200 {
		if x.Complete || x.FirstToken != nil || !json.Valid(a.body) || a.err != nil {
			t.Errorf("%s: refusal expected as %+v: %s (%v)", r.Path, x, a.body, a.err)
		}
		return
	}
	written := r.Events
	if r.Plan.ResetAfter > 0 {
		written = written[:len(written)-1]
		if a.err == nil || x.Complete || x.E2EEnd != nil {
			t.Errorf("%s: a reset stream ended with %v; expected %+v", r.Path, a.err, x)
		}
	} else if a.err != nil || !x.Complete || r.End != r.Events[len(r.Events)-1].Last {
		t.Errorf("%s: ended with %v; expected %+v, end %d", r.Path, a.err, x, r.End)
	}
	if len(written) != len(a.events) {
		t.Fatalf("%s: %d events logged, %d read", r.Path, len(written), len(a.events))
	}
	compareEvents(t, r, a.events)
}

func compareEvents(t *testing.T, r *Request, events []seen) {
	t.Helper()
	tokens, length := 0, 0
	for i, e := range events {
		logged := r.Events[i]
		tokens += int(logged.Tokens)
		sameLook := e.kind == Role && logged.Kind == Empty // a first chunk with the role and no text is either
		if e.kind != logged.Kind && !sameLook && r.Path != "/generate" {
			t.Errorf("%s: event %d is %v, logged %v", r.Path, i, e.kind, logged.Kind)
		}
		if e.at < logged.Last-ms {
			t.Errorf("%s: event %d was read %d ns before its write", r.Path, i, logged.Last-e.at)
		}
		if e.kind == Done {
			continue
		}
		if e.number != i || max(e.sent-logged.Start, logged.Start-e.sent) > ms {
			t.Errorf("%s: event %d has number %d and a stamp %d ns from its log", r.Path, i, e.number, e.sent-logged.Start)
		}
		if e.counted >= 0 && e.counted != tokens {
			t.Errorf("%s: event %d counts %d tokens of %d", r.Path, i, e.counted, tokens)
		}
		grown := e.tokens - length
		if r.Path == "/generate" && !r.Plan.Incremental {
			length = e.tokens
		}
		if logged.Kind == Content && grown != int(logged.Tokens) {
			t.Errorf("%s: event %d brings %d words, logged %d tokens", r.Path, i, grown, logged.Tokens)
		}
		if finished := i+1 < len(events) && (events[i+1].kind == Done || events[i+1].kind == Usage) && e.kind != Usage; finished != (e.finish != "") {
			t.Errorf("%s: event %d: finish %q", r.Path, i, e.finish)
		}
		if e.finish != "" && (e.finish == "stop") != (r.Plan.StopAfter > 0) {
			t.Errorf("%s: finish %q", r.Path, e.finish)
		}
	}
}

// All streams of a lock-step server write at common ticks; spread streams do not meet.
func TestPhases(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"lockstep", "spread"} {
		s := listen(t, Options{Plan: Plan{FirstUS: 5_000, GapUS: 10_000, Phase: pattern}})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { post(t, s.URL()+"/v1/completions", ask("", 3), "") })
		}
		wg.Wait()
		phases := map[int64]bool{}
		for _, r := range s.Log() {
			first := r.Events[0].Due
			late := first - r.Complete - 5*ms
			if late < 0 || late > 10*ms {
				t.Errorf("%s: first token %d ns after the plan's", pattern, late)
			}
			if pattern == "lockstep" {
				late = first % (10 * ms)
			}
			phases[late] = true
		}
		if want := map[string]int{"lockstep": 1, "spread": 8}[pattern]; len(phases) != want {
			t.Errorf("%s: %d phases, want %d: %v", pattern, len(phases), want, phases)
		}
		s.Close()
	}
}

func TestEndlessAndLeaving(t *testing.T) {
	t.Parallel()
	s := listen(t, Options{})
	transport := &http.Transport{}
	a := postOver(t, &http.Client{Transport: transport, Timeout: time.Second}, s.URL()+"/generate", ask("/generate", 2), `{"pattern":"endless","first_us":1000,"gap_us":1000}`)
	if a.err == nil || len(a.events) < 5 {
		t.Errorf("an endless stream ended with %v after %d events", a.err, len(a.events))
	}
	for range 200 { // the server sees it at the next write or read
		if s.Log()[0].End > 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if r := s.Log()[0]; !r.Closed || Expect(&r).Complete {
		t.Errorf("after the client left: %+v", r)
	}
}

func TestSlowAccept(t *testing.T) {
	t.Parallel()
	s := listen(t, Options{Plan: Plan{FirstUS: 1000, GapUS: 1000, AcceptUS: 40_000}})
	a := post(t, s.URL()+"/v1/completions", ask("", 2), "")
	r := s.Log()[0]
	if waited := r.Accept - a.begun; waited < 39*ms || a.err != nil || len(a.events) != 4 {
		t.Errorf("accepted after %d ns; %d events, %v", waited, len(a.events), a.err)
	}
	if x := Expect(&r); *x.FirstToken > 30*ms {
		t.Errorf("the wait for accept is in the time to first token: %d ns", *x.FirstToken)
	}
}

// A request in pieces, two in one write, a chunked body, and 100 Continue.
func TestRequestsInPieces(t *testing.T) {
	t.Parallel()
	s := listen(t, Options{Plan: Plan{FirstUS: 1000, GapUS: 100}})
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := `{"prompt":"a b c","max_tokens":2,"stream":false}`
	plain := fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\nX-Request-Id: r1\r\n\r\n%s", len(body), body)
	chunked := fmt.Sprintf("POST //v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n%s\r\n%x;x=y\r\n%s\r\n0\r\n\r\n", body[:5], len(body)-5, body[5:])
	all := plain + chunked + strings.Replace(plain, "X-Request-Id: r1", "Connection: close", 1)
	for _, b := range []byte(all[:len(plain)/2]) {
		if _, err := conn.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Write([]byte(all[len(plain)/2:])); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		got.Write(buf[:n])
		if err != nil {
			break
		}
	}
	if n := strings.Count(got.String(), `"text":" alpha bravo"`); n != 3 || strings.Count(got.String(), "connection: close") != 1 {
		t.Errorf("%d answers in %s", n, got.String())
	}
	log := s.Log()
	if len(log) != 3 || log[0].ID != "r1" || log[1].Prompt != 3 || log[2].Events[0].Kind != Whole {
		t.Errorf("log %+v", log)
	}
	conn2, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn2.Close()
	fmt.Fprintf(conn2, "POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(body))
	if n, err := conn2.Read(buf); err != nil || !strings.HasPrefix(string(buf[:n]), "HTTP/1.1 100 ") {
		t.Errorf("%s (%v)", buf[:n], err)
	}
}

func TestControlAndRoutes(t *testing.T) {
	t.Parallel()
	s := listen(t, Options{Threads: 2})
	if got := get(t, s.URL()+"/ctl/cfg?pattern=chunks&first_us=1000&gap_us=200"); !strings.HasPrefix(got, "200 ") {
		t.Fatal(got)
	}
	for _, path := range []string{"/v1/models", "/health", "/get_model_info", "/model_info", "/server_info", "/flush_cache", "/metrics"} {
		if got := get(t, s.URL()+path); !strings.HasPrefix(got, "200 ") {
			t.Errorf("%s: %s", path, got)
		}
	}
	if got := get(t, s.URL()+"/nothing"); !strings.HasPrefix(got, "404 ") {
		t.Error(got)
	}
	if a := post(t, s.URL()+"/tokenize", `{"prompt":"a b c"}`, ""); !strings.Contains(string(a.body), `"count":3`) {
		t.Errorf("%s", a.body)
	}
	for range 4 {
		post(t, s.URL()+"/v1/completions", ask("", 10), "")
	}
	resp, err := http.Get(s.URL() + "/ctl/dump")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	sum, log, err := ReadLog(resp.Body)
	if err != nil || len(log) != 4 || sum.Tokens != 40 || sum.Late == 0 || sum.Plan.ChunkMax != 5 || sum.First == 0 || sum.Others["GET /health"] != 1 {
		t.Fatalf("%+v, %d requests, %v", sum, len(log), err)
	}
	want, _ := json.Marshal(s.Log())
	got, _ := json.Marshal(log)
	if string(want) != string(got) || len(log[3].Events) != len(s.Log()[3].Events) || log[3].Events[2] != s.Log()[3].Events[2] {
		t.Errorf("the dump says %s, the log %s", got, want)
	}
	for _, bad := range []string{"pattern=nonsense", "gap_us=-1", "gapus=3", "gap_us=x"} {
		if got := get(t, s.URL()+"/ctl/cfg?"+bad); !strings.HasPrefix(got, "400 ") {
			t.Errorf("%s: %s", bad, got)
		}
	}
	if a := post(t, s.URL()+"/v1/completions", ask("", 1), "{"); a.status != 400 {
		t.Errorf("status %d for a broken plan", a.status)
	}
	if got := get(t, s.URL()+"/ctl/reset"); !strings.HasPrefix(got, "200 ") || len(s.Log()) != 0 {
		t.Errorf("%s; %d requests left", got, len(s.Log()))
	}
}

// A reader that stops holds the server up: its log says so.
func TestBlockedFlood(t *testing.T) {
	t.Parallel()
	s := listen(t, Options{Plan: Plan{Flood: true, Batch: 16}})
	a := post(t, s.URL()+"/v1/completions", ask("", 20_000), "")
	log := s.Log()
	if len(a.events) != 20_002 || len(log) != 1 || log[0].Sent != 20_000 {
		t.Fatalf("%d events, %d requests", len(a.events), len(log))
	}
	for i, e := range a.events[:20_000] {
		if e.number != i || e.tokens != 1 {
			t.Fatalf("event %d: %+v", i, e)
		}
	}
}

func TestListenErrors(t *testing.T) {
	t.Parallel()
	s := listen(t, Options{})
	if _, err := Listen(Options{Address: "127.0.0.1:notaport"}); err == nil {
		t.Error("no error for a bad address")
	}
	if _, err := Listen(Options{Plan: Plan{GapUS: -1}}); err == nil {
		t.Error("no error for a bad plan")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Listen(Options{Address: l.Addr().String()}); err == nil {
		t.Error("no error for an address in use")
	}
	s.Close()
	s.Close() // twice does no harm
}

//go:build linux && (amd64 || arm64)

package loadgen

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep/loadgen/mock"
)

// Both ways to the server see the same of whatever it does.
func TestPathsAgree(t *testing.T) {
	normal := mock.Timing{First: msec, Gap: msec}
	for _, c := range []struct {
		name   string
		answer func(mock.Request) []mock.Step
		change func(*Spec)
		want   string // outcomes and kinds of the 8 requests
	}{
		{name: "good", answer: steady(normal), want: "8 ok"},
		{name: "total only", answer: steady(mock.Timing{First: msec, Gap: msec, Usage: mock.Total}), want: "8 ok"},
		{name: "no count", answer: steady(mock.Timing{First: msec, Gap: msec, Usage: mock.None}), want: "8 failed no_usage"},
		{name: "byte by byte", answer: func(r mock.Request) []mock.Step {
			var steps []mock.Step
			for _, s := range mock.Stream(r, mock.Timing{}) {
				for _, b := range s.Bytes {
					steps = append(steps, mock.Step{Bytes: []byte{b}})
				}
			}
			return steps
		}, want: "8 ok"},
		{name: "in one piece", answer: func(r mock.Request) []mock.Step {
			var all []byte
			for _, s := range mock.Stream(r, mock.Timing{}) {
				all = append(all, s.Bytes...)
			}
			return []mock.Step{{Wait: msec, Bytes: all}}
		}, want: "8 ok"},
		{name: "closes after each", answer: func(r mock.Request) []mock.Step {
			steps := mock.Stream(r, normal)
			steps[len(steps)-1].Close = true
			return steps
		}, want: "8 ok"},
		{name: "no end of events", answer: func(r mock.Request) []mock.Step {
			return append(mock.Stream(r, mock.Timing{Tokens: 2 * mostEvents(5)}), mock.Step{Hang: true})
		}, want: "8 failed endless_stream"},
		{name: "no end of comments", answer: func(mock.Request) []mock.Step {
			return []mock.Step{{Bytes: []byte(mock.Head)}, {Bytes: []byte("8000\r\n" + strings.Repeat(":\n", 0x4000) + "\r\n")}, {Hang: true}}
		}, want: "8 failed endless_stream"},
		{name: "until the end of the connection", answer: func(mock.Request) []mock.Step {
			body := strings.Replace(helloEvents, `"completion_tokens":1`, `"completion_tokens":5`, 1)
			return []mock.Step{{Bytes: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + body), Close: true}}
		}, want: "8 ok"},
		{name: "end never comes", answer: func(r mock.Request) []mock.Step {
			steps := mock.Stream(r, normal)
			end := &steps[len(steps)-1]
			end.Bytes = end.Bytes[:len(end.Bytes)-len(mock.Last)]
			return append(steps, mock.Step{Hang: true})
		}, want: "8 ok"},
		{name: "cut", answer: func(r mock.Request) []mock.Step {
			return []mock.Step{mock.Stream(r, normal)[0], {Wait: msec, Close: true}}
		}, want: "8 failed cut"},
		{name: "silent end", answer: func(r mock.Request) []mock.Step { return []mock.Step{{Wait: 300 * msec, Close: true}} }, want: "8 failed empty_reply"},
		{name: "hangs", answer: func(r mock.Request) []mock.Step { return []mock.Step{{Hang: true}} }, change: func(s *Spec) { s.RequestTimeout = 200 * msec }, want: "8 failed timeout"},
		{name: "gateway", answer: func(mock.Request) []mock.Step { return mock.Answer(502, "bad") }, want: "8 failed http_502"},
		{name: "queue full", answer: func(mock.Request) []mock.Step {
			return mock.Answer(503, `{"object":"error","message":"The request queue is full.","type":"503","param":null,"code":503}`)
		}, want: "8 rejected queue_full"},
		{name: "no HTTP", answer: func(mock.Request) []mock.Step { return []mock.Step{{Bytes: []byte("SSH-2.0\r\n")}} }, want: "8 failed bad_reply"},
		{name: "one long request", answer: steady(normal), change: func(s *Spec) {
			s.Classes[0].Input = Range{1 << 16, 1 << 16}
			s.Window.Requests["short"] = 2
		}, want: "2 ok"},
	} {
		for _, way := range []struct{ client, stamps string }{{ClientEpoll, ""}, {ClientEpoll, StampsUser}, {ClientConn, ""}, {ClientHTTP, ""}} {
			t.Run(c.name+"/"+strings.TrimSpace(way.client+" "+way.stamps), func(t *testing.T) {
				t.Parallel()
				server := &mock.Server{Answer: c.answer}
				url, err := server.Listen()
				if err != nil {
					t.Fatal(err)
				}
				defer server.Close()
				spec := testSpec(server, 4)
				spec.URL, spec.Dial, spec.Client, spec.Stamps, spec.Warmup = url, nil, way.client, way.stamps, Warmup{}
				spec.Window = Window{Max: time.Minute, Requests: map[string]int{"short": 8}, Exactly: true}
				if c.change != nil {
					c.change(&spec)
				}
				var record bytes.Buffer
				spec.Record = &record
				if _, err := Run(t.Context(), spec); err != nil && !strings.Contains(err.Error(), ErrFailing.Error()) {
					t.Fatal(err)
				}
				seen := map[string]int{}
				if _, err := ReadRecord(&record, func(r *Record) error {
					if r.Outcome != Cancelled {
						seen[strings.TrimSpace(string(r.Outcome)+" "+r.Kind)]++
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				for kind, n := range seen {
					if got := fmt.Sprint(n, " ", kind); got != c.want {
						t.Errorf("%s, want %s", got, c.want)
					}
				}
			})
		}
	}
}

// A server that is not there, and one that goes away, end a run on either way.
func TestShardsMeetDeadServers(t *testing.T) {
	server := &mock.Server{Answer: steady(mock.Timing{First: msec, Gap: msec})}
	url, err := server.Listen()
	if err != nil {
		t.Fatal(err)
	}
	spec := testSpec(server, 8)
	spec.URL, spec.Dial, spec.Warmup = url, nil, Warmup{}
	spec.Window = Window{Min: 20 * second, Max: 20 * second}
	spec.OnWindow = func(bool) { go server.Close() }
	for _, state := range []string{"goes away", "is not there"} {
		res, err := Run(t.Context(), spec)
		if err == nil || !strings.Contains(err.Error(), ErrFailing.Error()) || res.Failures[KindRefused] == 0 {
			t.Errorf("a server that %s: error %v, failures %v", state, err, res.Failures)
		}
		spec.OnWindow = nil
	}
}

// The stamps of a record are in order, and a kernel's is never after the client read it.
func TestStampsOfShards(t *testing.T) {
	keep, why := probeStamps(t.Context())
	if keep == nil {
		t.Skip(why)
	}
	keep.close()
	server := &mock.Server{Answer: steady(mock.Timing{First: 2 * msec, Gap: msec})}
	url, err := server.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	spec := testSpec(server, 16)
	spec.URL, spec.Dial, spec.Shards = url, nil, 2
	spec.Window = Window{Max: time.Minute, Requests: map[string]int{"short": 64}}
	var file bytes.Buffer
	spec.Record = &file
	res, err := Run(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if res.Client != ClientEpoll || res.Stamps != StampsKernel || res.Evidence["stamp_gap_p50_us"] <= 0 || res.Evidence["unstamped_reads"] > 0 {
		t.Errorf("client %s, stamps %s, evidence %v", res.Client, res.Stamps, res.Evidence)
	}
	rec, err := ReadRecord(&file, func(r *Record) error {
		if r.Outcome != OK {
			return nil
		}
		at := []time.Duration{r.Sched, r.Admit, r.Send, r.Sent, r.Header}
		for _, c := range r.Chunks {
			at = append(at, c.At)
		}
		at = append(at, r.End)
		at[3] = min(at[3], at[4]) // the answer may come before the writing thread goes on
		if !slices.IsSorted(at) {
			t.Errorf("%s/%d: times %v", r.Stream, r.Index, at)
		}
		if n := len(r.Chunks); n != 7 || r.Chunks[n-1].Kind != ChunkDone || r.Chunks[n-2].Kind != ChunkUsage || r.Chunks[0].Kind != ChunkContent || !r.Kernel {
			t.Errorf("%s/%d: kernel %v, chunks %v", r.Stream, r.Index, r.Kernel, r.Chunks)
		}
		return nil
	})
	if err != nil || rec.Torn || rec.End == nil || rec.Requests != res.Sent || rec.Opened < 0 || rec.Closed < rec.Opened || rec.Head.Stamps != StampsKernel {
		t.Errorf("recording %+v, %v; %d sent", rec, err, res.Sent)
	}
}

func TestTimers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var heap timers
	conns := make([]*shardConn, 200)
	for i := range conns {
		conns[i] = &shardConn{heapAt: -1, index: i}
	}
	set := map[*shardConn]bool{}
	for range 20000 {
		c := conns[rng.IntN(len(conns))]
		switch rng.IntN(3) {
		case 0, 1:
			heap.set(c, time.Duration(rng.IntN(1000)))
			set[c] = true
		default:
			heap.drop(c)
			delete(set, c)
		}
		if len(heap) != len(set) {
			t.Fatalf("%d timers, want %d", len(heap), len(set))
		}
		if first := heap.first(); first != nil {
			least := slices.MinFunc(heap, func(a, b *shardConn) int { return cmp.Compare(a.due, b.due) })
			if first.due != least.due || !set[first] {
				t.Fatalf("first at %v, want %v", first.due, least.due)
			}
		}
	}
}

// What a slot keeps while its answer of 200 events runs, at 4,000 streams.
func TestMemoryOfStreams(t *testing.T) {
	reads := wire(200)
	s := &shard{}
	before := heapInUse()
	for i := range 4000 / slowed {
		c := newShardConn(s, nil)
		c.reply.reset()
		for j, b := range reads[:len(reads)-1] {
			if _, err := c.reply.feed(b, time.Duration(j)*20*msec+time.Duration(i*j%1000)*time.Microsecond); err != nil {
				t.Fatal(err)
			}
		}
	}
	each := (heapInUse() - before) / len(s.conns)
	t.Logf("%d bytes", each)
	if each > 32<<10 {
		t.Errorf("%d bytes for each stream", each)
	}
}

func TestRoom(t *testing.T) {
	to, err := addressOf(context.Background(), "127.0.0.1:80")
	if err != nil {
		t.Fatal(err)
	}
	if got := tableAddress(to); got != "0100007F:0050" {
		t.Errorf("address %s in the kernel's table", got)
	}
	if err := checkRoom(100, to); err != nil {
		t.Error(err)
	}
	if err := checkRoom(1<<30, to); err == nil || !strings.Contains(err.Error(), "open files") {
		t.Errorf("a thousand million connections: %v", err)
	}
}

// Shards send every request of a schedule, in its time or late, and never another.
func TestShardsKeepTheSchedule(t *testing.T) {
	server := &mock.Server{Answer: steady(mock.Timing{First: msec, Gap: msec})}
	url, err := server.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	spec := openSpec(server, Arrivals{Law: Poisson, Rate: 300})
	spec.URL, spec.Dial, spec.Shards, spec.Warmup = url, nil, 2, Warmup{}
	spec.Window = Window{Max: time.Minute, Requests: map[string]int{"short": 200}, Exactly: true}
	var record bytes.Buffer
	spec.Record = &record
	res, err := Run(t.Context(), spec)
	if err != nil || res.Completed != 200 {
		t.Fatalf("%d completed, %v: %s", res.Completed, err, res.FirstFailure)
	}
	plan := newPlan(spec.Classes[0].Arrivals, stream(spec.Seed, "arrivals", "short"))
	var times []time.Duration
	for range 200 {
		at, _ := plan.draw()
		times = append(times, at)
	}
	seen := map[int]bool{}
	if _, err := ReadRecord(&record, func(r *Record) error {
		if seen[r.Index] = true; r.Sched != times[r.Index] || r.Send < r.Sched {
			t.Errorf("request %d planned for %v, sent at %v, want %v", r.Index, r.Sched, r.Send, times[r.Index])
		}
		return nil
	}); err != nil || len(seen) != 200 {
		t.Errorf("%d requests, %v", len(seen), err)
	}
}

// With stamps taken after reads, answers that have ended are wound up when nothing is left to read, or when there is more of
// them than was asked for.
func TestEndingsWaitForReads(t *testing.T) {
	r, err := newRun(Spec{URL: "http://h:1", Route: "/v1/completions", Window: Window{Min: time.Hour},
		Classes: []Class{{Name: "a", Concurrency: 1, Input: Range{1, 1}, Output: Range{1, 1}}}})
	if err != nil {
		t.Fatal(err)
	}
	s := &shard{run: r, path: &shardPath{run: r}, in: newReceiver(readBuffer, false)}
	whole := bytes.Join(wire(3), nil)
	for range 2 {
		c := newShardConn(s, nil)
		c.state, c.busy = connOpen, true
		c.reply.reset()
		s.arrivals = append(s.arrivals, arrival{conn: c, b: whole, now: msec})
	}
	s.digest()
	if len(s.ended) != 2 || s.ended[0].at != msec || s.conns[0].state != connEnded || s.hurry || s.wait(0) != 0 || len(s.arrivals) != 0 {
		t.Fatalf("%d ended, first %+v, hurry %v, wait %v", len(s.ended), s.ended, s.hurry, s.wait(0))
	}
	s.arrivals = append(s.arrivals, arrival{conn: s.conns[0], err: io.EOF, now: 2 * msec})
	s.digest()
	if len(s.ended) != 2 || !s.hurry || !s.conns[0].reply.resp.close || s.conns[1].reply.resp.close {
		t.Errorf("the end of a connection behind its answer: %d ended, hurry %v", len(s.ended), s.hurry)
	}
}

package loadgen

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"testing"
	"time"
)

func heapInUse() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// Each definition on a stream that makes them differ: a role chunk, thought, an empty event with a token, two tokens in one event, a
// late usage event, a later end mark.
func TestDefinitions(t *testing.T) {
	at := func(n int) time.Duration { return time.Duration(n) * msec }
	r := Record{
		Sched: at(0), Send: at(10), End: at(460), Outcome: OK, OutputTokens: 6, Counted: true,
		Chunks: []Chunk{
			{At: at(60), Kind: ChunkRole},
			{At: at(110), Kind: ChunkEmpty, Tokens: 1},
			{At: at(140), Kind: ChunkReasoning, Tokens: 1},
			{At: at(170), Kind: ChunkComment},
			{At: at(200), Kind: ChunkContent, Tokens: 2},
			{At: at(230), Kind: ChunkContent, Tokens: 1},
			{At: at(260), Kind: ChunkEmpty},
			{At: at(360), Kind: ChunkUsage, Tokens: 1},
			{At: at(460), Kind: ChunkDone},
		},
	}
	for _, c := range []struct {
		name string
		f    func() (time.Duration, bool)
		want int
	}{
		{"TTFT", r.TTFT, 100}, {"ScheduledTTFT", r.ScheduledTTFT, 110}, {"ContentTTFT", r.ContentTTFT, 190}, {"ChoiceTTFT", r.ChoiceTTFT, 50}, {"TextTTFT", r.TextTTFT, 130},
		{"E2E", r.E2E, 220}, {"StreamE2E", r.StreamE2E, 450}, {"ChoiceE2E", r.ChoiceE2E, 250}, {"TPOT", r.TPOT, 24}, {"StreamTPOT", r.StreamTPOT, 64},
	} {
		if d, ok := c.f(); !ok || d != at(c.want) {
			t.Errorf("%s %v, %v, want %d ms", c.name, d, ok, c.want)
		}
	}
	if d, ok := r.NTPOT(); !ok || d != at(220)/6 {
		t.Errorf("NTPOT %v", d)
	}
	bearing := r.Bearing(nil)
	if got := fmt.Sprint(Gaps(nil, bearing)); got != "[30ms 60ms 30ms]" {
		t.Errorf("gaps %s", got)
	}
	if got := fmt.Sprint(ITL(nil, bearing)); got != "[30ms 30ms 30ms 15ms 15ms]" { // the usage event's token belongs to the last event before it
		t.Errorf("ITL %s", got)
	}
	none := Record{Send: -1, Sched: 5, OutputTokens: unknown}
	for _, f := range []func() (time.Duration, bool){none.TTFT, none.ScheduledTTFT, none.E2E, none.StreamE2E, none.TPOT, none.NTPOT, none.ChoiceE2E} {
		if d, ok := f(); ok {
			t.Errorf("a request without an answer has a metric: %v", d)
		}
	}
}

func someRequests(n int) []*finished {
	var list []*finished
	for i := range n {
		var tr track
		for j := range i % 50 {
			c := Chunk{At: time.Duration(i)*second + time.Duration(j*j)*msec, Bytes: 200 + j*7%300, Kind: ChunkKind(j % 10), Exact: j%3 > 0, User: j%7 == 0}
			switch j % 4 {
			case 0:
				c.Tokens = 1
			case 1:
				c.Tokens = unknown
			case 2:
				c.Tokens = j * 100
			}
			tr.add(c)
		}
		f := &finished{class: i % 2, open: i%5 == 0, track: tr.sealed()}
		f.rec = Record{
			Class: []string{"a", "b"}[i%2], Stream: measured, Index: i, Turn: i % 3, Sched: time.Duration(i), Admit: time.Duration(2 * i), Send: -1, Sent: -1, Header: -1, End: time.Hour,
			Outcome: outcomeCodes[i%4], Kind: KindCut, Reason: "it broke", Status: 200, Finish: "length", AskedInput: 5, AskedOutput: 7, PromptTokens: unknown, OutputTokens: 3 * i,
			CachedTokens: i, CachedDevice: unknown, CachedHost: 0, Counted: i%2 == 0, Kernel: i%3 == 0, Resent: i%7 == 0, Reads: i, Retransmits: unknown,
		}
		if i%6 == 0 {
			f.rec.Stream = warmUp
		}
		list = append(list, f)
	}
	return list
}

func someFile(t *testing.T, list []*finished) []byte {
	t.Helper()
	b := appendJSONFrame([]byte(recordMagic), frameHead, RecordHead{Schema: 1, Classes: []Class{{Name: "a"}, {Name: "b"}}})
	b = appendJSONFrame(b, frameMark, RecordMark{markOpened, 3 * second})
	for _, f := range list {
		b = appendFrame(b, frameRequest, func(b []byte) []byte { return appendRequest(b, f) })
	}
	b = appendFrame(b, '?', func(b []byte) []byte { return append(b, "of a later version"...) })
	return appendJSONFrame(b, frameEnd, RecordEnd{Complete: true})
}

// What is written is read again, whole or cut at any byte.
func TestRecordFile(t *testing.T) {
	list := someRequests(36)
	file := someFile(t, list)
	read := func(b []byte) (n int, rec Recording, err error) {
		rec, err = ReadRecord(bytes.NewReader(b), func(r *Record) error {
			want := list[n].rec
			chunks, _ := appendChunks(nil, list[n].track)
			got := *r
			if len(got.Chunks) != len(chunks) || len(chunks) > 0 && !reflect.DeepEqual(got.Chunks, chunks) {
				t.Fatalf("chunks of %d: %v", n, got.Chunks)
			}
			got.Chunks = nil
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("request %d:\ngot  %+v\nwant %+v", n, got, want)
			}
			n++
			return nil
		})
		return n, rec, err
	}
	n, rec, err := read(file)
	if n != len(list) || err != nil || rec.Torn || rec.End == nil || !rec.End.Complete || rec.Opened != 3*second || rec.Closed != -1 {
		t.Fatalf("%d requests, %+v, %v", n, rec, err)
	}
	last := 0
	for cut := len(recordMagic); cut < len(file); cut += 1 + cut%11 {
		n, rec, err := read(file[:cut])
		if err != nil || n < last || rec.End != nil {
			t.Fatalf("cut at %d: %d requests after %d, torn %v, %v", cut, n, last, rec.Torn, err)
		}
		last = n
	}
	for i := len(recordMagic); i < len(file); i += 37 { // a flipped bit is noticed
		bad := bytes.Clone(file)
		bad[i] ^= 0x10
		if n, rec, err := read(bad); err == nil && !rec.Torn && n == len(list) {
			t.Errorf("a bit flipped at %d went unnoticed", i)
		}
	}
	if _, err := ReadRecord(bytes.NewReader([]byte("{}\n")), nil); err == nil {
		t.Error("any file is a record")
	}
}

func FuzzRecordFile(f *testing.F) {
	f.Add(someFile(&testing.T{}, someRequests(12)))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = ReadRecord(bytes.NewReader(b), nil)
		var fin finished
		_ = readRequest(b, &fin)
	})
}

// A million events go through the collector without leaving anything behind.
func TestMemoryIsFlat(t *testing.T) {
	spec := Spec{URL: "http://h:1", Route: "/v1/completions", Classes: []Class{{Name: "a", Concurrency: 1, Input: Range{1, 1}, Output: Range{1, 1}}}, Window: Window{Min: time.Hour}, Record: io.Discard, Requests: io.Discard}
	r, err := newRun(spec)
	if err != nil {
		t.Fatal(err)
	}
	r.win.opened = 0
	go r.out.out.loop()
	reads := wire(100)
	var reply reply
	var at int
	requests := func(n int) int {
		now := time.Duration(0)
		for range n {
			reply.reset()
			for _, b := range reads {
				now += time.Duration(1000 + at%97)
				at++
				_, _ = reply.feed(b, now)
			}
			fin := r.out.blank()
			fin.rec = Record{Stream: measured, Index: 1}
			r.settle(fin, &reply, reply.judge(100, nil), now)
			r.out.take(fin)
			r.out.out.push(false)
		}
		return heapInUse()
	}
	requests(4000) // the exact samples give way to buckets at 131,072
	before := requests(10)
	after := requests(10000 / slowed)
	// The samples of 10,000 requests in some ten distributions are 0.8 MB before their arrays double; events would be 7 MB.
	if grown := after - before; grown > 2<<20 {
		t.Errorf("a million events left %d KiB", grown>>10)
	}
	if n := r.summary.window[0].itl.n; n < 1_000_000/slowed {
		t.Errorf("%d samples of ITL", n)
	}
	r.out.out.close()
}

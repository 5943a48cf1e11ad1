package loadgen

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"sweep/loadgen/mock"
)

// wire is a whole answer of n tokens as SGLang sends it, by reads: the head with the first event, one event each, and
// the end.
func wire(n int) [][]byte {
	var reads [][]byte
	for _, step := range mock.Stream(mock.Request{MaxTokens: n, PromptIDs: make([]int, 1000)}, mock.Timing{}) {
		reads = append(reads, step.Bytes)
	}
	return reads
}

// BenchmarkSSE parses streams of 512 tokens through chunk framing, event framing, scan and token count. One op is one
// event, one event a read.
func BenchmarkSSE(b *testing.B) {
	recorded := func(name string) [][]byte {
		return bytes.SplitAfter(readTestFile(b, "testdata/real/"+name+".http"), []byte("\n\n\r\n"))
	}
	for _, c := range []struct {
		name  string
		reads [][]byte
	}{
		{"completions", wire(512)},
		{"chat", recorded("sglang_chat")},
		{"generate-cumulative", recorded("sglang_generate_cumulative")},
		{"llama", recorded("cpu_llama_completions")},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := &reply{}
			n, size := 0, 0
			for i := 0; i < len(c.reads); i++ {
				size += len(c.reads[i])
			}
			r.reset()
			for _, read := range c.reads { // grows the buffers once
				_, _ = r.feed(read, 0)
			}
			if r.events < 30 || !r.done {
				b.Fatalf("%d events", r.events)
			}
			b.SetBytes(int64(size / len(c.reads)))
			b.ReportAllocs()
			for b.Loop() {
				if n == 0 {
					r.reset()
				}
				if _, err := r.feed(c.reads[n], time.Duration(n)); err != nil {
					b.Fatal(err)
				}
				n = (n + 1) % len(c.reads)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// The path of an event allocates nothing.
func TestNoAllocationPerEvent(t *testing.T) {
	reads := wire(64)
	r := &reply{}
	run := func() {
		r.reset()
		for _, read := range reads {
			_, _ = r.feed(read, 1)
		}
	}
	run()
	if n := testing.AllocsPerRun(10, run); n > 0 {
		t.Errorf("%v allocations for a stream of 64 events", n)
	}
	if r.completion != 64 || r.track.bearing != 64 {
		t.Errorf("%d tokens in %d chunks", r.completion, r.track.bearing)
	}
}

// blaster answers each request of a known length at once with the same bytes, so that next to nothing but the
// client and the kernel is measured.
func blaster(b *testing.B, request int, answer []byte) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	b.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				buf := make([]byte, request)
				for {
					if _, err := io.ReadFull(conn, buf); err != nil {
						return
					}
					if _, err := conn.Write(answer); err != nil {
						return
					}
				}
			})
		}
	})
	return "http://" + l.Addr().String()
}

// BenchmarkClient does requests of 32 events over kept connections at several numbers of streams. One op is one
// request: prompt of 256 ids, write, reads, parse, judge, sample; the answering side is a loop of read and
// write in the same process.
func BenchmarkClient(b *testing.B) {
	for _, streams := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			answer := bytes.Join(wire(32), nil)
			spec := Spec{Route: "/v1/completions", Model: "m", Seed: 1, Classes: []Class{{Name: "a", Input: Range{256, 256}, Output: Range{32, 32}}}}
			for i := range 900 {
				spec.Vocabulary = append(spec.Vocabulary, 100+i) // all of three digits: each request is as long
			}
			spec.URL = "http://127.0.0.1:12345"
			m, err := newMaker(&spec)
			if err != nil {
				b.Fatal(err)
			}
			spec.URL = blaster(b, len(m.make(0, measured, 0, nil).bytes), answer)
			dial, _, err := dialer(&spec)
			if err != nil {
				b.Fatal(err)
			}
			start := time.Now()
			jobs := make(chan int, streams)
			var wg sync.WaitGroup
			for range streams {
				wg.Go(func() {
					c := &client{dial: dial, timeout: time.Minute, since: func() time.Duration { return time.Since(start) }}
					defer c.drop()
					var buf []byte
					for i := range jobs {
						req := m.make(0, measured, i, buf)
						buf = req.bytes
						trip, err := c.do(context.Background(), req.bytes)
						v := c.reply.judge(req.output, err)
						c.reply.sample(trip, c.since(), v)
						if v.outcome != OK {
							b.Errorf("%+v", v)
							return
						}
					}
				})
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				jobs <- i
				i++
			}
			close(jobs)
			wg.Wait()
			b.ReportMetric(float64(b.N)*32/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkPrompt prepares requests with prompts of 4,000 ids.
func BenchmarkPrompt(b *testing.B) {
	m := testMaker(b, func(s *Spec) { s.Classes[0].Input = Range{4000, 4000} })
	var buf []byte
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		buf = m.make(0, measured, i, buf).bytes
		i++
	}
	b.SetBytes(int64(len(buf)))
}

// BenchmarkSummarize computes the values of 10,000 requests of 100 tokens.
func BenchmarkSummarize(b *testing.B) {
	var samples []*sample
	for i := range 10000 {
		samples = append(samples, goodSample(0, time.Duration(i+1)*msec, time.Duration(1+i%977)*msec, time.Duration(1+i%97)*msec, 100))
	}
	for b.Loop() {
		summarize(window{0, time.Hour}, []Class{{Name: "a"}}, samples)
	}
}

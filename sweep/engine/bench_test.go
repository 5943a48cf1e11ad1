package engine

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"sweep/sweep"
)

// busyLog is what a server under load writes, in the mix of a recorded night: lines about the batch and answered requests.
func busyLog(engine string, lines int) []byte {
	var b bytes.Buffer
	for i := range lines {
		clock := fmt.Sprintf("%02d:%02d:%02d", i/3600%24, i/60%60, i%60)
		switch {
		case engine == "vllm" && i%10 == 0:
			fmt.Fprintf(&b, "(APIServer pid=7928) INFO 11-29 %s [loggers.py:335] Engine 000: Avg prompt throughput: 148.1 tokens/s, Avg generation throughput: 991.7 tokens/s, Running: 15 reqs, Waiting: 5 reqs, GPU KV cache usage: 55.2%%, Prefix cache hit rate: 0.0%%\n", clock)
		case engine == "llama.cpp" && i%3 == 0:
			fmt.Fprintf(&b, "1.35.716.244 I slot print_timing: id  0 | task %d | n_decoded =    172, tg =  12.00 t/s\n", i)
		case engine == "llama.cpp":
			fmt.Fprintf(&b, "1.37.495.428 I slot      release: id  0 | task %d | stop processing: n_tokens = 1218, truncated = 0\n", i)
		case engine == "vllm" || i%4 == 0:
			fmt.Fprintf(&b, "[2026-11-29 %s] INFO:     127.0.0.1:%d - \"POST /v1/completions HTTP/1.1\" 200 OK\n", clock, 30000+i%9999)
		case i%4 == 1:
			fmt.Fprintf(&b, "[2026-11-29 %s TP0] Prefill batch, #new-seq: 3, #new-token: 234, #cached-token: 1, token usage: 0.13, #running-req: 41, #queue-req: 0, #pending-token: 0, cuda graph: False, input throughput (token/s): 7171.08\n", clock)
		default:
			fmt.Fprintf(&b, "[2026-11-29 %s TP0] Decode batch, #running-req: 64, #token: %d, token usage: 0.41, cuda graph: True, gen throughput (token/s): 3120.45, #queue-req: 3\n", clock, 210000+i)
		}
	}
	return b.Bytes()
}

func BenchmarkLog(b *testing.B) {
	recorded := func(name string) []byte {
		data, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		return data
	}
	for _, c := range []struct {
		name, engine string
		log          []byte
	}{
		{"busy/sglang", "sglang", busyLog("sglang", 20000)},
		{"busy/vllm", "vllm", busyLog("vllm", 20000)},
		{"busy/llama.cpp", "llama.cpp", busyLog("llama.cpp", 20000)},
		{"start/sglang", "sglang", recorded("testdata/sglang/good.log")},
		{"requests/sglang", "sglang", bytes.Repeat([]byte("[2026-03-01 02:00:01] Receive: obj=GenerateReqInput(rid='r1', text='"+strings.Repeat("what is it that you say of memory ", 40)+"', stream=True)\n"), 2000)},
		{"unknown", "sglang", bytes.Repeat([]byte("[2026-03-01 02:00:01 TP0] a line of something that says nothing at all of what is wanted here, as most debug lines do\n"), 20000)},
	} {
		b.Run(c.name, func(b *testing.B) {
			eng, _ := Lookup(c.engine)
			log := eng.NewLog()
			b.SetBytes(int64(len(c.log)))
			b.ReportAllocs()
			for b.Loop() {
				for rest := c.log; len(rest) > 0; {
					n := min(len(rest), 64<<10)
					log.Feed(rest[:n])
					rest = rest[n:]
				}
			}
		})
	}
}

// repeated gives a log again and again until so many bytes have been read.
type repeated struct {
	log  []byte
	at   int
	left int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	n := copy(p, r.log[r.at:])
	r.at = (r.at + n) % len(r.log)
	r.left -= n
	return n, nil
}

// A log of 200 MB is explained in the memory of a short one.
func BenchmarkExplain200MB(b *testing.B) {
	log := busyLog("sglang", 40000)
	const size = 200 << 20
	b.SetBytes(size)
	b.ReportAllocs()
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		e, err := Explain(&repeated{log: log, left: size}, Question{})
		if err != nil || e.Outcome == nil || *e.Outcome != sweep.OK {
			b.Fatalf("%+v: %v", e, err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/1e6, "MB-more-held")
	}
}

//go:build linux && (amd64 || arm64)

package loadgen

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"sweep/loadgen/truth"
)

// roleVariable makes this test's program play another part: a server of its own, or a hog.
const roleVariable = "SWEEP_LOADGEN_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "server":
		os.Exit(serveTruth())
	case "load":
		os.Exit(loadForever(os.Args[1]))
	case "hog":
		pin(0)
		fmt.Println("hogging")
		for os.Getppid() > 1 {
			for end := time.Now().Add(100 * msec); time.Now().Before(end); {
			}
		}
	default:
		os.Exit(m.Run())
	}
}

// serveTruth serves, spinning, until its standard input ends.
func serveTruth() int {
	pin(1)
	s, err := truth.Listen(truth.Options{Spin: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer s.Close()
	fmt.Println(s.URL())
	_, _ = bufio.NewReader(os.Stdin).ReadString(0)
	return 0
}

// pin keeps all threads of this process on one core.
func pin(core int) {
	var mask [16]uint64
	mask[core/64] = 1 << (core % 64)
	tasks, _ := filepath.Glob("/proc/self/task/*")
	for _, task := range tasks {
		id, _ := strconv.Atoi(filepath.Base(task))
		_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, uintptr(id), unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)))
	}
}

// part starts this program in another role and gives the first line that it prints.
func part(b *testing.B, role string) string {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		stdin.Close()
		_ = cmd.Process.Kill() // ours, started above
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// errorsOf holds the records of a run against the log of its server, in µs: errors of TTFT and of each gap. The server's zero is when
// it had read a request; own is the error of TTFT against the moment in which the request came to the server's socket, by the kernel's
// stamp, and unread is what lies between the two.
func errorsOf(b *testing.B, record []byte, log []truth.Request) (ttft, itl, unread, own []float64) {
	b.Helper()
	logs := map[string]*truth.Request{}
	for i := range log {
		logs[log[i].ID] = &log[i]
	}
	us := func(d time.Duration) float64 { return float64(d) / 1e3 }
	if _, err := ReadRecord(bytes.NewReader(record), func(r *Record) error {
		l := logs[r.ID()]
		if l == nil || r.Outcome != OK {
			return nil
		}
		x := truth.Expect(l)
		if d, ok := r.TTFT(); ok && x.FirstToken != nil {
			ttft = append(ttft, us(d-time.Duration(*x.FirstToken)))
			if l.Arrived != 0 {
				lay := time.Duration(l.Complete - l.Arrived)
				unread = append(unread, us(lay))
				own = append(own, us(d-time.Duration(*x.FirstToken)-lay))
			}
		}
		gaps := Gaps(nil, r.Bearing(nil))
		if len(gaps) != len(x.GapITL) {
			return fmt.Errorf("%s: %d gaps, %d by the log", r.ID(), len(gaps), len(x.GapITL))
		}
		for i, g := range gaps {
			d := g - time.Duration(x.GapITL[i])
			itl = append(itl, us(max(d, -d)))
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	return ttft, itl, unread, own
}

func p99(list []float64) float64 {
	slices.Sort(list)
	return list[rank(len(list), 0.99)]
}

// BenchmarkAccuracy runs streams against a server of its own process and core, whose timing is known, and reports the
// errors: TTFT (since the server had read the request, since it came to the server's socket, and what lies between) and gaps at p99, in µs, and what the
// client says of itself (0 valid, 1 suspect, 2 client-bound). hog: another process wants the client's core all the time. The
// numbers mean something on two cores of a machine that is otherwise idle.
func BenchmarkAccuracy(b *testing.B) {
	for _, c := range []struct {
		name    string
		streams int
		gapUS   int
		hog     bool
		rate    float64 // of an open class: requests a second; 0: a closed pool, whose first requests go in a burst
	}{
		{"100", 100, 20000, false, 0}, {"10000-events", 200, 20000, false, 0}, {"1000", 1000, 20000, false, 0},
		{"10000-events-staggered", 200, 20000, false, 100}, {"hog", 100, 20000, true, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			pin(0)
			url := part(b, "server")
			if c.hog {
				part(b, "hog")
			}
			if resp, err := http.Get(fmt.Sprintf("%s/ctl/cfg?first_us=200000&gap_us=%d&phase=spread", url, c.gapUS)); err != nil {
				b.Fatal(err)
			} else {
				resp.Body.Close()
			}
			for b.Loop() {
				accuracy(b, url, c.streams, c.rate, c.hog)
			}
		})
	}
}

func accuracy(b *testing.B, url string, streams int, rate float64, hog bool) {
	var record bytes.Buffer
	spec := Spec{
		URL: url, Route: "/v1/completions", Model: "m", Vocabulary: []int{5, 6, 7}, Seed: 1, Salt: fmt.Sprint(time.Now()), Tagged: true, Record: &record,
		Classes: []Class{{Name: "a", Concurrency: streams, Input: Range{16, 16}, Output: Range{100, 100}}},
		Window:  Window{Max: time.Minute, Requests: map[string]int{"a": 2 * streams}, Exactly: true},
	}
	if rate > 0 {
		spec.Classes[0].Concurrency, spec.Classes[0].Arrivals = 0, &Arrivals{Law: Constant, Rate: rate}
	}
	var before, after syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	res, err := Run(b.Context(), spec)
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	if err != nil {
		b.Fatal(err)
	}
	resp, err := http.Get(url + "/ctl/dump")
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	_, log, err := truth.ReadLog(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	ttft, itl, unread, own := errorsOf(b, record.Bytes(), log)
	b.ReportMetric(p99(ttft), "ttft-err-p99-us")
	b.ReportMetric(ttft[len(ttft)/2], "ttft-err-p50-us")
	b.ReportMetric(p99(itl), "itl-err-p99-us")
	if len(own) > 0 {
		b.ReportMetric(p99(own), "ttft-err-from-arrival-p99-us")
		b.ReportMetric(p99(unread), "server-read-late-p99-us")
	}
	b.ReportMetric(res.Evidence["stamp_gap_p99_us"], "read-late-p99-us")
	b.ReportMetric(float64(slices.Index([]string{Valid, Suspect, ClientBound}, res.Verdict)), "verdict")
	cpu := float64(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	b.ReportMetric(cpu/1e3/res.WholeEvidence["events"], "cpu-us/event")
	b.ReportMetric(res.Evidence["run_delay_share"], "run-delay-share")
	b.ReportMetric(res.Evidence["cpu_share"], "cpu-share")
	b.ReportMetric(res.Evidence["late_coalesced_share"], "late-coalesced")
	if hog && res.Verdict == Valid {
		b.Logf("a client without its core calls itself valid: %v", res.Evidence)
	}
}

// BenchmarkFlood reads as fast as a server writes, one or 16 events at a time, and reports the CPU of an event. One op is 64
// requests of 1,000 tokens.
func BenchmarkFlood(b *testing.B) {
	for _, batch := range []int{1, 16} {
		b.Run(fmt.Sprint(batch), func(b *testing.B) {
			pin(0)
			url := part(b, "server")
			if resp, err := http.Get(fmt.Sprintf("%s/ctl/cfg?pattern=flood&first_us=0&gap_us=0&batch=%d", url, batch)); err != nil {
				b.Fatal(err)
			} else {
				resp.Body.Close()
			}
			spec := Spec{
				URL: url, Route: "/v1/completions", Model: "m", Vocabulary: []int{5, 6, 7}, Seed: 1, Salt: "a",
				Classes: []Class{{Name: "a", Concurrency: 64, Input: Range{16, 16}, Output: Range{1000, 1000}}},
				Window:  Window{Max: time.Hour, Requests: map[string]int{"a": 64 * b.N}, Exactly: true},
			}
			var before, after syscall.Rusage
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
			b.ResetTimer()
			res, err := Run(b.Context(), spec)
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
			if err != nil || res.Failed > 0 {
				b.Fatal(err, res.FirstFailure)
			}
			cpu := float64(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
			b.ReportMetric(cpu/1e3/res.WholeEvidence["events"], "cpu-us/event")
			b.ReportMetric(res.WholeEvidence["events"]/res.WholeEvidence["reads"], "events/read")
		})
	}
}

// BenchmarkSchedule sends planned requests, 1,000 a second, and reports how late they went. One op is a second of
// them: -benchtime 60x is a minute.
func BenchmarkSchedule(b *testing.B) {
	for _, law := range []string{Poisson, Gamma, Constant} {
		b.Run(law, func(b *testing.B) {
			pin(0)
			url := part(b, "server")
			if resp, err := http.Get(url + "/ctl/cfg?first_us=2000&gap_us=1000"); err != nil {
				b.Fatal(err)
			} else {
				resp.Body.Close()
			}
			spec := Spec{
				URL: url, Route: "/v1/completions", Model: "m", Vocabulary: []int{5, 6, 7}, Seed: 1, Salt: fmt.Sprint(time.Now()),
				Classes: []Class{{Name: "a", Arrivals: &Arrivals{Law: law, Rate: 1000, Shape: 0.5}, Input: Range{16, 16}, Output: Range{2, 2}}},
				Window:  Window{Min: time.Duration(b.N) * time.Second},
			}
			b.ResetTimer()
			res, err := Run(b.Context(), spec)
			if err != nil || res.Failed > 0 {
				b.Fatal(err, res.FirstFailure)
			}
			b.ReportMetric(res.Evidence["send_lag_p50_us"], "lag-p50-us")
			b.ReportMetric(res.Evidence["send_lag_p99_us"], "lag-p99-us")
			b.ReportMetric(res.Evidence["send_lag_max_us"], "lag-max-us")
			b.ReportMetric(res.Evidence["unsent_requests"], "unsent")
		})
	}
}

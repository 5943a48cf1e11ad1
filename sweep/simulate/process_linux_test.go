package simulate

import (
	"encoding/csv"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// children are the live processes below a server, by short name.
func children(t *testing.T, pid int) map[string][]int {
	t.Helper()
	found := map[string][]int{}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		data, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue
		}
		open, end := strings.IndexByte(string(data), '('), strings.LastIndexByte(string(data), ')')
		fields := strings.Fields(string(data[end+1:]))
		if fields[1] == strconv.Itoa(pid) && fields[0] != "Z" {
			child, err := strconv.Atoi(filepath.Base(dir))
			if err != nil {
				t.Fatal(err)
			}
			name := string(data[open+1 : end])
			found[name] = append(found[name], child)
		}
	}
	return found
}

// gone waits until none of the processes lives.
func gone(t *testing.T, groups map[string][]int) {
	t.Helper()
	for name, pids := range groups {
		for _, pid := range pids {
			for limit := time.Now().Add(5 * time.Second); processAlive(pid, 0); time.Sleep(2 * time.Millisecond) {
				if time.Now().After(limit) {
					t.Fatalf("%s %d still lives", name, pid)
				}
			}
		}
	}
}

func smi(t *testing.T, state string, args ...string) [][]string {
	t.Helper()
	out, err := program(t, state, append([]string{"nvidia-smi"}, args...)...).Output()
	if err != nil {
		t.Fatalf("nvidia-smi %v: %v: %s", args, err, out)
	}
	r := csv.NewReader(strings.NewReader(string(out)))
	r.TrimLeadingSpace = true
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

const kimiName = "kimi-k2.5-8xrtx6000"

// Eight schedulers and a detokenizer hold each card's memory, as nvidia-smi sees it; all is gone with the launched process.
func TestProcessTreeAndMemory(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	s := launchServer(t, state, kimiName, 200, "--tp-size", "8", "--mem-fraction-static", "0.88", "--enable-hierarchical-cache", "--hicache-size", "48").ready()
	tree := children(t, s.cmd.Process.Pid)
	if len(tree["sglang::schedul"]) != 8 || len(tree["sglang::detoken"]) != 1 {
		t.Errorf("the tree is %v", tree)
	}
	rows := smi(t, state, "--profile", kimiName, "--query-gpu=index,uuid,memory.total,memory.used", "--format=csv,nounits")
	if len(rows) != 9 || strings.Join(rows[0], "|") != "index|uuid|memory.total [MiB]|memory.used [MiB]" {
		t.Fatalf("nvidia-smi says %v", rows)
	}
	for i, row := range rows[1:] {
		used, err := strconv.Atoi(row[3])
		const want = 97_887 - 630 - 5_622 // total − reserved − headroom of 5.49 GiB
		if err != nil || row[1] != kimi().UUID(i) || used < want-200 || used > want+200 {
			t.Errorf("card %d: %v, want about %d MiB in use", i, row, want)
		}
	}
	apps := smi(t, state, "--profile", kimiName, "--query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory", "--format=csv,noheader,nounits")
	if len(apps) != 8 || apps[0][2] != "sglang::scheduler" {
		t.Errorf("the processes on the cards are %v", apps)
	}
	if free := hostAvailable(t, state); free > 30_000_000 {
		t.Errorf("%d kB of host memory left beside 8 × 48 GB of 449", free)
	}
	if err := s.cmd.Process.Kill(); err != nil { // as kill −9 of the launched process
		t.Fatal(err)
	}
	s.wait()
	gone(t, tree)
	for _, row := range smi(t, state, "--profile", kimiName, "--query-gpu=memory.used", "--format=csv,noheader,nounits") {
		if row[0] != "0" {
			t.Errorf("%s MiB in use after the end", row[0])
		}
	}
	if free := hostAvailable(t, state); free < 390_000_000 {
		t.Errorf("%d kB of host memory after the end", free)
	}
}

func hostAvailable(t *testing.T, state string) int {
	t.Helper()
	out, err := program(t, state, "meminfo", "--profile", kimiName).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(out), "\n") {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no MemAvailable in %s", out)
	return 0
}

// A scheduler killed while serving: SGLang notices, waits five seconds and kills itself; a stream just ends.
func TestSchedulerKilled(t *testing.T) {
	t.Parallel()
	s := launchServer(t, t.TempDir(), "llama-8b-24gb", 20).ready()
	tree := children(t, s.cmd.Process.Pid)
	body := make(chan string)
	go func() {
		_, text := s.do("POST", "/v1/completions", completion(ids(30, 1), 5000))
		body <- text
	}()
	waitRunning(t, s, 1)
	killed := time.Now()
	if err := syscall.Kill(tree["sglang::schedul"][0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := s.wait(); code != -9 {
		t.Errorf("exit %d, want −9", code)
	}
	if took := time.Since(killed); took < 5400*time.Millisecond/20 {
		t.Errorf("it ended after %v; SGLang takes 5.5 s, here a 20th", took)
	}
	if text := <-body; strings.Contains(text, "[DONE]") || !strings.Contains(text, "!unexpected EOF") {
		t.Errorf("the stream ended so: %q", tail(text, 200))
	}
	for _, want := range []string{
		fmt.Sprintf("Subprocess scheduler_0 (pid=%d) crashed with exit code -9. Triggering SIGQUIT for cleanup...", tree["sglang::schedul"][0]),
		"Sleeping 5 seconds before crash diagnostics", "No live scheduler processes found; skipping py-spy",
	} {
		if !strings.Contains(s.stderr.String(), want) {
			t.Errorf("the log lacks %q", want)
		}
	}
	gone(t, tree)
}

// A stopped scheduler: loads keep answering and stand still, server_info does not answer, health says no; then all goes on.
func TestSchedulerStopped(t *testing.T) {
	t.Parallel()
	s := launchServer(t, t.TempDir(), "llama-8b-24gb", 40).ready()
	pid := children(t, s.cmd.Process.Pid)["sglang::schedul"][0]
	go s.do("POST", "/v1/completions", completion(ids(30, 1), 7000))
	waitRunning(t, s, 1)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	last := ""
	for limit := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) { // longer than two steps
		_, body := s.get("/get_load")
		if body == last {
			break
		} else if last = body; time.Now().After(limit) {
			t.Fatal("it never stood still")
		}
	}
	if status, _ := s.get("/health"); status != 503 {
		t.Errorf("health of a stopped scheduler: %d", status)
	}
	_, first := s.get("/get_load")
	_, second := s.get("/get_load")
	if first != second {
		t.Errorf("loads move though the scheduler stands: %s, %s", first, second)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(5 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		if _, third := s.get("/get_load"); third != second {
			break
		} else if time.Now().After(limit) {
			t.Fatal("it never went on")
		}
	}
}

// The ways to be told to stop, and how the launched process then ends.
func TestStops(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		signal  syscall.Signal
		loading bool
		flags   []string
		code    int
		log     []string
	}{
		{"term", syscall.SIGTERM, false, nil, -9, []string{"SIGTERM received. signum=None frame=None. Draining requests and shutting down...", "Remaining number of requests 0. Remaining requests remaining_rids=[]."}},
		{"term 0.5.23", syscall.SIGTERM, false, []string{"--sglang-version", "0.5.23"}, 0, []string{"Finished server process"}},
		{"int", syscall.SIGINT, false, nil, 0, []string{"INFO:     Shutting down", "Finished server process"}},
		{"int 0.5.23", syscall.SIGINT, false, []string{"--sglang-version", "0.5.23"}, -2, []string{"KeyboardInterrupt"}},
		{"term while loading", syscall.SIGTERM, true, []string{"--fault", "hang@weights"}, -15, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := launchServer(t, t.TempDir(), "llama-8b-24gb", 50, c.flags...)
			if c.loading {
				s.waitLog("Load weight begin")
			} else {
				s.ready()
			}
			tree := children(t, s.cmd.Process.Pid)
			if err := s.cmd.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			if code := s.wait(); code != c.code {
				t.Errorf("exit %d, want %d", code, c.code)
			}
			for _, want := range c.log {
				if !strings.Contains(s.stderr.String(), want) {
					t.Errorf("the log lacks %q", want)
				}
			}
			gone(t, tree)
		})
	}
}

// SIGTERM with a stream open: the stream ends as it should, then the server.
func TestDrain(t *testing.T) {
	t.Parallel()
	s := launchServer(t, t.TempDir(), "llama-8b-24gb", 20).ready()
	body := make(chan string)
	go func() {
		_, text := s.do("POST", "/v1/completions", completion(ids(30, 1), 100))
		body <- text
	}()
	waitRunning(t, s, 1)
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.waitLog("SIGTERM received")
	if status, _ := s.get("/health"); status != 503 {
		t.Errorf("health while draining: %d", status)
	}
	if text := <-body; !strings.HasSuffix(text, "data: [DONE]\n\n") || !strings.Contains(text, `"completion_tokens":100`) {
		t.Errorf("the stream ended so: %q", tail(text, 300))
	}
	if code := s.wait(); code != -9 {
		t.Errorf("exit %d", code)
	}
}

// The port belongs to somebody else: the whole load first, then uvicorn's error; with another SGLang there, the warm-up
// talks to that one and the log says ready.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	first := launchServer(t, t.TempDir(), "llama-8b-24gb", 50).ready()
	second := launchServer(t, t.TempDir(), "llama-8b-24gb", 50, "--port", first.port)
	if code := second.wait(); code != 1 {
		t.Errorf("exit %d, want 1", code)
	}
	log := second.stderr.String()
	if !strings.Contains(log, "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', "+first.port+"): address already in use") || !strings.Contains(log, "fired up") {
		t.Errorf("the log ends so: %s", tail(log, 500))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // one that never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	third := launchServer(t, t.TempDir(), "llama-8b-24gb", 1000, "--port", strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	if code := third.wait(); code != -9 || !strings.Contains(third.stderr.String(), "Initialization failed. warmup error") {
		t.Errorf("exit %d: %s", code, tail(third.stderr.String(), 500))
	}
}

package simulate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// server is a simulated server in a process of its own.
type server struct {
	t      testing.TB
	cmd    *exec.Cmd
	url    string
	port   string
	stderr *lockedBuffer
	stdout *lockedBuffer
	done   chan struct{} // closed when the launched process is gone
	code   int           // then: as Python shows it
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// program is a command of the simulator with a state folder of this test's own.
func program(t testing.TB, state string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{"simulate"}, args...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1", StateVariable+"="+state)
	return cmd
}

// launchServer starts a server; flags come after profile, speed-up, model and port.
func launchServer(t testing.TB, state, profile string, speed int, flags ...string) *server {
	t.Helper()
	if !supported {
		t.Skip("servers can be simulated on Linux only")
	}
	s := &server{t: t, port: freePort(t), stderr: &lockedBuffer{}, stdout: &lockedBuffer{}, done: make(chan struct{})}
	for i, f := range flags {
		if f == "--port" {
			s.port = flags[i+1]
		}
	}
	args := append([]string{"sglang", "--profile", profile, "--speedup", fmt.Sprint(speed), "--model-path", "/models/m", "--port", s.port}, flags...)
	s.cmd = program(t, state, args...)
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stdout, s.cmd.Stderr = outW, errW
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	outW.Close()
	errW.Close()
	var copies sync.WaitGroup
	copies.Go(func() { _, _ = io.Copy(s.stdout, outR) })
	copies.Go(func() { _, _ = io.Copy(s.stderr, errR) })
	go func() {
		err := s.cmd.Wait()
		ws := s.cmd.ProcessState.Sys().(syscall.WaitStatus)
		s.code = ws.ExitStatus()
		if ws.Signaled() {
			s.code = -int(ws.Signal())
		}
		_ = err
		copied := make(chan struct{})
		go func() {
			copies.Wait()
			close(copied)
		}()
		select { // what it said last is still on its way
		case <-copied:
		case <-time.After(time.Second): // a child that was left behind holds the pipes
		}
		close(s.done)
	}()
	s.url = "http://127.0.0.1:" + s.port
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.done
		outR.Close()
		errR.Close()
		copies.Wait()
	})
	return s
}

// ready waits until the server says that it is.
func (s *server) ready() *server {
	s.t.Helper()
	s.waitLog("The server is fired up and ready to roll!")
	return s
}

func (s *server) waitLog(text string) {
	s.t.Helper()
	for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		if strings.Contains(s.stderr.String(), text) {
			return
		}
		select {
		case <-s.done:
			if !strings.Contains(s.stderr.String(), text) {
				s.t.Fatalf("the server ended with %d before it said %q:\n%s", s.code, text, tail(s.stderr.String(), 3000))
			}
			return
		default:
		}
	}
	s.t.Fatalf("the server never said %q:\n%s", text, tail(s.stderr.String(), 3000))
}

// wait waits for the launched process to end and returns its exit code.
func (s *server) wait() int {
	s.t.Helper()
	select {
	case <-s.done:
		return s.code
	case <-time.After(20 * time.Second):
		s.t.Fatalf("the server is still there:\n%s", tail(s.stderr.String(), 3000))
		return 0
	}
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

func (s *server) get(path string) (int, string) {
	s.t.Helper()
	return s.do(http.MethodGet, path, "")
}

func (s *server) do(method, path, body string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return r.StatusCode, string(data) + "!" + err.Error()
	}
	return r.StatusCode, string(data)
}

// ids is a prompt of n ordinary tokens as JSON; the seed makes it unlike others.
func ids(n, seed int) string {
	list := make([]int, n)
	for i := range list {
		list[i] = 300 + (i*7+seed*131)%1000
	}
	data, _ := json.Marshal(list)
	return string(data)
}

func completion(prompt string, tokens int) string {
	return fmt.Sprintf(`{"model":"m","prompt":%s,"max_tokens":%d,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`, prompt, tokens)
}

// BenchmarkEvents measures what one streamed event costs the server, in CPU time of its own process.
func BenchmarkEvents(b *testing.B) {
	s := launchServer(b, b.TempDir(), "kimi-k2.5-8xrtx6000", 20, "--tp-size", "8", "--mem-fraction-static", "0.88", "--stream-interval", "3", "--log-level-http", "warning").ready()
	before := cpuTime(b, s.cmd.Process.Pid)
	began := time.Now()
	var events, mu = 0, sync.Mutex{}
	var clients sync.WaitGroup
	stop := make(chan struct{})
	for i := range 119 {
		clients.Go(func() {
			for n := 0; ; n++ {
				r, err := http.Post(s.url+"/v1/completions", "application/json", strings.NewReader(completion(ids(960, i*1000+n), 400)))
				if err != nil {
					return
				}
				lines := bufio.NewScanner(r.Body)
				for lines.Scan() {
					if len(lines.Bytes()) > 0 {
						mu.Lock()
						events++
						enough := events == b.N
						mu.Unlock()
						if enough {
							close(stop)
						}
					}
					select {
					case <-stop:
						r.Body.Close()
						return
					default:
					}
				}
				r.Body.Close()
			}
		})
	}
	<-stop
	took := time.Since(began)
	used := cpuTime(b, s.cmd.Process.Pid) - before
	b.ReportMetric(float64(b.N)/took.Seconds(), "events/s")
	b.ReportMetric(used.Seconds()/float64(b.N)*1e6, "server-µs/event")
	_, report := s.get("/simulator")
	b.Log(report)
	clients.Wait()
}

func cpuTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	var user, system int64
	fmt.Sscan(fields[11], &user)
	fmt.Sscan(fields[12], &system)
	return time.Duration(user+system) * 10 * time.Millisecond
}

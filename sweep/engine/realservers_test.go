//go:build linux

package engine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep/sweep"
)

// Real servers on this machine's processor, installed by .ci/real/setup: SWEEP_REAL=1 runs them, for a minute each.
func TestRealServers(t *testing.T) {
	if os.Getenv("SWEEP_REAL") == "" {
		t.Skip("SWEEP_REAL is not set")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		engine, home string
		command      []string
		environ      []string
		settings     []sweep.Setting
		facts        sweep.Values
	}{
		{"vllm", "vllm-0.32.0", []string{"bin/vllm", "serve"}, []string{"VLLM_CPU_KVCACHE_SPACE=1", "HF_HUB_OFFLINE=1"},
			set("load-format=dummy", "enforce-eager=true", "max-model-len=2048", "max-num-seqs=16", "num-gpu-blocks-override=64"), sweep.Values{"kv_tokens": 8192, "context_length": 2048}},
		{"sglang", "sglang-0.5.23", []string{"bin/python", "-m", "sglang.launch_server"}, []string{"SGLANG_USE_CPU_ENGINE=1", "HF_HUB_OFFLINE=1", "OMP_NUM_THREADS=1"},
			set("device=cpu", "attention-backend=torch_native", "load-format=dummy", "disable-cuda-graph=true", "max-total-tokens=4096", "max-running-requests=16"), sweep.Values{"kv_tokens": 4096}},
	} {
		t.Run(c.engine, func(t *testing.T) {
			home := filepath.Join(cache, "sweep", "real", c.home)
			if _, err := os.Stat(filepath.Join(home, "complete")); err != nil {
				t.Skip("not installed: ", err)
			}
			eng, _ := Lookup(c.engine)
			port := freePort(t)
			argv := append(append([]string{filepath.Join(home, "venv", c.command[0])}, c.command[1:]...), eng.Argv(sweep.ServerSpec{Model: filepath.Join(home, "model"), ServedName: "real-1", Host: "127.0.0.1", Port: port, Settings: c.settings})...)
			log := startReal(t, argv, append(c.environ, eng.Environ...))
			get := getter(port)
			awaitReady(t, eng, get, log)
			in, err := eng.Inspect(t.Context(), get)
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range c.facts {
				if in.Facts[name] != want {
					t.Errorf("%s is %v, want %v", name, in.Facts[name], want)
				}
			}
			if version := c.home[strings.LastIndexByte(c.home, '-')+1:]; !strings.HasPrefix(in.Version, version) {
				t.Errorf("version %q, want %s", in.Version, version)
			}
			words, err := eng.Vocabulary(t.Context(), get, filepath.Join(home, "model"))
			if err != nil {
				t.Error(err)
			}
			before, err := eng.Sample(t.Context(), get)
			if err != nil {
				t.Fatal(err)
			}
			ask := `{"model":"real-1","prompt":"the time of day","max_tokens":20,"temperature":0,"ignore_eos":true}`
			if status, reply, err := get(t.Context(), "POST", eng.Generate, []byte(ask)); err != nil || status != 200 {
				t.Fatalf("%d %s %v", status, reply, err)
			}
			var after sweep.Values
			for range 50 { // counters may lag
				if after, err = eng.Sample(t.Context(), get); err != nil {
					t.Fatal(err)
				}
				if after[sweep.SignalFinishedTokens]-before[sweep.SignalFinishedTokens] >= 20 {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			if made := after[sweep.SignalFinishedTokens] - before[sweep.SignalFinishedTokens]; made != 20 {
				t.Errorf("finished tokens grew by %v, want 20", made)
			}
			if decoded := after[sweep.SignalDecodeTokens] - before[sweep.SignalDecodeTokens]; decoded != 19 {
				t.Errorf("decoded tokens grew by %v, want 19", decoded)
			}
			if err := eng.Flush(t.Context(), get); err != nil {
				t.Error(err)
			}
			data, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			e, err := Explain(bytes.NewReader(data), Question{})
			if err != nil || e.Engine != c.engine || word(e.Outcome) != "ok" || e.Phase != sweep.PhaseLoad || e.Facts["kv_tokens"] != c.facts["kv_tokens"] {
				t.Errorf("its log: %+v, %v", e, err)
			}
			t.Logf("version %s, facts %v, %d words of vocabulary, signals %v", in.Version, in.Facts, len(words), after)
		})
	}
}

// freePort finds two neighbours below the range from which connections take theirs.
func freePort(t *testing.T) int {
	t.Helper()
	free := func(port int) bool {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			l.Close()
		}
		return err == nil
	}
	for port := 21000 + os.Getpid()%5000; port < 30000; port += 2 {
		if free(port) && free(port+1) {
			return port
		}
	}
	t.Fatal("no free ports")
	return 0
}

// startReal starts a server in a process group of its own, which ends with the test.
func startReal(t *testing.T, argv, environ []string) (log string) {
	t.Helper()
	log = filepath.Join(t.TempDir(), "server.log")
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), environ...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		out.Close()
	})
	return log
}

func getter(port int) sweep.Getter {
	return func(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
		req, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), bytes.NewReader(body))
		if err != nil {
			return 0, nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, nil, err
		}
		defer resp.Body.Close()
		reply, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
		return resp.StatusCode, reply, err
	}
}

func awaitReady(t *testing.T, eng *sweep.Engine, get sweep.Getter, log string) {
	t.Helper()
	for end := time.Now().Add(4 * time.Minute); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		if status, _, err := get(t.Context(), "GET", eng.Health, nil); err == nil && status == 200 {
			return
		}
		data, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if e, err := Explain(bytes.NewReader(data), Question{Engine: eng.Name}); err != nil || e.Outcome != nil && *e.Outcome != sweep.OK {
			t.Fatalf("not ready: %+v, %v", e, err)
		}
	}
	t.Fatal("not ready in time")
}

package simulate

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestParseFault(t *testing.T) {
	for text, ok := range map[string]bool{
		"hang@weights": true, "die@graph": true, "slow@kv:2.5": true, "refuse:hicache-size": true, "stream-error@3": true, "mute@1": true,
		"crash@2": true, "leave-child": true, "ignore-term": true, "keep-alive@4": true, "empty@2": true, "exhaust@3": true, "oom-kill@kv": true,
		"oom-kill@9": true, "stranger@9:2.5": true, "stranger@weights:8": true, "crowd@dist:40": true, "garbage": true, "babble": true, "no-model": true,
		"force:enable-hierarchical-cache": true, "escape:setsid": true, "escape:orphan": true, "hoard@kv:0.5": true, "keep-memory:4": true, "wedge:0.5": true,
		"escape:": false, "escape:window": false, "hoard@kv": false, "keep-memory:0": false, "wedge": false,
		"oom-kill": false, "oom-kill@kv:3": false, "stranger@9": false, "stranger@lunch:3": false, "crowd@dist:0": false, "force:": false, "garbage@3": false,
		"hang": false, "hang@lunch": false, "slow@kv": false, "slow@kv:0": false, "mute@0": false, "mute@x": false, "refuse:": false,
		"leave-child@2": false, "": false, "die@graph:2": false,
	} {
		if _, err := parseFault(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Wrong command lines end as argparse and SGLang's own checks end them.
func TestArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		code int
		text string
	}{
		{"unknown flag", []string{"--mem-fraction-statik", "0.8"}, 2, "\nsglang serve: error: unrecognized arguments: --mem-fraction-statik 0.8\n"},
		{"bad choice", []string{"--schedule-policy", "nope"}, 2, "\nsglang serve: error: argument --schedule-policy: invalid choice: 'nope' (choose from 'lpm', 'random', 'fcfs', 'dfs-weight', 'lof', 'priority', 'routing-key')\n"},
		{"no int", []string{"--hicache-size", "0.5"}, 2, "\nsglang serve: error: argument --hicache-size: invalid int value: '0.5'\n"},
		{"no value", []string{"--hicache-size"}, 2, "\nsglang serve: error: argument --hicache-size: expected one argument\n"},
		{"refused flag", []string{"--fault", "refuse:hicache-size", "--hicache-size", "4"}, 2, "unrecognized arguments: --hicache-size 4\n"},
		{"hicache without radix", []string{"--enable-hierarchical-cache", "--disable-radix-cache"}, 1, "\nValueError: The arguments enable-hierarchical-cache and disable-radix-cache are mutually exclusive"},
		{"chunk and page", []string{"--chunked-prefill-size", "1000", "--page-size", "64"}, 1, "\nAssertionError: chunked_prefill_size must be divisible by page_size\n"},
		{"conservativeness", []string{"--schedule-conservativeness", "-1"}, 1, "\nAssertionError: schedule_conservativeness must be non-negative\n"},
		{"colon", []string{"--served-model-name", "a:b"}, 1, "\nAssertionError: served_model_name cannot contain a colon (':') character."},
		{"context", []string{"--context-length", "200000"}, 1, "\nValueError: Warning: User-specified context_length (200000) is greater than the derived context_length (8192)"},
		{"too many ranks", []string{"--tp-size", "2"}, -9, "torch.AcceleratorError: CUDA error: invalid device ordinal"},
		{"no such profile", []string{"--profile", "two-cards"}, 2, `no profile "two-cards": there are kimi-k2.5-8xrtx6000, llama-8b-24gb,`},
		{"no such version", []string{"--sglang-version", "9.9"}, 2, `no SGLang version "9.9"`},
		{"no such fault", []string{"--fault", "sulk"}, 2, `no fault "sulk"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := launchServer(t, t.TempDir(), "llama-8b-24gb", 200, c.args...)
			if code := s.wait(); code != c.code {
				t.Errorf("exit %d, want %d", code, c.code)
			}
			for limit := time.Now().Add(2 * time.Second); !strings.Contains(s.stderr.String(), c.text); time.Sleep(time.Millisecond) {
				if time.Now().After(limit) {
					t.Fatalf("want %q in\n%s", c.text, tail(s.stderr.String(), 800))
				}
			}
		})
	}
}

func TestHelpNamesFlags(t *testing.T) {
	t.Parallel()
	out, err := program(t, t.TempDir(), "sglang", "--profile", "llama-8b-24gb", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"--mem-fraction-static", "--hicache-size", "--tensor-parallel-size", "--cuda-graph-max-bs-decode", "--tp-size", "--enable-metrics"} {
		if !strings.Contains(string(out), flag) {
			t.Errorf("help lacks %s", flag)
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	launch := func(t *testing.T, flags ...string) *server {
		t.Parallel()
		return launchServer(t, t.TempDir(), "llama-8b-24gb", 50, flags...)
	}
	t.Run("hang", func(t *testing.T) {
		s := launch(t, "--fault", "hang@kv")
		s.waitLog("Load weight end")
		before := s.stderr.String()
		select {
		case <-s.done:
			t.Error("it ended")
		case <-time.After(300 * time.Millisecond):
		}
		if after := s.stderr.String(); after != before {
			t.Errorf("it goes on: %s", after[len(before):])
		}
	})
	t.Run("die", func(t *testing.T) {
		s := launch(t, "--fault", "die@graph")
		if code := s.wait(); code != 1 || !strings.Contains(s.stderr.String(), "RuntimeError: Rank 0 scheduler died during initialization (exit code: -9).") {
			t.Errorf("exit %d: %s", code, tail(s.stderr.String(), 500))
		}
	})
	t.Run("slow", func(t *testing.T) {
		began := time.Now()
		launch(t, "--fault", "slow@kv:40").ready()
		if took := time.Since(began); took < 400*time.Millisecond {
			t.Errorf("ready after %v: 0.5 s × 40 ÷ 50 alone are 0.4 s", took)
		}
	})
	t.Run("stream error", func(t *testing.T) {
		s := launch(t, "--fault", "stream-error@2", "--skip-server-warmup").ready()
		for i, broken := range []bool{false, true, false} {
			status, body := s.do("POST", "/v1/completions", completion(ids(20, i), 5))
			if status != 200 || strings.Contains(body, `data: {"error"`) != broken || !strings.HasSuffix(body, "data: [DONE]\n\n") {
				t.Errorf("stream %d: %d %s", i+1, status, body)
			}
		}
	})
	t.Run("mute", func(t *testing.T) {
		s := launch(t, "--fault", "mute@3", "--skip-server-warmup").ready()
		for i := range 2 {
			if _, body := s.do("POST", "/v1/completions", completion(ids(20, i), 5)); !strings.Contains(body, "[DONE]") {
				t.Errorf("request %d: %s", i+1, body)
			}
		}
		answered := make(chan struct{})
		go func() {
			s.do("POST", "/v1/completions", completion(ids(20, 9), 5))
			close(answered)
		}()
		for limit := time.Now().Add(5 * time.Second); ; { // the first look may come before the request does
			if status, _ := s.get("/health"); status == 503 {
				break
			} else if time.Now().After(limit) {
				t.Fatalf("health of a mute server: %d", status)
			}
		}
		select {
		case <-answered:
			t.Error("the third request was answered")
		default:
		}
	})
	t.Run("crash", func(t *testing.T) {
		s := launch(t, "--fault", "crash@2", "--skip-server-warmup").ready()
		s.do("POST", "/v1/completions", completion(ids(20, 1), 5))
		s.do("POST", "/v1/completions", completion(ids(20, 2), 5000))
		if code := s.wait(); code != -9 {
			t.Errorf("exit %d", code)
		}
	})
	t.Run("leave a child", func(t *testing.T) {
		s := launch(t, "--fault", "leave-child").ready()
		left := children(t, s.cmd.Process.Pid)["sglang::leftove"]
		if len(left) != 1 {
			t.Fatalf("no child to be left: %v", children(t, s.cmd.Process.Pid))
		}
		if err := s.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-s.done
		if !processAlive(left[0], 0) {
			t.Error("the child did not survive")
		}
		if p, err := os.FindProcess(left[0]); err == nil {
			_ = p.Kill()
		}
	})
	t.Run("ids out of range", func(t *testing.T) {
		s := launch(t).ready()
		s.do("POST", "/generate", `{"input_ids":[99999999],"sampling_params":{"max_new_tokens":4}}`)
		if code := s.wait(); code != -9 || !strings.Contains(s.stderr.String(), "CUBLAS_STATUS_EXECUTION_FAILED") || strings.Contains(s.stderr.String(), "out of memory") {
			t.Errorf("exit %d: %s", code, tail(s.stderr.String(), 500))
		}
	})
	t.Run("host overcommitted", func(t *testing.T) {
		t.Parallel()
		s := launchServer(t, t.TempDir(), kimiName, 500, "--tp-size", "8", "--mem-fraction-static", "0.88", "--enable-hierarchical-cache", "--hicache-size", "300")
		s.waitLog("Allocating kv hierarchical KV host pool: 4269126 tokens, 300.00 GB host memory.")
		select {
		case <-s.done:
			t.Errorf("it ended with %d; eight times 300 GB of 449 hang the machine", s.code)
		case <-time.After(500 * time.Millisecond):
		}
		if strings.Contains(s.stderr.String(), "Tree cache initialized") {
			t.Error("it started")
		}
	})
}

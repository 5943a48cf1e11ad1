package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// perLine changes each line of a log.
func perLine(change func(n int, line string) string) func([]byte) []byte {
	return func(log []byte) []byte {
		var out bytes.Buffer
		n := 0
		for line := range strings.Lines(string(log)) {
			n++
			out.WriteString(change(n, strings.TrimSuffix(line, "\n")))
			out.WriteByte('\n')
		}
		return out.Bytes()
	}
}

// carriers are ways in which a log reaches its reader. None may change what the log says, nor where.
var carriers = map[string]func([]byte) []byte{
	"compose":    perLine(func(_ int, l string) string { return "inference-server-1  | " + l }),
	"compose v1": perLine(func(_ int, l string) string { return "server_1     | " + l }),
	"kubectl":    perLine(func(n int, l string) string { return fmt.Sprintf("2026-10-29T11:45:%02d.123456789Z %s", n%60, l) }),
	"containerd": perLine(func(n int, l string) string {
		return fmt.Sprintf("2026-10-29T11:45:%02d.123456789+02:00 stderr F %s", n%60, l)
	}),
	"kubectl prefix": perLine(func(_ int, l string) string { return "[pod/llm-7d9f8-x2k/server] " + l }),
	"journald": perLine(func(n int, l string) string {
		return fmt.Sprintf("Oct 29 11:45:%02d gpu-host-3 sglang.sh[8123]: %s", n%60, l)
	}),
	"journald, docker": perLine(func(n int, l string) string {
		return fmt.Sprintf("Oct 29 11:45:%02d gpu3 dockerd[1]: llm-1  | %s", n%60, l)
	}),
	"srun":   perLine(func(_ int, l string) string { return "3: " + l }),
	"mpirun": perLine(func(_ int, l string) string { return "[1,3]<stderr>:" + l }),
	"CRLF":   perLine(func(_ int, l string) string { return l + "\r" }),
	"NUL":    perLine(func(_ int, l string) string { return "\x00\x00" + l }),
	"colour": perLine(func(_ int, l string) string { return "\x1b[36m" + l + "\x1b[0m" }),
	"docker's files": perLine(func(n int, l string) string {
		text, err := json.Marshal(l + "\n")
		if err != nil {
			panic(err)
		}
		return fmt.Sprintf(`{"log":%s,"stream":"stderr","time":"2026-10-29T11:45:%02dZ"}`, text, n%60)
	}),
}

func TestCarriersChangeNothing(t *testing.T) {
	for _, l := range labels(t) {
		log, err := os.ReadFile(filepath.Join("testdata/cases", l.File))
		if err != nil {
			t.Fatal(err)
		}
		want := verdictOf(t, log, l.Engine)
		for name, carry := range carriers {
			if l.File == "C58.log" && strings.HasPrefix(name, "journald") {
				continue // it has lines of systemd already
			}
			if got := verdictOf(t, carry(log), l.Engine); !reflect.DeepEqual(got, want) {
				t.Errorf("%s by %s:\nhave %+v\nwant %+v", l.File, name, got, want)
			}
		}
	}
}

// said is what must not depend on how a log was carried.
type verdictText struct {
	Outcome, Phase, Cause, Notes, Facts string
	Line                                int
}

func verdictOf(t testing.TB, log []byte, engine string) verdictText {
	t.Helper()
	e, err := Explain(bytes.NewReader(log), Question{Engine: engine})
	if err != nil {
		t.Fatal(err)
	}
	v := verdictText{word(e.Outcome), string(e.Phase), e.Cause, fmt.Sprint(e.Notes), fmt.Sprint(e.Facts), 0}
	if e.Evidence != nil {
		v.Line = e.Evidence.Line
	}
	return v
}

// A prefix that no carrier is known for is learned from the server's own time stamps behind it.
func TestLearnedPrefix(t *testing.T) {
	for _, name := range []string{"C01", "C03a", "C41", "C48b_fatal", "OK_sglang_2026-02"} {
		log, err := os.ReadFile(filepath.Join("testdata/cases", name+".log"))
		if err != nil {
			t.Fatal(err)
		}
		if name == "C48b_fatal" { // it shows its stamp too late
			continue
		}
		stern := perLine(func(_ int, l string) string { return "llm-7d9f8c-x2k server " + l })
		if got, want := verdictOf(t, stern(log), ""), verdictOf(t, log, ""); got != want {
			t.Errorf("%s:\nhave %+v\nwant %+v", name, got, want)
		}
	}
}

// Lines of two processes may be written into one another, and a line may be of any length.
func TestTornLines(t *testing.T) {
	const start = "[2026-08-20 10:00:00] server_args=ServerArgs(model_path='/m')\n[2026-08-20 10:00:01 TP0] Load weight begin. avail mem=70.00 GB\n"
	for name, c := range map[string]struct {
		log  string
		want string
	}{
		"a mark behind another rank's line":   {start + "[2026-08-20 10:00:02 TP1] Using KV cache dtype[2026-08-20 10:00:02 TP0] Load weight end. elapsed=1.0 s, type=X, avail mem=9.00 GB, mem usage=61.00 GB.\n", "null kv"},
		"an exception torn by another rank":   {start + "[2026-08-20 10:00:02 TP0] Scheduler hit an exception: Traceback (most recent call last):\n  File \"x.py\", line 1, in load_model\ntorch.OutOfMemoryError: CUDA out of mem[2026-08-20 10:00:02 TP1] Init custom allreduce\nory. Tried to allocate 2.00 GiB.\n", "oom.weights weights"},
		"a bar before the exception":          {start + "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01,  1.00s/it][2026-08-20 10:00:02 TP0] Scheduler hit an exception: Traceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n", "oom.weights weights"},
		"a giant dump before the cause":       {start + "[2026-08-20 10:00:02 TP0] self.cur_batch.reqs=[" + strings.Repeat("Req(input_ids=[1, 2, 3]), CUDA out of memory, ", 6000) + "]\n[2026-08-20 10:00:03 TP0] Scheduler hit an exception: Traceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n", "oom.weights weights"},
		"a request's text over several lines": {start + "[2026-08-20 10:00:03] The server is fired up and ready to roll!\n[2026-08-20 10:00:04] Receive: obj=GenerateReqInput(text='what is\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\nKilled\n?')\n[2026-08-20 10:00:05] Decode batch, #running-req: 1, #token: 9, token usage: 0.00, gen throughput (token/s): 9.00, #queue-req: 0\n", "ok load"},
		"vLLM's processes in one line":        {"(EngineCore_DP0 pid=7) INFO 12-24 09:12:19 [gpu_model_runner.py:3562] Starting to load model /m...\n(Worker_TP1 pid=9) INFO 12-24 09:12:19 [a.py:1] some (EngineCore_DP0 pid=7) ERROR 12-24 09:12:24 [core.py:866] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 112.00 MiB.\n", "oom.weights weights"},
	} {
		if got := verdictOf(t, []byte(c.log), ""); got.Outcome+" "+got.Phase != c.want {
			t.Errorf("%s: have %+v, want %s", name, got, c.want)
		}
	}
}

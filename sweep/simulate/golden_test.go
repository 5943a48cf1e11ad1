package simulate

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	inBrackets = regexp.MustCompile(`=\[[^\]]*(\]|$)`)
	numbers    = regexp.MustCompile(`-?\d+(\.\d+)?`)
	spaces     = regexp.MustCompile(`0( ?[GM]iB| GB)`)
)

// skeleton is a log line without what differs between machines: numbers, lists, and the end of lines that were cut.
func skeleton(line string) string {
	if i := strings.Index(line, "server_args="); i >= 0 {
		line = line[:i+len("server_args=ServerArgs(model_path='")]
	}
	line = strings.Replace(line, " TP0]", "]", 1)
	line = inBrackets.ReplaceAllString(line, "=[]")
	if i := strings.Index(line, "=[]"); i >= 0 && strings.Contains(line, "graph begin") {
		line = line[:i]
	}
	line = numbers.ReplaceAllString(line, "0")
	line = spaces.ReplaceAllString(line, "0 B")
	line = strings.NewReplacer("True", "B", "False", "B").Replace(line)
	return line[:min(len(line), 260)]
}

// skeletons are the skeletons of a log's dated lines and exceptions, without access lines.
func skeletons(log string) []string {
	var list []string
	exception := regexp.MustCompile(`^(ValueError|torch\.OutOf|Exception|RuntimeError)`)
	for line := range strings.FieldsFuncSeq(log, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if strings.HasPrefix(line, "[20") && !strings.Contains(line, "INFO:     127") || exception.MatchString(line) {
			list = append(list, skeleton(line))
		}
	}
	return list
}

func recorded(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func compare(t *testing.T, what string, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		g, w := "(nothing)", "(nothing)"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("%s, line %d:\n have %s\n want %s", what, i+1, g, w)
			return
		}
	}
}

// The logs of real starts and real failures of SGLang 0.5.17, line by line.
func TestLogsAsRecorded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		golden string
		code   int // −9: wait for the end; 0: until it is ready
		drop   []string
		flags  []string
	}{
		{"start.log", 0, nil, []string{"--mem-fraction-static", "0.80"}},
		{"too_low.log", -9, nil, []string{"--mem-fraction-static", "0.05", "--disable-cuda-graph"}},
		{"oom_kv.log", -9, nil, []string{"--mem-fraction-static", "1.2", "--disable-cuda-graph"}},
		{"oom_graph.log", -9, nil, []string{"--mem-fraction-static", "0.993"}},
		{"hicache.log", 0, nil, []string{"--max-total-tokens", "10000", "--enable-hierarchical-cache", "--hicache-size", "16", "--disable-cuda-graph"}},
		{"host_short.log", -9, nil, []string{"--mem-fraction-static", "0.8", "--enable-hierarchical-cache", "--hicache-size", "200", "--disable-cuda-graph"}},
	} {
		t.Run(strings.TrimSuffix(c.golden, ".log"), func(t *testing.T) {
			t.Parallel()
			s := launchServer(t, t.TempDir(), "llama-8b-24gb", 40, c.flags...)
			if c.code == 0 {
				s.ready()
			} else if code := s.wait(); code != c.code {
				t.Errorf("exit %d, want %d", code, c.code)
			}
			log := s.stderr.String()
			if i := strings.Index(log, "The server is fired up"); i >= 0 {
				log = log[:i+len("The server is fired up and ready to roll!")]
			}
			compare(t, c.golden, skeletons(log), skeletons(recorded(t, c.golden)))
		})
	}
}

func TestBatchLinesAsRecorded(t *testing.T) {
	want := skeletons(recorded(t, "retract.log"))
	got := []string{
		retractLine(retractStats{requests: 1, gained: 900, from: 0.1, to: 0.4}),
		decodeLine(decodeStats{running: 18, tokens: 7416, usage: 0.37, graph: true, throughput: 71.78, queued: 26}),
		prefillLine(prefillStats{newSeq: 1, newTokens: 400, usage: 0.36, queued: 26, throughput: 291.86}),
	}
	for i := range got {
		got[i] = skeleton("[2026-11-29 13:16:35] " + got[i])
	}
	want = slices.Compact(want)
	compare(t, "batch lines", got, want)
}

// An OOM in a prefill: what is printed between the exception and the end, and the long way to the exit.
func TestPrefillOOM(t *testing.T) {
	t.Parallel()
	s := launchServer(t, t.TempDir(), "llama-8b-24gb", 40, "--mem-fraction-static", "0.95").ready()
	// In one request, so that all three wait together however busy this machine is.
	go s.do("POST", "/generate", fmt.Sprintf(`{"input_ids":[%s,%s,%s],"sampling_params":{"max_new_tokens":10,"ignore_eos":true}}`, ids(4700, 0), ids(4700, 1), ids(4700, 2)))
	if code := s.wait(); code != -9 {
		t.Errorf("exit %d, want −9", code)
	}
	log := s.stderr.String()
	got := skeletons(log)
	want := skeletons(recorded(t, "oom_prefill.log"))
	compare(t, "oom_prefill.log", got[max(0, len(got)-len(want)):], want)
	if !strings.Contains(log, "in _execute_extend") || strings.Contains(log, "_execute_decode") {
		t.Error("the traceback must go through _execute_extend alone")
	}
}

// What 0.5.23 printed where it differs from 0.5.17, recorded on a CPU: each line occurs, in the same order.
func TestLogOfANewerVersion(t *testing.T) {
	t.Parallel()
	s := launchServer(t, t.TempDir(), "llama-8b-24gb", 50, "--sglang-version", "0.5.23", "--disable-cuda-graph").ready()
	if got, want := skeletons(s.stderr.String()), skeletons(recorded(t, "start-0.5.23.log")); !isSubsequence(want, got) {
		t.Errorf("have\n%s\nwant among them\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !strings.Contains(s.stderr.String(), "server_args={'model_path': '/models/m'") {
		t.Error("server_args is no dict")
	}
}

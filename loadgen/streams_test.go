package loadgen

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func readTestFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		b, err = os.ReadFile(path + ".gz")
		path += ".gz"
	}
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(path, ".gz") {
		return b
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if b, err = io.ReadAll(z); err != nil {
		t.Fatal(err)
	}
	return b
}

// parsed is all that must not depend on how bytes are cut.
type parsed struct {
	Verdict                                 verdict
	Events, First, Chunks                   int
	Status                                  int
	Completion, Prompt, Cached, Dev, Host   int
	Done, Failed, Continuous, Head, Comment bool
	Tokens                                  []int
	Kinds                                   []string
	Finish                                  finish
	Err                                     string
}

// firstSeen notes the event at which the first token came.
type firstSeen struct {
	*reply
	first int
}

func (f *firstSeen) onData(data []byte) {
	f.reply.onData(data)
	if f.first < 0 && f.track.bearing > 0 {
		f.first = f.events - 1
	}
}

// parseReads feeds the reads to a new parser and judges as the client does at the end of the connection.
func parseReads(reads [][]byte, asked int) parsed {
	r := &reply{}
	r.reset()
	f := &firstSeen{r, -1}
	var err error = io.EOF
	for _, b := range reads {
		_, ferr := r.resp.feed(b, f)
		if ferr != nil {
			err = ferr
			break
		}
		if r.resp.state == stateEnd {
			err = nil
			break
		}
	}
	if r.done || err == io.EOF && r.resp.state == stateUntilEOF {
		err = nil
	}
	p := parsed{
		Verdict: r.judge(asked, err), Events: r.events, First: f.first, Chunks: r.track.bearing, Status: r.resp.status,
		Completion: r.completion, Prompt: r.prompt, Cached: r.cached, Dev: r.device, Host: r.host, Done: r.done, Failed: r.failed,
		Continuous: r.continuous, Head: r.resp.headDone(), Comment: r.resp.sse.comments > 0, Finish: r.finish, Err: fmt.Sprint(err),
	}
	var rec Record
	r.record(&rec)
	rec.Chunks, _ = appendChunks(nil, r.track.sealed())
	for _, c := range rec.Chunks {
		if c.Kind != ChunkComment {
			p.Kinds = append(p.Kinds, c.Kind.String())
		}
	}
	rec.Counted = rec.Counted || rec.OutputTokens < 0 || r.track.bearing == 0
	for _, c := range rec.Bearing(nil) {
		p.Tokens = append(p.Tokens, c.Tokens)
	}
	return p
}

const plainHead = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"

// label is a right answer of testdata/cases/labels.jsonl.
type label struct {
	File       string
	Requested  *int     `json:"requested_tokens"`
	OK         bool     `json:"ok"`
	Words      []string `json:"reason_words"`
	Output     *int     `json:"output_tokens"`
	Prompt     *int     `json:"prompt_tokens"`
	Cached     *int     `json:"cached_tokens"`
	FirstToken *int     `json:"first_token_event"`
	Events     int      `json:"events"`
	Why        string
}

// caseReads gives a case's reads, with a head where the file is a body.
func caseReads(t *testing.T, name string) [][]byte {
	b := readTestFile(t, filepath.Join("testdata/cases", name))
	switch {
	case strings.HasSuffix(name, ".chunks.json"):
		var file struct{ Chunks [][]byte } // base64, as encoding/json reads []byte
		if err := json.Unmarshal(b, &file); err != nil {
			t.Fatal(err)
		}
		return append([][]byte{[]byte(plainHead)}, file.Chunks...)
	case strings.HasSuffix(name, ".http"):
		return [][]byte{b}
	case strings.HasSuffix(name, ".json"):
		return [][]byte{fmt.Appendf(nil, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s", len(b), b)}
	}
	return [][]byte{append([]byte(plainHead), b...)}
}

func TestStreamCases(t *testing.T) {
	for line := range bytes.Lines(readTestFile(t, "testdata/cases/labels.jsonl")) {
		var l label
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		t.Run(l.File, func(t *testing.T) {
			asked := 0
			if l.Requested != nil {
				asked = *l.Requested
			}
			p := parseReads(caseReads(t, l.File), asked)
			if ok := p.Verdict.outcome == OK; ok != l.OK {
				t.Errorf("verdict %+v, want ok %v: %s", p.Verdict, l.OK, l.Why)
			}
			for _, w := range l.Words {
				if text := strings.ToLower(p.Verdict.kind + " " + p.Verdict.reason); !strings.Contains(text, w) {
					t.Errorf("reason %q lacks %q", text, w)
				}
			}
			wantCount(t, "output tokens", p.Completion, l.Output)
			wantCount(t, "prompt tokens", p.Prompt, l.Prompt)
			wantCount(t, "cached tokens", p.Cached, l.Cached)
			wantCount(t, "first token's event", p.First, l.FirstToken)
			if p.Events != l.Events {
				t.Errorf("%d events, want %d", p.Events, l.Events)
			}
		})
	}
}

func wantCount(t *testing.T, what string, got int, want *int) {
	t.Helper()
	if want == nil && got != unknown || want != nil && got != *want {
		w := "none"
		if want != nil {
			w = fmt.Sprint(*want)
		}
		t.Errorf("%s %d, want %s", what, got, w)
	}
}

var realStreams = []struct {
	file               string
	asked              int
	outcome            Outcome
	kind               string
	prompt, completion int
	cached             int
	chunks             int
	continuous         bool
}{
	{"sglang_completions_continuous", 40, OK, "", 200, 40, -1, 40, true},
	{"sglang_chat", 500, OK, "", 154, 500, 1, 500, false},
	{"sglang_generate_cumulative", 120, OK, "", 300, 120, 0, 120, true},
	{"sglang_generate_incremental", 30, OK, "", 300, 30, 0, 30, true},
	{"sglang_generate_aborted", 400, Failed, KindAborted, 30, 177, 0, 177, true},
	{"sglang_generate_too_long", 8, Rejected, KindTooLong, -1, -1, -1, 0, false},
	{"sglang_completions_too_long", 8, Rejected, KindTooLong, -1, -1, -1, 0, false},
	{"sglang_sum_too_long", 8, Rejected, KindTooLong, -1, -1, -1, 0, false},
	{"sglang_chat_abort", 8, Failed, KindCut, -1, -1, -1, 4, false},
	{"sglang_bad_request", 8, Failed, "http_400", -1, -1, -1, 0, false},
	{"sglang_completions_queue_full", 8, Rejected, KindQueueFull, 0, 0, -1, 0, false},
	{"sglang_generate_queue_full", 8, Rejected, KindQueueFull, -1, 0, -1, 0, false},
	{"sglang_queue_full_503", 8, Rejected, KindQueueFull, -1, -1, -1, 0, false},
	{"sglang_chat_hung", 400, Failed, KindCut, -1, -1, -1, 49, false},
	{"sglang_generate_stopped", 400, Failed, KindCut, 100, 261, 0, 261, true},
	{"sglang_head_only", 8, Failed, KindCut, -1, -1, -1, 0, false},
	{"sglang_nothing", 8, Failed, KindEmpty, -1, -1, -1, 0, false},
	{"sglang_hicache_hit", 8, OK, "", 8000, 8, 7999, 8, false},
	{"cpu_sglang_chat", 24, OK, "", 7, 24, 0, 12, false},
	{"cpu_sglang_completions", 16, OK, "", 3, 16, 0, 13, false},
	{"cpu_sglang_generate", 16, OK, "", 3, 16, 2, 16, true},
	{"cpu_sglang_retracted_20", 200, OK, "", 16, 200, 5, 200, true},
	{"cpu_llama_chat", 64, OK, "", 38, 64, 0, 64, false},
	{"cpu_llama_completion_native", 32, OK, "", 4, 32, 3, 32, true},
	{"cpu_llama_completion_timings_per_token", 16, OK, "", 4, 16, 3, 16, true},
	{"cpu_llama_completions", 32, OK, "", 4, 32, 0, 32, false},
	{"cpu_llama_cut_by_SIGTERM", 600, Failed, KindCut, -1, -1, -1, 111, false},
	{"cpu_llama_cut_by_SIGKILL", 600, Failed, KindCut, -1, -1, -1, 131, false},
	{"cpu_vllm_chat", 24, OK, "", 7, 24, -1, 12, false},
	{"cpu_vllm_chat_continuous_usage", 24, OK, "", 7, 24, -1, 24, true},
	{"cpu_vllm_completions", 16, OK, "", 3, 16, -1, 15, false},
	{"cpu_vllm_cut_by_SIGTERM", 600, Failed, KindCut, -1, -1, -1, 216, false},
}

func TestRealStreams(t *testing.T) {
	for _, c := range realStreams {
		t.Run(c.file, func(t *testing.T) {
			p := parseReads([][]byte{readTestFile(t, "testdata/real/"+c.file+".http")}, c.asked)
			if p.Verdict.outcome != c.outcome || p.Verdict.kind != c.kind {
				t.Errorf("verdict %+v, want %s %s", p.Verdict, c.outcome, c.kind)
			}
			got := fmt.Sprintf("prompt %d completion %d cached %d chunks %d continuous %v", p.Prompt, p.Completion, p.Cached, p.Chunks, p.Continuous)
			want := fmt.Sprintf("prompt %d completion %d cached %d chunks %d continuous %v", c.prompt, c.completion, c.cached, c.chunks, c.continuous)
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if p.Continuous {
				sum := 0
				for _, n := range p.Tokens {
					sum += int(n)
				}
				if sum != p.Completion {
					t.Errorf("the chunks hold %d tokens, the server says %d", sum, p.Completion)
				}
			}
		})
	}
}

// Cutting a stream at every byte, or into single bytes, changes nothing.
func TestEverySplit(t *testing.T) {
	var streams [][]byte
	for _, name := range []string{"C71.sse", "C72.sse", "C73.sse", "C78.sse", "C79.sse", "C84_truncated.http", "C70a_200.json", "C70b_old_error_field.sse"} {
		streams = append(streams, bytes.Join(caseReads(t, name), nil))
	}
	for _, name := range []string{"sglang_hicache_hit", "cpu_vllm_chat_continuous_usage", "cpu_sglang_generate", "cpu_llama_completion_native", "sglang_generate_queue_full", "sglang_completions_too_long"} {
		streams = append(streams, readTestFile(t, "testdata/real/"+name+".http"))
	}
	crs := strings.ReplaceAll(string(bytes.Join(caseReads(t, "C78.sse"), nil)[len(plainHead):]), "\n", "\r")
	many := "data: {\"choices\":[{\"text\"\r\ndata: :\"a\\u00e9 \\\" \u00e9\U0001f600\"}],\r\ndata:\"usage\":\ndata: {\"completion_tokens\": 3}}\r\r\nevent: error\ndata: boom\n\n"
	streams = append(streams, []byte(plainHead+crs), []byte(plainHead+"\ufeff"+many))
	for _, b := range streams {
		whole := b
		b = b[:min(len(b), 2500)] // a cut is felt near it only; in single bytes the whole stream is read
		want := parseReads([][]byte{b}, 8)
		for i := range b {
			if got := parseReads([][]byte{b[:i], b[i:]}, 8); !reflect.DeepEqual(got, want) {
				t.Fatalf("cut at byte %d of %.60q:\ngot  %+v\nwant %+v", i, b, got, want)
			}
		}
		want = parseReads([][]byte{whole}, 8)
		if got := parseReads(slices.Collect(slices.Chunk(whole, 1)), 8); !reflect.DeepEqual(got, want) {
			t.Errorf("one byte a read: %.60q\ngot  %+v\nwant %+v", whole, got, want)
		}
	}
}

// The joined data lines, the escapes and the named error of a hand-made stream are read.
func TestLegalButRare(t *testing.T) {
	p := parseReads([][]byte{[]byte(plainHead + "\ufeffdata: {\"choices\":[{\"text\"\r\ndata: :\"\\\"completion_tokens\\\":7 \"}],\ndata:\"usage\" : {\"completion_tokens\" : 3}}\r\revent: error\ndata: boom\n\n")}, 3)
	if p.Completion != 3 || p.Chunks != 1 || p.Verdict.kind != KindInStream || p.Verdict.reason != "boom" {
		t.Errorf("%+v", p)
	}
}

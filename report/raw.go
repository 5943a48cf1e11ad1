package report

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"sweep/sweep"
)

// scanFlat calls f for each key of a flat JSON object with its value as it stands, strings in their quotes. It makes no copies: a
// night may have a million such lines. It returns false where the line is not one whole object.
func scanFlat(line []byte, f func(key, value []byte)) bool {
	i := skipSpace(line, 0)
	if i >= len(line) || line[i] != '{' {
		return false
	}
	if i = skipSpace(line, i+1); i < len(line) && line[i] == '}' {
		return skipSpace(line, i+1) == len(line)
	}
	for i < len(line) {
		end := stringEnd(line, i)
		if end < 0 {
			return false
		}
		key := line[i+1 : end-1]
		if i = skipSpace(line, end); i >= len(line) || line[i] != ':' {
			return false
		}
		i = skipSpace(line, i+1)
		if end = valueEnd(line, i); end <= i {
			return false
		}
		f(key, line[i:end])
		if i = skipSpace(line, end); i >= len(line) {
			return false
		}
		switch line[i] {
		case '}':
			return skipSpace(line, i+1) == len(line)
		case ',':
			i = skipSpace(line, i+1)
		default:
			return false
		}
	}
	return false
}

func skipSpace(line []byte, i int) int {
	for i < len(line) && (line[i] == ' ' || line[i] == '\t' || line[i] == '\r' || line[i] == '\n') {
		i++
	}
	return i
}

// stringEnd is the place after a string that begins at i, −1 where none does.
func stringEnd(line []byte, i int) int {
	if i >= len(line) || line[i] != '"' {
		return -1
	}
	for i++; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// valueEnd is the place after the value that begins at i; lists and objects are passed over whole.
func valueEnd(line []byte, i int) int {
	depth := 0
	for i < len(line) {
		switch line[i] {
		case '"':
			end := stringEnd(line, i)
			if end < 0 {
				return -1
			}
			if depth == 0 {
				return end
			}
			i = end
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return -1
}

// numberOf is a value as a number; NaN where it is none.
func numberOf(value []byte) float64 {
	v, err := strconv.ParseFloat(string(value), 64) // the compiler makes no copy for this
	if err != nil {
		return math.NaN()
	}
	return v
}

func unquoted(value []byte) []byte {
	if len(value) >= 2 && value[0] == '"' {
		return value[1 : len(value)-1]
	}
	return value
}

// eachLine reads a file of JSON lines; what is no whole line is left out. A file that is not there has none.
func eachLine(path string, f func(line []byte)) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	for len(data) > 0 {
		line, rest, _ := bytes.Cut(data, []byte{'\n'})
		data = rest
		if len(line) > 0 {
			f(line)
		}
	}
	return nil
}

// path is a file of a record's attempt; "" where the record names no folder of the night.
func (n *Night) path(r sweep.Record, name ...string) string {
	if r.Dir == "" || !filepath.IsLocal(filepath.FromSlash(r.Dir)) {
		return "" // a record of another's making must not lead out of the night
	}
	return filepath.Join(append([]string{n.Dir, filepath.FromSlash(r.Dir)}, name...)...)
}

// loadPath is a file of a record's load.
func (n *Night) loadPath(r sweep.Record, name string) string {
	dir := "load=" + r.Load.String()
	if !filepath.IsLocal(dir) || strings.ContainsRune(dir, 0) {
		return "" // no such folder can be
	}
	return n.path(r, dir, name)
}

// Request is one request of a run, as requests.jsonl has it. What is not known is NaN.
type Request struct {
	ID      string // only where it was asked for
	Class   string
	Phase   string // warmup, window or cut
	Outcome string
	Kind    string  // of a failure or rejection
	SentS   float64 // since the start of the load
	EndS    float64
	TTFT    float64 // ms
	TPOT    float64 // ms
	E2E     float64 // ms, to the last token
	MaxITL  float64 // ms

	RequestedInput, RequestedOutput, PromptTokens, OutputTokens, CachedTokens, Chunks float64
}

// Measured reports a request that latencies are taken of.
func (r Request) Measured() bool { return r.Phase == "window" && r.Outcome == "ok" }

// numberField is where a key of requests.jsonl belongs; nil for those that are no numbers.
func (r *Request) numberField(key []byte) *float64 {
	switch string(key) {
	case "sent_s":
		return &r.SentS
	case "end_s":
		return &r.EndS
	case "ttft_ms":
		return &r.TTFT
	case "tpot_ms":
		return &r.TPOT
	case "e2e_ms":
		return &r.E2E
	case "max_itl_ms":
		return &r.MaxITL
	case "requested_input":
		return &r.RequestedInput
	case "requested_output":
		return &r.RequestedOutput
	case "prompt_tokens":
		return &r.PromptTokens
	case "output_tokens":
		return &r.OutputTokens
	case "cached_tokens":
		return &r.CachedTokens
	case "chunks":
		return &r.Chunks
	}
	return nil
}

// EachRequest reads the requests of a record's run in the order of their ends, without their IDs. f must not keep the pointer.
func (n *Night) EachRequest(r sweep.Record, f func(*Request)) error {
	return n.eachRequest(r, false, f)
}

func (n *Night) eachRequest(r sweep.Record, ids bool, f func(*Request)) error {
	path := n.loadPath(r, "requests.jsonl")
	if path == "" {
		return nil
	}
	words := map[string]string{} // few words stand on many lines
	word := func(b []byte) string {
		b = unquoted(b)
		if w, ok := words[string(b)]; ok {
			return w
		}
		w := string(b)
		words[w] = w
		return w
	}
	nan := math.NaN()
	blank := Request{
		SentS: nan, EndS: nan, TTFT: nan, TPOT: nan, E2E: nan, MaxITL: nan,
		RequestedInput: nan, RequestedOutput: nan, PromptTokens: nan, OutputTokens: nan, CachedTokens: nan, Chunks: nan,
	}
	q := blank
	take := func(key, value []byte) {
		if field := q.numberField(key); field != nil {
			*field = numberOf(value)
			return
		}
		switch string(key) {
		case "class":
			q.Class = word(value)
		case "phase":
			q.Phase = word(value)
		case "outcome":
			q.Outcome = word(value)
		case "kind":
			q.Kind = word(value)
		case "id":
			if ids {
				q.ID = string(unquoted(value))
			}
		}
	}
	return eachLine(path, func(line []byte) {
		q = blank
		if scanFlat(line, take) {
			f(&q)
		}
	})
}

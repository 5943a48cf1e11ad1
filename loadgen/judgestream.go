package loadgen

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Judgement is what this package thinks of a captured answer.
type Judgement struct {
	OK     bool
	Reason string // why not; of a success its finish reason, or "finish unknown"
	// Counts as the server gave them; −1 when it did not say.
	OutputTokens, PromptTokens, CachedTokens int
}

// APIs are the names of the routes whose answers [JudgeStream] knows.
func APIs() []string {
	return []string{"openai-completions", "openai-chat", "sglang-generate", "llama.cpp", "other"}
}

// JudgeStream judges the bytes of one answer as the load generator would have, had it met them on the wire. reads are the
// single reads of the connection; they may begin with an HTTP response's head or be its body alone. requested is the length
// of output that the request forced, 0 for none. All routes are read by the same rules: an answer shows by its own form
// which it is; api is only checked.
func JudgeStream(api string, reads [][]byte, requested int) (Judgement, error) {
	if !slices.Contains(APIs(), api) {
		return Judgement{}, fmt.Errorf("no such API %q: one of %s", api, strings.Join(APIs(), ", "))
	}
	if head := headFor(reads); head != "" {
		reads = slices.Insert(slices.Clone(reads), 0, []byte(head))
	}
	r := &reply{}
	r.reset()
	err := io.EOF
	for _, b := range reads {
		if _, ferr := r.feed(b, 0); ferr != nil {
			err = ferr
			break
		}
		if r.resp.state == stateEnd {
			err = nil
			break
		}
	}
	if r.done || err == io.EOF && r.resp.state == stateUntilEOF { // as the client reads the end of a connection
		err = nil
	}
	v := r.judge(requested, err)
	j := Judgement{OK: v.outcome == OK, Reason: v.reason, OutputTokens: r.completion, PromptTokens: r.prompt, CachedTokens: r.cached}
	switch {
	case !j.OK && v.kind != "":
		j.Reason = v.kind + ": " + v.reason
	case j.OK && r.track.bearing == 0 && r.completion <= 0:
		j.OK, j.Reason = false, KindShort+": no output came"
	case j.OK && r.finish == finishStop:
		j.Reason = "stop"
	case j.OK && r.finish == finishLength:
		j.Reason = "length"
	case j.OK:
		j.Reason = "finish unknown"
	}
	return j, nil
}

// headFor is the response's head that a captured body lacks: "" when the bytes bring their own, or when nothing came at all.
func headFor(reads [][]byte) string {
	begin := bytes.TrimLeft(bytes.Join(reads[:min(len(reads), 64)], nil), " \t\r\n")
	switch {
	case len(begin) == 0, bytes.HasPrefix(begin, []byte("HTTP/1.")):
		return ""
	case begin[0] == '{' || begin[0] == '[' || begin[0] == '<':
		return "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"
	}
	return "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
}

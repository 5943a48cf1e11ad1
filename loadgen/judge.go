package loadgen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"
)

// Outcome is how one request ended.
type Outcome string

// The outcomes.
const (
	OK        Outcome = "ok"        // answered as asked
	Failed    Outcome = "failed"    // anything else
	Rejected  Outcome = "rejected"  // the server refused it by a rule of its own
	Cancelled Outcome = "cancelled" // in flight when the window closed or the run was stopped: neither good nor bad
)

// Kinds of failure and rejection. A status other than 200 gives "http_" and the number.
const (
	KindQueueFull  = "queue_full"      // rejected: the server's queue is full
	KindTooLong    = "too_long"        // rejected: prompt, or prompt and output, longer than the context or the KV pool
	KindInStream   = "error_in_stream" // an error object in an answer that began with 200
	KindAborted    = "aborted"         // finish reason abort: cut by the engine
	KindFinish     = "bad_finish"      // a finish reason that is neither stop nor length
	KindCut        = "cut"             // the answer ended without its end: usually a dead server
	KindEmpty      = "empty_reply"     // the connection ended before any byte of an answer
	KindReset      = "reset"           // connection reset
	KindRefused    = "refused"         // nobody listens
	KindUnreached  = "unreachable"     // no connection for another reason
	KindTimeout    = "timeout"         // longer than the request's limit
	KindEarlyStop  = "early_stop"      // fewer tokens than asked, the model stopped
	KindShort      = "short_output"    // fewer tokens than asked, although the finish reason is length
	KindLong       = "long_output"     // more tokens than asked
	KindUncounted  = "no_usage"        // the server did not say how many tokens it made
	KindNotStream  = "not_a_stream"    // 200 without an event stream
	KindEndless    = "endless_stream"  // far more events or bytes than the asked tokens can need
	KindBadReply   = "bad_reply"       // not HTTP, or broken framing
	KindStalled    = "stalled"         // open when the run ended because no stream moved
	statusKindText = "http_"
)

// verdict is the judgement on one request.
type verdict struct {
	outcome Outcome
	kind    string
	reason  string
}

// rules maps what servers say to the rejections by rule. Texts of SGLang 0.5, vLLM 0.32, llama.cpp b11434.
var rules = []struct{ text, kind string }{
	{"queue is full", KindQueueFull},
	{"longer than the model's context length", KindTooLong},
	{"maximum context length", KindTooLong},
	{"maximum allowed length", KindTooLong},
	{"exceed_context_size", KindTooLong},
	{"available context size", KindTooLong},
	{"context size has been exceeded", KindTooLong},
	{"longer than the maximum", KindTooLong},
}

func byRule(text string) string {
	text = strings.ToLower(text)
	for _, r := range rules {
		if strings.Contains(text, r.text) {
			return r.kind
		}
	}
	return ""
}

// refuse names a failure that a text explains: a rejection when the text names a rule, else kind.
func refuse(kind, reason string) verdict {
	if rule := byRule(reason); rule != "" {
		return verdict{Rejected, rule, reason}
	}
	return verdict{Failed, kind, reason}
}

// judge says how an answer ended. Success is: status 200, no error object, a finish reason of stop or
// length (or none, when the stream ended properly), its own end mark seen, and exactly as many tokens as were asked. asked of 0
// leaves the number open. err is why reading ended early, nil after the end of the response.
func (r *reply) judge(asked int, err error) verdict {
	switch {
	case r.resp.headDone() && r.resp.status != 200:
		return refuse(fmt.Sprint(statusKindText, r.resp.status), r.bodyReason())
	case r.failed:
		return refuse(KindInStream, r.errorReason())
	case r.finish == finishAbort:
		return refuse(KindAborted, "finish reason abort: "+r.errorReason())
	case r.finish == finishOther:
		return verdict{Failed, KindFinish, fmt.Sprintf("finish reason %q", r.finishWord)}
	case r.resp.headDone() && !r.resp.events && (err == nil || len(r.resp.body) > 0):
		return r.notStream()
	case !r.done && err != nil:
		return r.broken(err)
	case !r.done:
		return verdict{Failed, KindCut, fmt.Sprintf("the stream ended without its end mark after %d events", r.events)}
	}
	return r.judgeCount(asked)
}

func (r *reply) judgeCount(asked int) verdict {
	n := r.completion
	switch {
	case asked == 0 || n == asked:
		return verdict{outcome: OK}
	case n < 0:
		return verdict{Failed, KindUncounted, "the server did not say how many tokens it made"}
	case n > asked:
		return verdict{Failed, KindLong, fmt.Sprintf("%d tokens, %d were asked", n, asked)}
	case r.finish == finishStop:
		return verdict{Failed, KindEarlyStop, fmt.Sprintf("%d tokens, %d were asked: the model stopped", n, asked)}
	}
	return verdict{Failed, KindShort, fmt.Sprintf("%d tokens, %d were asked", n, asked)}
}

// notStream judges a 200 whose body is no event stream: llama.cpp answers so with an error object.
func (r *reply) notStream() verdict {
	var e event
	scanEvent(r.resp.body, &e)
	if e.Error {
		r.takeError(&e)
		return refuse(KindInStream, r.errorReason())
	}
	return refuse(KindNotStream, "no event stream: "+printable(r.resp.body))
}

// broken judges an answer whose connection ended or broke.
func (r *reply) broken(err error) verdict {
	at := "before any byte of an answer"
	if r.resp.headDone() {
		at = fmt.Sprintf("after %d events", r.events)
	}
	kind := KindUnreached
	switch {
	case errors.Is(err, errEndless):
		return verdict{Failed, KindEndless, err.Error()}
	case errors.Is(err, errHead), errors.Is(err, errChunk), errors.Is(err, errLong):
		kind = KindBadReply
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		kind = KindTimeout
	case errors.Is(err, syscall.ECONNREFUSED):
		kind, at = KindRefused, ""
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		kind = KindReset
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe), errors.Is(err, net.ErrClosed):
		kind = KindCut
		if r.untouched() {
			kind = KindEmpty
		}
	}
	if at == "" {
		return verdict{Failed, kind, err.Error()}
	}
	return verdict{Failed, kind, fmt.Sprintf("%s: %v", at, err)}
}

func (r *reply) errorReason() string {
	var parts []string
	if r.errCode != 0 {
		parts = append(parts, fmt.Sprint(r.errCode))
	}
	if r.errType != "" {
		parts = append(parts, r.errType)
	}
	if r.errText != "" {
		parts = append(parts, r.errText)
	}
	if len(parts) == 0 {
		return "no reason given"
	}
	return strings.Join(parts, ": ")
}

// bodyReason is what the body of a refusal says.
func (r *reply) bodyReason() string {
	var e event
	scanEvent(r.resp.body, &e)
	text := unescape(e.ErrorText)
	if text == "" {
		text = printable(r.resp.body)
	} else if t := unescape(e.ErrorType); t != "" {
		text = t + ": " + text
	}
	if text == "" {
		text = "no body"
	}
	return fmt.Sprintf("HTTP %d: %s", r.resp.status, text)
}

// maxReason bounds what is kept of a server's words, in bytes.
const maxReason = 500

// printable cuts and cleans bytes of a server for a reason.
func printable(b []byte) string {
	b = bytes.TrimSpace(b)
	if len(b) > maxReason {
		b = b[:maxReason]
		for len(b) > 0 && !utf8.RuneStart(b[len(b)-1]) {
			b = b[:len(b)-1]
		}
	}
	return strings.ToValidUTF8(string(b), "\ufffd")
}

// unescape reads the contents of a JSON string.
func unescape(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	if bytes.IndexByte(raw, '\\') >= 0 {
		var s string
		quoted := append(append([]byte{'"'}, raw...), '"')
		if json.Unmarshal(quoted, &s) == nil {
			return printable([]byte(s))
		}
	}
	return printable(raw)
}

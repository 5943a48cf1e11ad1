package loadgen

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sweep/loadgen/mock"
)

const helloEvents = "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"length\"}],\"usage\":{\"completion_tokens\":1}}\n\ndata: [DONE]\n\n"

func TestResponseForms(t *testing.T) {
	const sse = "Content-Type: text/event-stream\r\n"
	for _, c := range []struct {
		name, bytes string
		want        string // outcome, kind, and whether the connection can be kept
	}{
		{"length", "HTTP/1.1 200 OK\r\n" + sse + "Content-Length: 105\r\n\r\n" + helloEvents, "ok keep"},
		{"until the end", "HTTP/1.1 200 OK\r\n" + sse + "\r\n" + helloEvents, "ok close"},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\n" + sse + "Content-Length: 105\r\n\r\n" + helloEvents, "ok close"},
		{"told to close", "HTTP/1.1 200 OK\r\n" + sse + "connection: Close\r\nContent-Length: 105\r\n\r\n" + helloEvents, "ok close"},
		{"interim", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n" + sse + "Content-Length: 105\r\n\r\n" + helloEvents, "ok keep"},
		{"extension and trailer", "HTTP/1.1 200 OK\r\n" + sse + "Transfer-Encoding: chunked\r\n\r\n69;x=\"y\"\r\n" + helloEvents + "\r\n0\r\nX-Sum: 1\r\n\r\n", "ok keep"},
		{"bare line ends", "HTTP/1.1 200 OK\ncontent-type: text/event-stream\ntransfer-encoding: chunked\n\n69\n" + helloEvents + "\n0\n\n", "ok keep"},
		{"more than the response", "HTTP/1.1 200 OK\r\n" + sse + "Content-Length: 105\r\n\r\n" + helloEvents + "HTTP/1.1", "ok close"},
		{"broken chunk size", "HTTP/1.1 200 OK\r\n" + sse + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", "failed bad_reply close"},
		{"chunk longer than said", "HTTP/1.1 200 OK\r\n" + sse + "Transfer-Encoding: chunked\r\n\r\n4\r\n" + helloEvents, "failed bad_reply close"},
		{"not HTTP", "SSH-2.0-OpenSSH_9.2\r\n", "failed bad_reply close"},
		{"endless head", strings.Repeat("x", maxHead+1), "failed bad_reply close"},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", "failed http_204 keep"},
		{"a page", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello", "failed not_a_stream keep"},
		{"gateway", "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\n\r\nbad", "failed http_502 keep"},
		{"cut head", "HTTP/1.1 200 OK\r\nContent-", "failed cut close"},
		{"cut after the end mark", "HTTP/1.1 200 OK\r\n" + sse + "Transfer-Encoding: chunked\r\n\r\n69\r\n" + helloEvents, "ok close"},
	} {
		t.Run(c.name, func(t *testing.T) {
			near, far := net.Pipe()
			go func() {
				_, _ = io.ReadFull(far, make([]byte, 4))
				_, _ = io.WriteString(far, c.bytes)
				far.Close()
			}()
			start := time.Now()
			cl := &client{dial: func(context.Context) (net.Conn, error) { return near, nil }, timeout: 5 * time.Second, since: func() time.Duration { return time.Since(start) }}
			_, err := cl.do(t.Context(), []byte("ping"))
			v := cl.reply.judge(1, err)
			got := strings.TrimSpace(string(v.outcome)+" "+v.kind) + " keep"
			if cl.conn == nil {
				got = strings.TrimSuffix(got, "keep") + "close"
			}
			cl.drop()
			if got != c.want {
				t.Errorf("%s (%v, %v), want %s", got, v.reason, err, c.want)
			}
		})
	}
}

// The time of a request is bounded, and a response whose end never comes after the stream's end mark is good.
func TestRequestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &mock.Server{Answer: func(r mock.Request) []mock.Step {
			if r.MaxTokens == 1 {
				steps := mock.Stream(r, mock.Timing{First: 100 * msec})
				end := &steps[len(steps)-1]
				end.Bytes = end.Bytes[:len(end.Bytes)-len(mock.Last)]
				return append(steps, mock.Step{Hang: true})
			}
			return []mock.Step{{Hang: true}}
		}}
		defer server.Close()
		spec := testSpec(server, 1)
		spec.RequestTimeout = 7 * second
		start := time.Now()
		a, err := Probe(t.Context(), spec, Ask{Input: 1, Output: 2})
		if err != nil || !strings.HasPrefix(a.Reason, KindTimeout) || time.Since(start) != 7*second {
			t.Errorf("%+v, %v after %v", a, err, time.Since(start))
		}
		start = time.Now()
		a, err = Probe(t.Context(), spec, Ask{Input: 1, Output: 1})
		if err != nil || !a.OK || a.E2E != 100*msec || time.Since(start) != 1100*msec {
			t.Errorf("%+v, %v after %v", a, err, time.Since(start))
		}
	})
}

// What a dead process looks like over TCP has its words.
func TestResetOverTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 2 {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1<<16))
			_, _ = io.WriteString(conn, mock.Head+mock.Frame(`{"choices":[{"text":"a"}]}`))
			_, _ = conn.Read(make([]byte, 1)) // the client has read that much when it says so
			conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
		}
	}()
	spec := Spec{URL: "http://" + l.Addr().String(), Route: "/v1/completions", Vocabulary: []int{1}}
	spec.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &echo{Conn: conn}, err
	}
	a, err := Probe(t.Context(), spec, Ask{Input: 1, Output: 2})
	if err != nil || !strings.HasPrefix(a.Reason, KindReset+": after 1 events") {
		t.Errorf("%+v, %v", a, err)
	}
	l.Close()
	spec.Dial = nil
	a, err = Probe(t.Context(), spec, Ask{Input: 1, Output: 2})
	if err != nil || !strings.HasPrefix(a.Reason, KindRefused) {
		t.Errorf("%+v, %v", a, err)
	}
	if !stale(syscall.EPIPE) {
		t.Error("a broken pipe is no end from the other side")
	}
	<-done
}

// echo writes one byte after each read, so that the other side knows that it happened.
type echo struct{ net.Conn }

func (e *echo) Read(p []byte) (int, error) {
	n, err := e.Conn.Read(p)
	if n > 0 {
		_, _ = e.Conn.Write([]byte{0})
	}
	return n, err
}

// The words of servers that refuse by rule.
func TestRefusals(t *testing.T) {
	for body, want := range map[string]string{
		`{"object":"error","message":"Input length (1102 tokens) exceeds the maximum allowed length (1018 tokens). Use a shorter input or enable --allow-auto-truncate.","type":"BadRequest","param":null,"code":400}`: "rejected too_long",
		`{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}`:                                                                                                                     "rejected too_long",
		`{"error":{"message":"This model's maximum context length is 2048 tokens. However, your prompt contains at least 2049 input tokens","type":"BadRequestError","code":400}}`:                                     "rejected too_long",
		`{"object":"error","message":"The request queue is full.","type":"503","param":null,"code":503}`:                                                                                                               "rejected queue_full",
		`{"error":"Unauthorized"}`: "failed http_400",
		`<html>`:                   "failed http_400",
		``:                         "failed http_400",
	} {
		r := &reply{}
		r.reset()
		step := mock.Answer(400, body)[0]
		if _, err := r.feed(step.Bytes, 0); err != nil {
			t.Fatal(err)
		}
		v := r.judge(4, nil)
		if got := string(v.outcome) + " " + v.kind; got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
		var e struct{ Message string }
		if json.Unmarshal([]byte(body), &e) == nil && !strings.Contains(v.reason, e.Message) {
			t.Errorf("reason %q lacks the server's words", v.reason)
		}
	}
}

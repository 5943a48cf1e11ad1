package loadgen

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// sender sends the requests of one slot and reads their answers.
type sender interface {
	// do sends one request and reads its answer. It returns when it went, and why the answer ended early.
	do(ctx context.Context, request []byte) (trip, error)
	answer() *reply
	// stop ends what is under way and refuses more.
	stop()
	// drop closes the connection so that the next request opens another.
	drop()
	// repeats counts the requests that were sent again over a new connection.
	repeats() int
}

func (c *client) answer() *reply { return &c.reply }
func (c *client) repeats() int   { return c.resent }

// httpClient sends through the standard library, for what only that speaks: HTTP/2 and proxies. All slots share its
// connections.
type httpClient struct {
	transport *http.Transport
	base      *url.URL
	timeout   time.Duration
	since     func() time.Duration
	onRead    func(r *reply, n int)
	reply     reply
	buf       []byte
}

// newTransport is one for all slots of a run.
func newTransport(spec *Spec, slots int) *http.Transport {
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: spec.Dial, TLSClientConfig: spec.TLS.Clone(), ForceAttemptHTTP2: true,
		MaxIdleConns: 0, MaxIdleConnsPerHost: max(slots, 64), IdleConnTimeout: idleLimit, DisableCompression: true, ReadBufferSize: readSize,
	}
}

// viaProxy says whether the environment sends requests to a server through a proxy.
func viaProxy(spec *Spec) bool {
	if spec.Dial != nil {
		return false
	}
	r, err := http.NewRequest(http.MethodPost, spec.URL, nil)
	if err != nil {
		return false
	}
	proxy, err := http.ProxyFromEnvironment(r)
	return err == nil && proxy != nil
}

func (c *httpClient) answer() *reply { return &c.reply }
func (c *httpClient) repeats() int   { return 0 } // the library does not tell
func (c *httpClient) stop()          {}           // the run's context ends what is under way
func (c *httpClient) drop()          {}

func (c *httpClient) do(ctx context.Context, request []byte) (trip, error) {
	var send, sent atomic.Int64 // set by goroutines of the library, which may outlive the request
	send.Store(-1)
	sent.Store(-1)
	err := c.exchange(ctx, request, &send, &sent)
	return trip{send: time.Duration(send.Load()), sent: time.Duration(sent.Load())}, err
}

func (c *httpClient) exchange(ctx context.Context, request []byte, send, sent *atomic.Int64) error {
	c.reply.reset()
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { send.Store(int64(c.since())) },
		WroteRequest: func(httptrace.WroteRequestInfo) { sent.Store(int64(c.since())) },
	})
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(request)))
	if err != nil {
		return fmt.Errorf("our own request: %w", err)
	}
	req = req.WithContext(ctx)
	req.URL, req.RequestURI = c.base.ResolveReference(req.URL), ""
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return fmt.Errorf("our own request: %w", err)
	}
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.Body, _ = req.GetBody()
	req.Header["X-Idempotency-Key"] = []string{} // not sent: lets the library repeat a request that met a closing connection
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		if strings.Contains(err.Error(), "malformed HTTP") {
			err = fmt.Errorf("%w: %w", errHead, err)
		}
		return expired(ctx, err)
	}
	defer resp.Body.Close()
	r := &c.reply.resp
	r.status, r.inField, r.state = resp.StatusCode, true, stateUntilEOF
	r.events = strings.HasPrefix(strings.ToLower(resp.Header.Get("Content-Type")), "text/event-stream")
	c.reply.header = c.since()
	return expired(ctx, c.read(resp.Body, cancel))
}

// read reads the body to its end. cut ends the request: some time after the stream's end mark the end of the response is
// not waited for any longer.
func (c *httpClient) read(body io.Reader, cut func()) error {
	if c.buf == nil {
		c.buf = make([]byte, readSize)
	}
	var linger *time.Timer
	for {
		n, err := body.Read(c.buf)
		if n > 0 {
			_, perr := c.reply.feed(c.buf[:n], c.since())
			if c.onRead != nil {
				c.onRead(&c.reply, n)
			}
			if perr != nil {
				return perr
			}
		}
		if c.reply.done && linger == nil {
			linger = time.AfterFunc(lingerLimit, cut)
			defer linger.Stop()
		}
		switch {
		case err == io.EOF:
			c.reply.resp.state = stateEnd
			return nil
		case err != nil && c.reply.done:
			return nil
		case err != nil:
			return err
		}
	}
}

// expired tells the end of the request's own time from other ends.
func expired(ctx context.Context, err error) error {
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return os.ErrDeadlineExceeded
	}
	return err
}

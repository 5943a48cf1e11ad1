package loadgen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"syscall"
	"time"
)

const (
	readSize    = 32 << 10         // bytes of one read
	dialTimeout = 10 * time.Second // to open a connection
	lingerLimit = time.Second      // from the stream's end mark to the end of the response
	staleLimit  = time.Second / 4  // a kept connection that ends so soon, without a byte, was being closed: llama.cpp closes after two or so requests
	idleLimit   = 2 * time.Second  // a connection idle for longer is not used again: SGLang closes after 5 s
)

// client sends the requests of one slot over one connection, which it keeps.
type client struct {
	dial    func(ctx context.Context) (net.Conn, error)
	timeout time.Duration // of one request
	since   func() time.Duration
	onRead  func(r *reply, n int) // after each read of n bytes; nil: none

	reply reply
	buf   []byte

	mu     sync.Mutex
	conn   net.Conn // guarded by mu: stop may close it at any time
	closed bool     // no more connections

	used   time.Duration // when the connection was last used
	resent int           // requests sent again over a new connection
}

// dialer returns a function that connects to the server of a URL, and its address.
func dialer(spec *Spec) (dial func(ctx context.Context) (net.Conn, error), address string, err error) {
	u, err := url.Parse(spec.URL)
	if err != nil {
		return nil, "", fmt.Errorf("server's URL: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, "", fmt.Errorf("server's URL %q is not http://HOST:PORT", spec.URL)
	}
	address = u.Host
	if u.Port() == "" {
		port := "80"
		if u.Scheme == "https" {
			port = "443"
		}
		address = net.JoinHostPort(u.Hostname(), port)
	}
	open := spec.Dial
	if open == nil {
		open = (&net.Dialer{Timeout: dialTimeout}).DialContext // TCP_NODELAY is Go's default
	}
	return func(ctx context.Context) (net.Conn, error) {
		conn, err := open(ctx, "tcp", address)
		if err != nil || u.Scheme == "http" {
			return conn, err
		}
		config := &tls.Config{}
		if spec.TLS != nil {
			config = spec.TLS.Clone()
		}
		if config.ServerName == "" {
			config.ServerName = u.Hostname()
		}
		config.NextProtos = []string{"http/1.1"}
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		return secure, nil
	}, address, nil
}

// stop closes the connection, also under a request, and refuses new ones.
func (c *client) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.conn != nil {
		c.conn.Close()
	}
}

// drop closes the connection so that the next request opens another.
func (c *client) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// connect returns a live connection and whether it had been used before.
func (c *client) connect(ctx context.Context) (net.Conn, bool, error) {
	c.mu.Lock()
	conn, closed := c.conn, c.closed
	c.mu.Unlock()
	if closed {
		return nil, false, net.ErrClosed
	}
	if conn != nil {
		_ = conn.SetDeadline(time.Time{}) // of the last request; a dead connection shows at once below
		if c.since()-c.used < idleLimit && alive(conn) {
			return conn, true, nil
		}
		c.drop()
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		conn.Close()
		return nil, false, net.ErrClosed
	}
	c.conn = conn
	return conn, false, nil
}

// trip is when a request went.
type trip struct {
	send   time.Duration // before its first byte was written; −1: no connection came about
	sent   time.Duration // when its last byte was written; −1: never
	resent bool          // the first connection was being closed
}

// do sends one request and reads its answer into c.reply. It returns when it went, and why the answer ended early.
func (c *client) do(ctx context.Context, request []byte) (trip, error) {
	t := trip{send: -1, sent: -1}
	for {
		c.reply.reset()
		conn, reused, err := c.connect(ctx)
		if err != nil {
			t.send, t.sent = -1, -1
			return t, err
		}
		t.send, t.sent = c.since(), -1
		sent := t.send
		if err := conn.SetDeadline(time.Now().Add(c.timeout)); err != nil {
			c.drop()
			return t, err
		}
		n, werr := conn.Write(request)
		if werr == nil {
			t.sent = c.since()
		}
		err = c.read(conn) // after a failed write too: a server may refuse before it has read everything
		c.used = c.since()
		switch {
		case werr == nil && err == nil && !c.reply.resp.close:
			return t, nil
		case reused && c.reply.untouched() && stale(err) && (n < len(request) || c.used-sent < staleLimit):
			// The server was closing the kept connection while the request was on its way. Nothing was made of it: a
			// server that dies over a request does not get so far, and is met again on the new connection.
			c.drop()
			c.resent++
			t.resent = true
			continue
		}
		c.drop()
		if werr != nil && err != nil && !c.reply.resp.headDone() {
			err = werr
		}
		return t, err
	}
}

// stale says whether a connection ended from the other side.
func stale(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// read reads one response to its end. An end of the connection after the stream's end mark, or where it
// ends a body without a length, is no error.
func (c *client) read(conn net.Conn) error {
	if c.buf == nil {
		c.buf = make([]byte, readSize)
	}
	lingering := false
	for {
		n, err := conn.Read(c.buf)
		if n > 0 {
			used, perr := c.reply.feed(c.buf[:n], c.since())
			if c.onRead != nil {
				c.onRead(&c.reply, n)
			}
			if perr != nil {
				return perr
			}
			if c.reply.resp.state == stateEnd {
				c.reply.resp.close = c.reply.resp.close || used < n
				return nil
			}
		}
		if err != nil {
			return c.readEnd(err)
		}
		if c.reply.done && !lingering {
			lingering = true
			if err := conn.SetReadDeadline(time.Now().Add(lingerLimit)); err != nil {
				return c.readEnd(err)
			}
		}
	}
}

func (c *client) readEnd(err error) error {
	r := &c.reply
	r.resp.close = true
	switch {
	case r.done:
		return nil
	case errors.Is(err, io.EOF) && r.resp.state == stateUntilEOF:
		r.resp.state = stateEnd
		return nil
	}
	return err
}

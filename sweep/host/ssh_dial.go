package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"sweep/sweep"
)

// timing holds the times of a link, so that tests need not wait for real ones.
type timing struct {
	dial      time.Duration // for TCP to connect
	handshake time.Duration // for SSH to agree on keys and log in
	session   time.Duration // for a channel to open and a command to start
	keepalive time.Duration // between signs of life; three misses end the link
	idle      time.Duration // without a frame for what was asked
	preamble  time.Duration // for the host's program to speak
	backoff   time.Duration // before the first try to reconnect; doubles up to backoffMax
	backoffMax,
	poll time.Duration // how long the host may hold an answer back until something happens
}

func (t timing) withDefaults() timing {
	or := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	or(&t.dial, 15*time.Second)
	or(&t.handshake, 30*time.Second)
	or(&t.session, 30*time.Second)
	or(&t.keepalive, 10*time.Second)
	or(&t.idle, 30*time.Second)
	or(&t.preamble, 30*time.Second)
	or(&t.backoff, time.Second)
	or(&t.backoffMax, time.Minute)
	or(&t.poll, 10*time.Second)
	return t
}

// authError is a login that the host refused: it is final.
type authError struct{ text string }

func (e *authError) Error() string { return e.text }

// nativeConn is a chain of SSH connections, the last of which is to the host.
type nativeConn struct {
	clients []*ssh.Client
	raw     net.Conn // of the first hop: closing it unblocks every call of the library
	timing  timing
	quit    chan struct{}
	once    sync.Once
	wg      sync.WaitGroup
	mu      sync.Mutex // guards closed, so that nothing starts while close waits
	closed  bool
}

// dialNative connects to a target through its jumps. The host key of each hop is checked.
func (s *SSH) dialNative(ctx context.Context, t sshTarget) (*nativeConn, error) {
	if s.HostKey == "" {
		return s.dialKinds(ctx, t, nil)
	}
	var err error // of the kind that is asked for first, unless another one has more to say
	for _, kinds := range anyKind {
		c, kindErr := s.dialKinds(ctx, t, kinds)
		if kindErr == nil {
			return c, nil
		}
		if key := (*hostKeyError)(nil); !errors.As(kindErr, &key) && !strings.Contains(kindErr.Error(), noCommonKind) {
			return nil, kindErr
		}
		if err == nil || strings.Contains(err.Error(), noCommonKind) {
			err = kindErr
		}
	}
	return nil, err
}

// noCommonKind is in the library's error of a host without a host key of the kinds that were asked for.
const noCommonKind = "no common algorithm for host key"

// dialKinds connects; kinds are those of the host key that are asked for when it is pinned: only the host knows which
// of its keys that is.
func (s *SSH) dialKinds(ctx context.Context, t sshTarget, kinds []string) (*nativeConn, error) {
	if t.proxyCommand != "" {
		return nil, &configError{fmt.Sprintf("%s is reached through a ProxyCommand, which only your own ssh can run: write transport: openssh", t)}
	}
	hops, err := s.hops(ctx, t, 0)
	if err != nil {
		return nil, err
	}
	tm := s.timing.withDefaults()
	dialer := net.Dialer{Timeout: tm.dial, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: tm.keepalive, Interval: tm.keepalive, Count: 3}, Control: dieSoon}
	raw, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(hops[0].host, hops[0].port))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", hops[0], err)
	}
	c := &nativeConn{raw: raw, timing: tm, quit: make(chan struct{})}
	var conn net.Conn = raw
	for i, hop := range hops {
		if i > 0 {
			if conn, err = c.forward(ctx, hop); err != nil {
				c.close()
				return nil, fmt.Errorf("%s does not connect on to %s: %w", hops[i-1], hop, err)
			}
		}
		client, err := s.handshake(ctx, c, conn, hop, i == len(hops)-1, kinds)
		if err != nil {
			c.close()
			return nil, err
		}
		c.clients = append(c.clients, client)
	}
	c.wg.Go(c.keepAlive)
	return c, nil
}

// mostHops bounds a chain of jumps, which may lead back to itself.
const mostHops = 8

// hops resolves the jumps of a target, in the order in which they are connected.
func (s *SSH) hops(ctx context.Context, t sshTarget, depth int) ([]sshTarget, error) {
	if depth > mostHops {
		return nil, &configError{fmt.Sprintf("the jumps to %s are more than %d, or lead in a circle", t, mostHops)}
	}
	var hops []sshTarget
	for i, jump := range t.jumps {
		h, err := resolve(ctx, strings.TrimPrefix(strings.TrimSpace(jump), "ssh://"), s.Config, s.program())
		if err != nil {
			return nil, err
		}
		if h.proxyCommand != "" {
			return nil, &configError{fmt.Sprintf("the jump %s is reached through a ProxyCommand, which only your own ssh can run: write transport: openssh", h)}
		}
		if i > 0 {
			h.jumps = nil // a list of jumps is the way itself
		}
		more, err := s.hops(ctx, h, depth+1)
		if err != nil {
			return nil, err
		}
		hops = append(hops, more...)
	}
	return append(hops, t), nil
}

// bounded runs a call of the library that knows no deadline; when time is over the connection is closed, which ends it.
func bounded[T any](ctx context.Context, c *nativeConn, d time.Duration, what string, call func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	var none T
	if !c.start(func() {
		value, err := call()
		done <- result{value, err}
	}) {
		return none, net.ErrClosed
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-timer.C:
		_ = c.raw.Close()
		return none, fmt.Errorf("%s: no answer for %v", what, d)
	case <-ctx.Done():
		_ = c.raw.Close()
		return none, ctx.Err()
	}
}

// start runs something that close waits for; false: the connection is closed already.
func (c *nativeConn) start(run func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.wg.Go(run)
	return true
}

func (c *nativeConn) forward(ctx context.Context, hop sshTarget) (net.Conn, error) {
	last := c.clients[len(c.clients)-1]
	conn, err := bounded(ctx, c, c.timing.session, "forwarding", func() (net.Conn, error) {
		return last.Dial("tcp", net.JoinHostPort(hop.host, hop.port))
	})
	if open := (*ssh.OpenChannelError)(nil); errors.As(err, &open) && open.Reason == ssh.Prohibited {
		err = &configError{"it forbids forwarding (AllowTcpForwarding), which a jump needs: " + sweep.Printable(open.Message)}
	}
	return conn, err
}

// handshake logs in to one hop.
func (s *SSH) handshake(ctx context.Context, c *nativeConn, conn net.Conn, hop sshTarget, last bool, kinds []string) (*ssh.Client, error) {
	name, port := hop.knownName()
	known, err := readKnown(hop.knownFiles, name, port)
	if err != nil {
		return nil, &configError{err.Error()}
	}
	policy := &hostKeyPolicy{known: known, acceptNew: hop.acceptNew || s.AcceptNew, hashNames: hop.hashNames, asked: hop.String()}
	if len(hop.knownFiles) > 0 {
		policy.file = hop.knownFiles[0]
	}
	if last {
		policy.pinned = s.HostKey
	}
	signers, warnings, closeAgent, err := s.Keys.signers(hop)
	if err != nil {
		return nil, err
	}
	defer closeAgent()
	refused := make(chan error, 1) // of the check, which the library wraps in text only
	config := &ssh.ClientConfig{
		User: hop.user, HostKeyAlgorithms: known.algorithms(), ClientVersion: "SSH-2.0-sweep",
		Auth: []ssh.AuthMethod{ssh.PublicKeysCallback(func() ([]ssh.Signer, error) { return signers, nil })},
		HostKeyCallback: func(address string, remote net.Addr, key ssh.PublicKey) error {
			err := policy.check(address, remote, key)
			if err != nil {
				refused <- err
			}
			return err
		},
	}
	if policy.pinned != "" {
		config.HostKeyAlgorithms = kinds
	}
	client, err := bounded(ctx, c, c.timing.handshake, "log in to "+hop.String(), func() (*ssh.Client, error) {
		sc, channels, requests, err := ssh.NewClientConn(conn, net.JoinHostPort(name, port), config)
		if err != nil {
			return nil, err
		}
		return ssh.NewClient(sc, channels, requests), nil
	})
	if err == nil {
		return client, nil
	}
	select {
	case why := <-refused:
		return nil, why
	default:
	}
	return nil, explainHandshake(err, hop, signers, warnings, known)
}

// explainHandshake says in a sentence why a login failed, and whether another try could help.
func explainHandshake(err error, hop sshTarget, signers []ssh.Signer, warnings []string, known knownKeys) error {
	text := sweep.Printable(err.Error())
	switch {
	case strings.Contains(text, "unable to authenticate"), strings.Contains(text, "Too many authentication failures"), strings.Contains(text, "no supported methods remain"):
		offered := "no key was offered"
		if len(signers) > 0 {
			var prints []string
			for _, s := range signers {
				prints = append(prints, ssh.FingerprintSHA256(s.PublicKey()))
			}
			offered = "offered were " + strings.Join(prints, ", ")
		}
		for _, w := range warnings {
			offered += "; " + w
		}
		return &authError{fmt.Sprintf("%s does not let user %s in: %s", hop, hop.user, offered)}
	case strings.Contains(text, noCommonKind) && len(known.keys) > 0:
		k := known.keys[0]
		return &hostKeyError{fmt.Sprintf("the host key of %s has CHANGED: it no longer shows a key of the kind that is known (%s at %s). When you are sure that it is the right machine, remove the old key with: %s",
			hop, k.key.Type(), k.where, sweep.ShellLine([]string{"ssh-keygen", "-R", known.name}))}
	}
	return fmt.Errorf("log in to %s: %w", hop, errors.New(text))
}

// keepAlive asks each hop for a sign of life. The library's own call has no deadline, and one that hangs blocks
// the next; so there is never more than one, and a silent host costs the connection.
func (c *nativeConn) keepAlive() {
	misses := 0
	var answered chan error
	for {
		select {
		case <-c.quit:
			return
		case <-time.After(c.timing.keepalive):
		}
		if answered != nil {
			select {
			case err := <-answered:
				if err != nil {
					_ = c.raw.Close()
					return
				}
				answered, misses = nil, 0
			default:
				if misses++; misses >= 3 {
					_ = c.raw.Close()
					return
				}
				continue
			}
		}
		answered = make(chan error, 1)
		reply := answered
		c.wg.Go(func() {
			_, _, err := c.clients[len(c.clients)-1].SendRequest("keepalive@openssh.com", true, nil)
			reply <- err
		})
	}
}

// exec starts a command. There is one session at a time: some hosts allow no more.
func (c *nativeConn) exec(ctx context.Context, command string) (*channel, error) {
	client := c.clients[len(c.clients)-1]
	return bounded(ctx, c, c.timing.session, "start a command", func() (*channel, error) {
		session, err := client.NewSession()
		if err != nil {
			return nil, err
		}
		errOut := &tailBuffer{}
		session.Stderr = errOut
		in, err := session.StdinPipe()
		if err != nil {
			return nil, err
		}
		out, err := session.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := session.Start(command); err != nil {
			_ = session.Close()
			return nil, fmt.Errorf("start a command: %w", err)
		}
		return &channel{in: in, out: out, errOut: errOut, wait: func() (int, error) { return sessionCode(session.Wait()) }, close: func() { _ = session.Close() }}, nil
	})
}

// sessionCode is the exit code of a command that ended.
func sessionCode(err error) (int, error) {
	if exit := (*ssh.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitStatus(), nil
	}
	return 0, err
}

// close ends all connections and waits until nothing of them is left.
func (c *nativeConn) close() {
	c.once.Do(func() {
		c.mu.Lock()
		c.closed = true
		c.mu.Unlock()
		close(c.quit)
		for _, client := range slices.Backward(c.clients) {
			c.wg.Go(func() { _ = client.Close() })
		}
		_ = c.raw.Close()
	})
	c.wg.Wait()
}

var _ io.Closer = (*ssh.Client)(nil)

package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"time"

	"sweep/sweep"
)

// SSH runs launches on a machine that is reached over SSH. The agent there works through its whole queue alone; the
// link only brings jobs there and results back, and may be dead for hours.
type SSH struct {
	ID     string // name in the night
	Night  string // the night's folder on this machine
	Target string // [user@]host[:port], or a name of the user's ssh configuration

	Transport string        // "native" or "openssh", the user's own ssh; empty: native
	Config    string        // ssh configuration instead of the user's own; empty: that
	HostKey   string        // SHA256:… that the host must show; empty: known hosts decide
	AcceptNew bool          // take and remember the key of an unknown host
	Dir       string        // folder on the host for program and nights; empty: below its home
	Lease     time.Duration // how long the agent may work without hearing of this machine; 0: until an hour after End, else 24 h
	End       time.Time     // when the night has to end; zero: nothing bounds it

	Binary   Binary                           // this program, for the host's system
	LookupOS func(name string) (string, bool) // values that env: refers to; nil: os.LookupEnv
	Keys     *Keyring                         // nil: one of its own, which asks nobody
	Say      func(text string)                // what a person should know: the link is down, it is back; may be nil
	Note     func(kind, text string) error    // what belongs into the night's journal; may be nil
	Log      *slog.Logger                     // may be nil
	timing   timing

	ssh    string                                  // program of the user's own ssh; empty: "ssh"
	dial   func(ctx context.Context) (conn, error) // in tests: a host in this process; nil: over SSH
	clocks func() clocks                           // in tests: what this machine's clocks say; nil: they are read

	mu     sync.Mutex
	link   *link
	conn   conn
	opened bool  // it was connected once: from then on a dead link is waited for
	final  error // no further try can help

	state  remoteState
	acked  map[string]bool // attempts that are safe here and acknowledged
	once   sync.Once
	ready  error
	renew  time.Time     // when the lease was last renewed
	offset time.Duration // the host's clock less this machine's
}

// conn is one connection to a host.
type conn interface {
	exec(ctx context.Context, command string) (*channel, error)
	close()
}

// DefaultLease is how long an agent works on without hearing of its workstation, where neither grid nor night says more.
const DefaultLease = 24 * time.Hour

func (s *SSH) program() string { return cmp.Or(s.ssh, "ssh") }

func (s *SSH) say(format string, args ...any) {
	if s.Say != nil {
		s.Say(s.ID + ": " + fmt.Sprintf(format, args...))
	}
}

func (s *SSH) note(kind, text string) error {
	if s.Note == nil {
		return nil
	}
	return s.Note(kind, sweep.Printable(text))
}

// Name implements [sweep.Host].
func (s *SSH) Name() string { return s.ID }

func (s *SSH) dir() string { return Dir(s.Night, s.ID) }

// remoteState is remote.json in the host's folder of a night: where on the host the night is.
type remoteState struct {
	Target string `json:"target"`
	Folder string `json:"folder"` // the night's name on the host
}

const remoteFile = "remote.json"

// prepare reads what an earlier process of this night has left, or begins it.
func (s *SSH) prepare() error {
	s.once.Do(func() { s.ready = s.begin() })
	return s.ready
}

func (s *SSH) begin() error {
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	if s.Keys == nil {
		s.Keys = &Keyring{}
	}
	s.acked = map[string]bool{}
	if s.Night == "" { // only looked at
		return nil
	}
	if err := os.MkdirAll(s.dir(), 0o700); err != nil {
		return err
	}
	path := filepath.Join(s.dir(), remoteFile)
	data, err := os.ReadFile(path)
	switch {
	case err == nil:
		if err := json.Unmarshal(data, &s.state); err != nil || !nightName.MatchString(s.state.Folder) {
			return fmt.Errorf("%s is damaged: without it nobody knows where on the host this night is", path)
		}
	case errors.Is(err, os.ErrNotExist):
		mark := make([]byte, 4)
		if _, err := rand.Read(mark); err != nil {
			return err
		}
		s.state = remoteState{Target: s.Target, Folder: fmt.Sprintf("%.180s-%x", filepath.Base(s.Night), mark)}
		data, err := json.Marshal(s.state)
		if err != nil {
			return err
		}
		if err := sweep.WriteFile(path, append(data, '\n'), 0o600); err != nil {
			return err
		}
	default:
		return err
	}
	return s.readAcked()
}

// Open implements [sweep.Linked]: it connects for the first time, with one try.
func (s *SSH) Open(ctx context.Context) error {
	if err := s.prepare(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != nil {
		return nil
	}
	return asLinkError(s.connect(ctx))
}

// Reached reports whether the host was reached at any time.
func (s *SSH) Reached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// asLinkError is what others are told of a connection that is not made.
func asLinkError(err error) error {
	if err == nil {
		return nil
	}
	return &sweep.LinkError{Err: err, Final: Final(err)}
}

// Close ends the link. What runs on the host goes on.
func (s *SSH) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop()
}

func (s *SSH) drop() {
	if s.link != nil {
		s.link.close()
		s.link = nil
	}
	if s.conn != nil {
		s.conn.close()
		s.conn = nil
	}
}

// Final reports an error that no further try can mend: a key that is not trusted, a login that is refused, a host
// that cannot run sweep.
func Final(err error) bool {
	var (
		key    *hostKeyError
		auth   *authError
		config *configError
		trap   *trapError
	)
	return errors.As(err, &key) || errors.As(err, &auth) || errors.As(err, &config) || errors.As(err, &trap)
}

// connect makes one try. The caller holds the lock.
func (s *SSH) connect(ctx context.Context) (err error) {
	if s.final != nil {
		return s.final
	}
	defer func() {
		if err != nil {
			s.drop()
			if Final(err) {
				s.final = err
			}
		}
	}()
	s.drop()
	if s.conn, err = s.connection(ctx); err != nil {
		s.conn = nil
		return err
	}
	if s.link, err = s.startRelay(ctx); err != nil {
		return err
	}
	s.opened = true
	return s.compareClocks(ctx)
}

// connection makes a connection to the host by the transport that is asked for.
func (s *SSH) connection(ctx context.Context) (conn, error) {
	switch {
	case s.dial != nil:
		return s.dial(ctx)
	case s.Transport == "openssh":
		return s.dialOpenSSH()
	}
	target, err := resolve(ctx, s.Target, s.Config, s.program())
	if err != nil {
		return nil, err
	}
	return s.dialNative(ctx, target)
}

// connected is the living link; a dead one is made anew, for as long as it takes, unless the fault is final.
func (s *SSH) connected(ctx context.Context) (*link, error) {
	if err := s.prepare(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.timing.withDefaults()
	wait := t.backoff
	var since time.Time
	for {
		if s.link != nil {
			select {
			case <-s.link.down:
				s.Log.Info("the link is down", "host", s.ID, "err", s.link.err)
			default:
				if !since.IsZero() {
					s.say("connected again after %v", time.Since(since).Round(time.Second))
					_ = s.note("link", fmt.Sprintf("up again after %v", time.Since(since).Round(time.Second)))
				}
				return s.link, nil
			}
		}
		err := s.connect(ctx)
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if Final(err) || !s.opened {
			return nil, asLinkError(err)
		}
		if since.IsZero() {
			since = time.Now()
			s.say("not connected (%s); the agent there goes on, and this goes on trying", sweep.Printable(err.Error()))
			_ = s.note("link", "down: "+err.Error())
		}
		if err := sleepJitter(ctx, wait); err != nil {
			return nil, err
		}
		wait = min(2*wait, t.backoffMax)
	}
}

// sleepJitter waits between half of d and d, so that many workstations do not come back at the same moment.
func sleepJitter(ctx context.Context, d time.Duration) error {
	n, err := rand.Int(rand.Reader, big.NewInt(int64(d/2)+1))
	if err != nil {
		return err
	}
	timer := time.NewTimer(d/2 + time.Duration(n.Int64()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// renewEvery is how often a lease is renewed.
const renewEvery = 30 * time.Second

// call asks the relay one thing, over as many links as it takes. start is called before each try with data; it may
// be nil. Every request can be asked twice.
func (s *SSH) call(ctx context.Context, op string, args, reply any, start func(), data func([]byte) error) error {
	q := request{Op: op, Night: s.state.Folder, Host: s.ID}
	if args != nil {
		raw, err := json.Marshal(args)
		if err != nil {
			return err
		}
		q.Args = raw
	}
	for {
		l, err := s.connected(ctx)
		if err != nil {
			return err
		}
		q.Night, q.Lease = s.state.Folder, 0
		if s.Night != "" && op != "clean" {
			q.Lease = s.leaseDue()
		}
		if start != nil {
			start()
		}
		err = l.call(ctx, q, reply, data)
		if !errors.Is(err, errLinkDown) {
			return err
		}
	}
}

// leaseDue is the lease to send along, in seconds; 0: it was renewed a moment ago.
func (s *SSH) leaseDue() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.renew) < renewEvery {
		return 0
	}
	s.renew = time.Now()
	return s.lease().Seconds()
}

// afterEnd is how much longer than its night an agent may work unwatched.
const afterEnd = time.Hour

// lease is how long the agent may work from now on without hearing of this machine.
func (s *SSH) lease() time.Duration {
	if s.Lease > 0 || s.End.IsZero() {
		return cmp.Or(s.Lease, DefaultLease)
	}
	return max(time.Until(s.End), 0) + afterEnd
}

// Ask has the host's own copy of this program answer a request of its [Relay.Handle].
func (s *SSH) Ask(ctx context.Context, op string, args, reply any) error {
	return s.call(ctx, op, args, reply, nil, nil)
}

// Working lists the jobs that an agent at work on the host still has to do; none when no agent is at work.
func (s *SSH) Working(ctx context.Context) ([]sweep.Job, error) {
	var reply workingReply
	if err := s.call(ctx, "working", struct{}{}, &reply, nil, nil); err != nil || !reply.Alive {
		return nil, err
	}
	return reply.Jobs, nil
}

// Cancel implements [sweep.Host].
func (s *SSH) Cancel(ctx context.Context, now bool) error {
	err := s.call(ctx, "cancel", cancelArgs{now}, nil, nil, nil)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("the agent on %s may still be at work (its lease ends it %v after it last heard of this machine): %w", s.Target, s.lease().Round(time.Minute), err)
	}
	return err
}

// Clean takes the night away from the host, once everything of it is here.
func (s *SSH) Clean(ctx context.Context) error { return s.call(ctx, "clean", nil, nil, nil, nil) }

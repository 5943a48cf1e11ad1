package host

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"sweep/sweep"
	"sweep/sweep/proc"
)

// Relay is the end on the host of a workstation's link: a small process that lives as long as the link does. It
// writes queues, starts agents and hands out what they wrote; the agents go on without it.
type Relay struct {
	Root  string   // folder of the host's nights
	Agent []string // argv prefix that starts an agent, as in [Local]
	// Handle answers requests that are not the relay's own, by their names.
	Handle map[string]func(ctx context.Context, args json.RawMessage) (any, error)

	patience time.Duration // instead of nowTime, in tests

	mu     sync.Mutex
	locals map[string]*Local // by night and host: the one that started an agent must wait for it
}

// aliveEvery is how often a relay says that it still works on an answer.
const aliveEvery = 3 * time.Second

// Serve answers requests until the other side is gone.
func (r *Relay) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	r.locals = map[string]*Local{}
	if _, err := io.WriteString(out, preamble); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	w := &frameWriter{w: out}
	reader := bufio.NewReader(in)
	givenUp := map[uint32]context.CancelFunc{}
	var mu sync.Mutex
	for {
		f, err := readFrame(reader)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		mu.Lock()
		switch f.kind {
		case frameGiveUp:
			if stop := givenUp[f.id]; stop != nil {
				stop()
			}
		case frameRequest:
			one, stop := context.WithCancel(ctx)
			givenUp[f.id] = stop
			wg.Go(func() {
				r.serveOne(one, w, f)
				mu.Lock()
				defer mu.Unlock()
				stop()
				delete(givenUp, f.id)
			})
		}
		mu.Unlock()
	}
}

// serveOne answers one request. A write that fails means that the link is gone, which the reader sees as well.
func (r *Relay) serveOne(ctx context.Context, w *frameWriter, f frame) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(aliveEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				_ = w.write(frame{id: f.id, kind: frameAlive})
			}
		}
	})
	send := func(data []byte) error { return w.write(frame{f.id, frameData, data}) }
	reply, err := r.answer(ctx, f.payload, send)
	close(done)
	wg.Wait()
	var a answer
	if err == nil {
		a.Reply, err = json.Marshal(reply)
	}
	if err == nil && len(a.Reply) > maxFrame-1024 {
		err = fmt.Errorf("the answer is longer than %d bytes", maxFrame)
	}
	if err != nil {
		a = answer{Error: sweep.Printable(err.Error()), Lost: errors.Is(err, sweep.ErrAgentLost)}
	}
	_ = w.writeJSON(f.id, frameAnswer, a)
}

var (
	nightName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$`)
	hostName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
)

func (r *Relay) answer(ctx context.Context, payload []byte, send func([]byte) error) (any, error) {
	var q request
	if err := json.Unmarshal(payload, &q); err != nil {
		return nil, fmt.Errorf("a request that cannot be read: %w", err)
	}
	if q.Op == "hello" {
		boot, err := proc.Self()
		return helloReply{BootID: boot.BootID, Time: time.Now().UnixNano(), Root: r.Root}, err
	}
	if handle := r.Handle[q.Op]; handle != nil {
		return handle(ctx, q.Args)
	}
	if !nightName.MatchString(q.Night) || !hostName.MatchString(q.Host) {
		return nil, fmt.Errorf("%q and %q name no night and host", q.Night, q.Host)
	}
	l := r.local(q.Night, q.Host)
	if q.Lease > 0 {
		if err := writeLease(l.dir(), time.Duration(q.Lease*float64(time.Second))); err != nil {
			return nil, err
		}
	}
	switch q.Op {
	case "submit":
		return withArgs(q, func(a submitArgs) (any, error) { return nil, r.submit(ctx, l, a) })
	case "working":
		return l.working()
	case "events":
		return withArgs(q, func(a eventsArgs) (any, error) { return l.serveEvents(ctx, a, send) })
	case "attempts":
		return l.attempts()
	case "list":
		lowly()
		return withArgs(q, func(a dirArgs) (any, error) { return l.list(ctx, a) })
	case "read":
		lowly()
		return withArgs(q, func(a readArgs) (any, error) { return l.read(ctx, a, send) })
	case "put":
		return withArgs(q, func(a putArgs) (any, error) { return l.put(a) })
	case "ack":
		return withArgs(q, func(a dirArgs) (any, error) { return nil, l.ack(a.Dir) })
	case "cancel":
		return withArgs(q, func(a cancelArgs) (any, error) { return nil, l.Cancel(ctx, a.Now) })
	case "clean":
		return nil, l.clean()
	}
	return nil, fmt.Errorf("this version of sweep does not know the request %q", q.Op)
}

func withArgs[T any](q request, do func(T) (any, error)) (any, error) {
	var args T
	if err := json.Unmarshal(q.Args, &args); err != nil {
		return nil, fmt.Errorf("request %s: %w", q.Op, err)
	}
	return do(args)
}

func (r *Relay) local(night, host string) *Local {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := night + "/" + host
	if r.locals[key] == nil {
		r.locals[key] = &Local{ID: host, Night: filepath.Join(r.Root, night), Agent: r.Agent, patience: r.patience}
	}
	return r.locals[key]
}

// submit does one submission, once: a workstation that did not hear the answer asks again.
func (r *Relay) submit(ctx context.Context, l *Local, a submitArgs) error {
	if !nightName.MatchString(a.ID) {
		return fmt.Errorf("%q names no submission", a.ID)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	mark := filepath.Join(l.dir(), "submitted-"+a.ID)
	if _, err := os.Stat(mark); err == nil {
		return nil
	}
	if err := os.MkdirAll(l.dir(), 0o700); err != nil {
		return err
	}
	argv, err := lingers(ctx, r.Agent)
	if err != nil {
		return err
	}
	l.Env, l.Agent = a.Env, argv
	// A link that dies now must not leave half a queue: the submission ends, whoever waits for it.
	if err := l.Submit(context.WithoutCancel(ctx), a.Jobs); err != nil {
		return err
	}
	return sweep.WriteFile(mark, nil, 0o600)
}

// working is whether an agent is at work, and which of its jobs are not done.
func (l *Local) working() (workingReply, error) {
	reply := workingReply{Alive: l.alive()}
	queue := filepath.Join(l.dir(), "queue")
	open, err := unfinished(queue)
	if err != nil {
		return reply, err
	}
	for _, name := range open {
		var job sweep.Job
		data, err := os.ReadFile(filepath.Join(queue, name+".json"))
		if err == nil {
			err = json.Unmarshal(data, &job)
		}
		if err != nil {
			return reply, fmt.Errorf("queue: %w", err)
		}
		reply.Jobs = append(reply.Jobs, job)
	}
	return reply, nil
}

// mostEvents bounds what one answer holds of events.jsonl, in bytes.
const mostEvents = 256 << 10

// serveEvents sends the whole lines of events.jsonl behind an offset. Without any it waits for some, for the
// agent's end, or until the time is over.
func (l *Local) serveEvents(ctx context.Context, a eventsArgs, send func([]byte) error) (any, error) {
	deadline := time.Now().Add(time.Duration(a.Wait) * time.Millisecond)
	for {
		reply := eventsReply{Alive: l.alive()} // asked before the read: what it wrote until then is read below
		open, err := unfinished(filepath.Join(l.dir(), "queue"))
		if err != nil {
			return nil, err
		}
		reply.Open = len(open)
		data, size, err := readPiece(filepath.Join(l.dir(), "events.jsonl"), a.From, mostEvents)
		if err != nil {
			return nil, err
		}
		reply.Size = size
		whole := data[:lastLine(data)]
		if len(whole) > 0 || !reply.Alive || !time.Now().Before(deadline) {
			if len(whole) > 0 {
				if err := send(whole); err != nil {
					return nil, err
				}
			}
			return reply, nil
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// lastLine is the length of the whole lines in data.
func lastLine(data []byte) int {
	for i := len(data); i > 0; i-- {
		if data[i-1] == '\n' {
			return i
		}
	}
	return 0
}

// readPiece reads at most so many bytes of a file from an offset on, and says how long it is. A file that is not
// there yet is empty.
func readPiece(path string, from, most int64) (data []byte, size int64, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	data, err = io.ReadAll(io.NewSectionReader(f, from, most))
	return data, info.Size(), err
}

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"sweep/loadgen"
	"sweep/sweep"
)

// loadSignals ends a load at the first signal: what was measured until then is shown.
type loadSignals struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	end    func()
}

var errStopped = errors.New("stopped by a signal")

func catchLoadSignals(env *environ) *loadSignals {
	s := &loadSignals{}
	s.ctx, s.cancel = context.WithCancelCause(env.Ctx)
	stop := onSignals(func(n int, _ os.Signal) {
		if n > 0 {
			os.Exit(exitInterrupted)
		}
		s.cancel(errStopped)
	}, os.Interrupt, syscall.SIGTERM)
	s.end = sync.OnceFunc(stop)
	return s
}

func (s *loadSignals) stopped() bool { return context.Cause(s.ctx) != nil }

// liveLine is one line that says how a run goes, on a terminal only.
type liveLine struct {
	w     io.Writer
	width int
	shown bool
}

func newLiveLine(env *environ) *liveLine {
	width, ok := terminal(env.Stderr)
	if !ok || env.Quiet {
		return &liveLine{}
	}
	return &liveLine{w: env.Stderr, width: width}
}

// show replaces the line.
func (l *liveLine) show(p loadgen.Progress) {
	if l.w == nil {
		return
	}
	text := p.Text
	if p.Phase == "window" && p.Done > 0 {
		text = fmt.Sprintf("%s · %.0f %%", text, 100*p.Done)
	}
	if p.Failed > 0 {
		text = fmt.Sprintf("%s · %d failed", text, p.Failed)
	}
	text = sweep.Printable(text)
	if r := []rune(text); len(r) >= l.width {
		text = string(r[:l.width-1])
	}
	fmt.Fprintf(l.w, "\r\x1b[K%s", text)
	l.shown = true
}

func (l *liveLine) end() {
	if l.shown {
		fmt.Fprint(l.w, "\r\x1b[K")
	}
}

// runOne drives the load from this process.
func (j *loadJob) runOne(ctx context.Context, out *loadOutputs, live *liveLine) (loadgen.Result, error) {
	spec := j.spec
	spec.OnProgress = live.show
	spec.Requests, spec.Record = out.lines(), out.record()
	return loadgen.Run(ctx, spec)
}

// partMessage is a line that a process of several writes to the one that started it.
type partMessage struct {
	Ready    bool              `json:"ready,omitempty"` // all is prepared: it waits for the time of the start
	Progress *loadgen.Progress `json:"progress,omitempty"`
	Error    string            `json:"error,omitempty"` // why it did not come to its end
	Kind     int               `json:"kind,omitempty"`  // of the error: index in partErrors
}

// partErrors are the errors of a part that say how the whole ended.
var partErrors = []error{nil, loadgen.ErrStalled, loadgen.ErrFailing, loadgen.ErrPrompts}

// loadPart is one process of several. Its first line of input is when the clock starts, in Unix ns; the input's end stops it.
func loadPart(env *environ, j *loadJob) error {
	ctx, cancel := context.WithCancelCause(env.Ctx)
	defer cancel(nil)
	ignore := onSignals(func(int, os.Signal) {}, os.Interrupt) // the terminal sends it to all; the one that started us decides
	defer ignore()
	var mu sync.Mutex
	say := func(m partMessage) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(env.Stdout).Encode(m) // who reads it may be gone: the end of the input says so too
	}
	begin := make(chan time.Time, 1)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer cancel(errStopped)
		lines := bufio.NewScanner(env.Stdin)
		for lines.Scan() {
			if ns, err := strconv.ParseInt(lines.Text(), 10, 64); err == nil {
				begin <- time.Unix(0, ns)
			}
		}
	})
	spec := j.spec
	spec.OnProgress = func(p loadgen.Progress) { say(partMessage{Progress: &p}) }
	spec.Ready = func(ctx context.Context) (time.Time, error) {
		say(partMessage{Ready: true})
		select {
		case at := <-begin:
			return at, nil
		case <-ctx.Done():
			return time.Time{}, context.Cause(ctx)
		}
	}
	record, err := os.OpenFile(env.Getenv(partRecord), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err == nil {
		spec.Record = record
		_, err = loadgen.Run(ctx, spec)
		err = errors.Join(err, record.Close())
	}
	if err != nil && context.Cause(ctx) == nil {
		m := partMessage{Error: err.Error()}
		for i, known := range partErrors[1:] {
			if errors.Is(err, known) {
				m.Kind = i + 1
			}
		}
		say(m)
	}
	return nil // the reader of our input ends with the process
}

// partRecord names the environment variable that tells a part where its record goes.
const partRecord = "SWEEP_LOAD_PART_RECORD"

// loadProcess is a process of several, as the one that started it sees it.
type loadProcess struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.ReadCloser
	stderr strings.Builder
	record string
	ready  chan struct{} // closed when it is, or when it ended
	err    error
}

// runParts shares the load over several processes and merges what they saw.
func (j *loadJob) runParts(ctx context.Context, env *environ, f *loadFlags, out *loadOutputs, live *liveLine) (loadgen.Result, error) {
	dir, err := os.MkdirTemp("", "sweep-load-")
	if err != nil {
		return loadgen.Result{}, err
	}
	defer os.RemoveAll(dir)
	crowd := &loadCrowd{live: live, last: make([]loadgen.Progress, f.processes)}
	var parts []*loadProcess
	var readers sync.WaitGroup
	stop := sync.OnceFunc(func() {
		for _, p := range parts {
			p.in.Close()
		}
	})
	defer stop()
	for i := range f.processes {
		p, err := startPart(env, j, i, filepath.Join(dir, fmt.Sprintf("%d.rec", i)))
		if err != nil {
			stop()
			readers.Wait()
			return loadgen.Result{}, err
		}
		parts = append(parts, p)
		readers.Go(func() { p.read(func(m partMessage) { crowd.heard(i, m) }) })
	}
	unhook := context.AfterFunc(ctx, stop)
	defer unhook()
	for _, p := range parts {
		<-p.ready
	}
	const lead = 50 * time.Millisecond // for the message to arrive
	at := time.Now().Add(lead).UnixNano()
	for _, p := range parts {
		fmt.Fprintf(p.in, "%d\n", at) // one that is gone says why below
	}
	readers.Wait()
	for _, p := range parts {
		err = errors.Join(err, p.err)
	}
	res, merr := out.merge(parts)
	if merr != nil && err == nil && ctx.Err() == nil {
		err = merr
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return res, err
}

// startPart starts one process with the same command line.
func startPart(env *environ, j *loadJob, i int, record string) (*loadProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &loadProcess{record: record, ready: make(chan struct{})}
	args := append(append([]string(nil), env.Args[1:]...), "--part", strconv.Itoa(i), "--salt", j.spec.Salt, "--model", j.spec.Model)
	p.cmd = exec.Command(self, args...)
	p.cmd.Env = append(os.Environ(), partRecord+"="+record)
	p.cmd.Stderr = &p.stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return p, p.cmd.Start()
}

// read takes what a process says until it ends.
func (p *loadProcess) read(heard func(partMessage)) {
	ready := sync.OnceFunc(func() { close(p.ready) })
	defer ready()
	lines := bufio.NewScanner(p.out)
	for lines.Scan() {
		var m partMessage
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			continue
		}
		if m.Ready {
			ready()
		}
		if m.Error != "" && m.Kind > 0 && m.Kind < len(partErrors) {
			p.err = fmt.Errorf("%w (%s)", partErrors[m.Kind], m.Error)
		} else if m.Error != "" {
			p.err = errors.New(m.Error)
		}
		heard(m)
	}
	if err := p.cmd.Wait(); err != nil && p.err == nil {
		p.err = fmt.Errorf("a process of the load ended: %w: %s", err, strings.TrimSpace(p.stderr.String()))
	}
}

// loadCrowd adds up what several processes say.
type loadCrowd struct {
	mu   sync.Mutex
	live *liveLine
	last []loadgen.Progress
}

func (c *loadCrowd) heard(i int, m partMessage) {
	if m.Progress == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last[i] = *m.Progress
	sum := loadgen.Progress{Phase: m.Progress.Phase, Done: 1}
	for _, p := range c.last {
		sum.Open, sum.Failed, sum.Finished = sum.Open+p.Open, sum.Failed+p.Failed, sum.Finished+p.Finished
		sum.Done = min(sum.Done, p.Done)
	}
	sum.Text = fmt.Sprintf("%s · %d processes · %d open · %d finished", sum.Phase, len(c.last), sum.Open, sum.Finished)
	c.live.show(sum)
}

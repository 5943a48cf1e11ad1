//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sweep/sweep"
	"sweep/sweep/proc/proctest"
)

// storm is what to do.
type storm struct {
	random   int
	seed     uint64
	parallel int
	only     string
	once     bool // one blow at each failpoint, at random with or without the parent, instead of both; several blows a night
	program  string
	keep     bool
	say      func(format string, args ...any)

	self   string   // this program, which is a container runtime's client too
	root   string   // folder of all beds
	scenes []*scene // the first one's night is struck at random moments
	marks  []mark
}

// mark is a failpoint that a night passes.
type mark struct {
	scene   *scene
	text    string // "ROLE NAME"
	resumed bool   // only a night that goes on after it was killed passes it
}

// blow is one way to disturb a night.
type blow struct {
	scene  *scene
	name   string
	again  bool          // the night is killed halfway, and it is its resume that is struck
	mark   string        // a failpoint, or
	after  time.Duration // a moment after the start, at which
	target string        // is killed, see targets
	parent bool          // of the process that reaches the failpoint, too
}

// run does all of it and returns how many blows left something wrong.
func (s *storm) run(ctx context.Context) (failed int, err error) {
	if s.root, err = os.MkdirTemp("", "killstorm-"); err != nil {
		return 0, err
	}
	defer func() {
		if !s.keep || failed == 0 {
			_ = os.RemoveAll(s.root)
		}
	}()
	// Whatever loses its parent falls to this process: at the end it must have no child.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, err
	}
	if s.self, err = os.Executable(); err != nil {
		return 0, err
	}
	if s.program == "" {
		s.program = filepath.Join(s.root, "sweep")
		build := exec.CommandContext(ctx, "go", "build", "-tags", "failpoints", "-o", s.program, "sweep/cmd/sweep")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("build: %w: %s", err, out)
		}
	}
	for _, sc := range scenes() {
		switch err := s.undisturbed(ctx, sc); {
		case errors.Is(err, proctest.ErrNoGroup):
			s.say("the %s night is left out: %v", sc.name, err)
			continue
		case err != nil:
			return 0, fmt.Errorf("the undisturbed %s night: %w", sc.name, err)
		}
		s.scenes = append(s.scenes, sc)
		s.say("an undisturbed %s night takes %s and has %d cells", sc.name, sc.calm.took.Round(time.Millisecond), len(sc.calm.cells))
	}
	blows := s.blows()
	s.say("they pass %d failpoints; seed %d", len(s.marks), s.seed)
	began := time.Now()
	failed = s.all(ctx, blows)
	if err := ctx.Err(); err != nil {
		return failed, err
	}
	for _, what := range orphans() {
		s.say("FAIL at the end: %s", what)
		failed++
	}
	s.say("%d blows (%d at failpoints, %d at random moments, seed %d) in %s: %d failed", len(blows), len(blows)-s.random, s.random, s.seed, time.Since(began).Round(time.Second), failed)
	return failed, nil
}

// undisturbed runs a scene's night in peace and notes the failpoints that no earlier scene has passed, in order.
func (s *storm) undisturbed(ctx context.Context, sc *scene) error {
	b, err := s.newBed(sc, "calm-"+sc.name)
	if err != nil {
		return err
	}
	defer b.remove()
	trace := filepath.Join(b.dir, "trace")
	began := time.Now()
	code, said := b.sweep(ctx, []string{"SWEEP_FAILPOINT_TRACE=" + trace}, "run", "grid.yaml")
	if code != 0 && code != 1 {
		return fmt.Errorf("exit code %d: %s", code, said)
	}
	sc.calm, err = b.read()
	if err != nil {
		return err
	}
	sc.calm.took = time.Since(began)
	if wrong := b.wrong(sc.calm, sc.calm); len(wrong) > 0 {
		return fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	if err := s.learn(sc, trace, false); err != nil {
		return err
	}
	if len(s.marks) < 20 {
		return fmt.Errorf("only %d failpoints: is the program built with -tags failpoints?", len(s.marks))
	}
	return s.resumed(ctx, sc)
}

// halfway kills runner and agent in the middle of a night.
var halfway = blow{mark: "agent load.measured", parent: true}

// resumed goes on with a night that was killed halfway, and notes the failpoints of that.
func (s *storm) resumed(ctx context.Context, sc *scene) error {
	b, err := s.newBed(sc, "resumed-"+sc.name)
	if err != nil {
		return err
	}
	defer b.remove()
	switch fell, err := b.struck(ctx, halfway); {
	case err != nil:
		return err
	case !fell:
		return errors.New("the night was not killed halfway")
	}
	trace := filepath.Join(b.dir, "trace")
	if code, said := b.sweep(ctx, []string{"SWEEP_FAILPOINT_TRACE=" + trace}, "resume", "results"); code != 0 && code != 1 {
		return fmt.Errorf("resume: exit code %d: %s", code, said)
	}
	return s.learn(sc, trace, true)
}

// learn notes the failpoints of a trace that are new, in order.
func (s *storm) learn(sc *scene, trace string, resumed bool) error {
	data, err := os.ReadFile(trace)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		text := strings.TrimSpace(line)
		if text != "" && !slices.ContainsFunc(s.marks, func(m mark) bool { return m.text == text }) {
			s.marks = append(s.marks, mark{sc, text, resumed})
		}
	}
	return nil
}

// blows are every failpoint in the order in which the nights pass them, then the random moments.
func (s *storm) blows() []blow {
	var list []blow
	random := rand.New(rand.NewPCG(s.seed, 0))
	for _, m := range s.marks {
		if s.only != "" && s.only != m.text {
			continue
		}
		role, _, _ := strings.Cut(m.text, " ")
		child := role == "agent" || role == "supervise" // its parent is a process of the night too
		with := child && random.IntN(2) == 0
		one := blow{scene: m.scene, name: m.text, mark: m.text, again: m.resumed}
		both := one
		both.name, both.parent = m.text+", with its parent", true
		if !with || !s.once {
			list = append(list, one)
		}
		if with || child && !s.once {
			list = append(list, both)
		}
	}
	targets := []string{"runner", "agent", "both", "supervisor", "server", "runner, until the agent has ended"}
	sc := s.scenes[0]
	for range s.random {
		b := blow{scene: sc, after: time.Duration(random.Int64N(int64(sc.calm.took))), target: targets[random.IntN(len(targets))]}
		b.name = fmt.Sprintf("%s after %s", b.target, b.after.Round(time.Millisecond))
		list = append(list, b)
	}
	return list
}

// all strikes every blow, several nights at a time, and returns how many nights something was wrong with.
func (s *storm) all(ctx context.Context, blows []blow) (failed int) {
	chains := s.chains(blows)
	var missed []blow
	for done := 0; len(chains) > 0 && ctx.Err() == nil; {
		missed = nil
		failed += s.some(ctx, chains, &done, func(b []blow) { missed = append(missed, b...) })
		chains = nil
		for _, b := range missed { // alone it is passed
			chains = append(chains, []blow{b})
		}
	}
	return failed
}

// chain is how many blows one night takes at most.
const chain = 3

// chains says which blows one night takes, one after another: with once several, which takes half the time and says less of which
// one was too much.
func (s *storm) chains(blows []blow) [][]blow {
	var chains [][]blow
	var later []blow // can strike a night that goes on
	for i, b := range blows {
		role, _, _ := strings.Cut(b.mark, " ")
		child := role == "agent" || role == "supervise"
		if s.once && (child && !b.again && i >= len(s.marks)/chain || b.mark == "" && i%chain > 0) {
			later = append(later, b)
			continue
		}
		chains = append(chains, []blow{b})
	}
	for i, b := range later {
		fits := func(c []blow) bool {
			return c[0].scene == b.scene && !c[0].again && (c[0].mark == "") == (b.mark == "") && len(c) < chain
		}
		least := -1 // the shortest that fits
		for j, c := range chains {
			if fits(c) && (least < 0 || len(c) < len(chains[least])) {
				least = j
			}
		}
		if least < 0 {
			chains = append(chains, later[i:i+1:i+1])
			continue
		}
		chains[least] = append(chains[least], b)
	}
	return chains
}

// some strikes chains of blows. done counts them over all calls.
func (s *storm) some(ctx context.Context, chains [][]blow, done *int, missed func([]blow)) (failed int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan int)
	base := *done
	for range max(1, s.parallel) {
		wg.Go(func() {
			for i := range next {
				left, wrong := s.strike(ctx, base+i, chains[i])
				if ctx.Err() != nil {
					continue
				}
				mu.Lock()
				if missed(left); len(wrong) > 0 {
					failed++
					var names []string
					for _, b := range chains[i] {
						names = append(names, b.name)
					}
					s.say("FAIL %s: %s", strings.Join(names, ", then "), strings.Join(wrong, "\n  "))
				}
				if *done++; *done%100 == 0 {
					s.say("%d nights, %d failed", *done, failed)
				}
				mu.Unlock()
			}
		})
	}
	for i := range chains {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
	return failed
}

// strike runs a night with the first blow, goes on with it under each further one, then to its end, and says what is wrong
// afterwards. Further blows at failpoints that are not passed any more, as too little was left to do, are returned as missed.
func (s *storm) strike(ctx context.Context, i int, chain []blow) (missed []blow, wrong []string) {
	sc := chain[0].scene
	bed, err := s.newBed(sc, fmt.Sprint(i))
	if err != nil {
		return nil, []string{err.Error()}
	}
	defer func() {
		bed.endAll() // whatever a failed case left
		if !s.keep || len(wrong) == 0 {
			bed.remove()
		}
	}()
	if chain[0].again {
		chain = slices.Insert(slices.Clone(chain), 0, halfway)
	}
	for k, b := range chain {
		fell, err := bed.struck(ctx, b)
		switch {
		case err != nil:
			return nil, []string{fmt.Sprintf("%s: %v", b.name, err)}
		case !fell && k > 0 && !b.again:
			missed = append(missed, b)
		case !fell:
			return nil, []string{b.name + ": the failpoint was not reached"}
		}
		if dir := bed.night(); dir != "" {
			if _, err := sweep.Fsck(dir, false); err != nil { // it names what the blow left, and does not stumble over it
				return nil, []string{fmt.Sprintf("%s: fsck after the blow: %v", b.name, err)}
			}
		}
	}
	for _, args := range [][]string{bed.next(), {"resume", "results"}} { // where nothing was begun, nothing can be lost
		if code, said := bed.sweep(ctx, nil, args...); code != 0 && code != 1 {
			return nil, []string{fmt.Sprintf("%s: exit code %d: %s", args[0], code, said)}
		}
	}
	got, err := bed.read()
	if err != nil {
		return nil, []string{err.Error()}
	}
	if wrong = bed.wrong(got, sc.calm); len(wrong) > 0 && s.keep {
		wrong = append(wrong, bed.dir)
	}
	return missed, wrong
}

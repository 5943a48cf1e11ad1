package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"sweep/sweep"
)

// Subject is a kind of host under test.
type Subject struct {
	// New makes a host for a night's folder, whose agent is [Agent].
	New func(t *testing.T, night string) sweep.Host
	// Alive reports whether an agent of that night lives where the host runs it.
	Alive func(t *testing.T, night string) bool
}

// limit bounds every wait of the suite: far more than any host needs.
const limit = 2 * time.Minute

// Run runs the suite.
func Run(t *testing.T, s Subject) {
	tests := map[string]func(*bench){
		"queue in order":               (*bench).inOrder,
		"follow from anywhere":         (*bench).fromAnywhere,
		"submit again":                 (*bench).submitAgain,
		"agent that dies":              (*bench).dies,
		"agent that fails itself":      (*bench).fails,
		"cancel cleanly":               (*bench).cancelClean,
		"cancel at once":               (*bench).cancelNow,
		"cancel nothing":               (*bench).cancelNothing,
		"follow ends with its context": (*bench).contextEnds,
		"fn's error ends follow":       (*bench).fnFails,
		"another process follows":      (*bench).takenOver,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			night := t.TempDir()
			b := &bench{T: t, ctx: ctx, subject: s, night: night, host: s.New(t, night)}
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
				defer cancel()
				if err := b.host.Cancel(ctx, true); err != nil {
					t.Errorf("clean up: %v", err)
				}
			})
			test(b)
		})
	}
}

// bench is one test's host with its night.
type bench struct {
	*testing.T
	ctx     context.Context
	subject Subject
	night   string
	host    sweep.Host
	from    int64
	events  []sweep.Event
}

// job is a job that the agent treats in the given way.
func job(what string, number int) sweep.Job {
	return sweep.Job{
		Schema: sweep.Schema, ID: fmt.Sprintf("%s-%d/repeat=1", what, number), Attempt: 1, Config: sweep.Config{Key: what},
		Loads: []sweep.LoadJob{{Cell: fmt.Sprintf("%s-%d/w,c=1", what, number)}},
	}
}

func (b *bench) submit(jobs ...sweep.Job) {
	b.Helper()
	if err := b.host.Submit(b.ctx, jobs); err != nil {
		b.Fatalf("submit: %v", err)
	}
}

// follow goes on until the queue is done, the agent is lost, or an event of the given kind came.
func (b *bench) follow(until sweep.EventKind) error {
	return b.host.Follow(b.ctx, b.from, func(e sweep.Event, next int64) error {
		if next <= b.from {
			b.Errorf("the offset went from %d to %d", b.from, next)
		}
		b.from = next
		b.events = append(b.events, e)
		if e.Kind == until {
			return errSeen
		}
		return nil
	})
}

var errSeen = errors.New("seen")

func (b *bench) started(what string) {
	b.Helper()
	if err := b.follow(sweep.EventLaunch); !errors.Is(err, errSeen) {
		b.Fatalf("wait for %s: %v", what, err)
	}
}

func (b *bench) ended() []string {
	var ids []string
	for _, e := range b.events {
		if e.Kind == sweep.EventEnd {
			ids = append(ids, e.Job)
		}
	}
	return ids
}

func (b *bench) wantEnded(ids ...string) {
	b.Helper()
	if got := b.ended(); !slices.Equal(got, ids) {
		b.Errorf("ended: %v, want %v", got, ids)
	}
}

func (b *bench) wantDead() {
	b.Helper()
	if b.subject.Alive(b.T, b.night) {
		b.Error("the agent lives")
	}
}

func (b *bench) inOrder() {
	b.submit(job(Works, 1), job(Works, 2), job(Works, 3))
	if err := b.follow(""); err != nil {
		b.Fatal(err)
	}
	b.wantEnded("works-1/repeat=1", "works-2/repeat=1", "works-3/repeat=1")
	if last := b.events[len(b.events)-1]; last.Kind != sweep.EventDone {
		b.Errorf("the last event is %v", last)
	}
	for _, e := range b.events {
		if e.Kind != sweep.EventEnd {
			continue
		}
		if err := b.host.Fetch(b.ctx, e.Dir); err != nil {
			b.Error(err)
		}
		if _, err := os.Stat(filepath.Join(b.night, filepath.FromSlash(e.Dir), "launch.json")); err != nil {
			b.Error(err)
		}
	}
	b.wantDead()
}

func (b *bench) fromAnywhere() {
	b.submit(job(Works, 1), job(Works, 2))
	if err := b.follow(""); err != nil {
		b.Fatal(err)
	}
	all := len(b.events)
	if err := b.follow(""); err != nil || len(b.events) != all {
		b.Errorf("from the end: %d more events, %v", len(b.events)-all, err)
	}
	b.from, b.events = 0, nil
	if err := b.follow(sweep.EventEnd); !errors.Is(err, errSeen) {
		b.Fatal(err)
	}
	half := len(b.events)
	if err := b.follow(""); err != nil || len(b.events) != all {
		b.Errorf("%d and %d events, want %d in all; %v", half, len(b.events)-half, all, err)
	}
}

func (b *bench) submitAgain() {
	b.submit(job(Works, 1))
	if err := b.follow(""); err != nil {
		b.Fatal(err)
	}
	b.submit(job(Works, 2))
	if err := b.follow(""); err != nil {
		b.Fatal(err)
	}
	b.wantEnded("works-1/repeat=1", "works-2/repeat=1")
}

func (b *bench) dies() {
	b.submit(job(Works, 1), job(Dies, 2), job(Works, 3))
	if err := b.follow(""); !errors.Is(err, sweep.ErrAgentLost) {
		b.Fatalf("follow: %v, want %v", err, sweep.ErrAgentLost)
	}
	b.wantEnded("works-1/repeat=1")
	// What the lost agent left undone is not done behind our back.
	b.submit(job(Works, 4))
	if err := b.follow(""); err != nil {
		b.Fatal(err)
	}
	b.wantEnded("works-1/repeat=1", "works-4/repeat=1")
}

func (b *bench) fails() {
	b.submit(job(Fails, 1))
	if err := b.follow(""); !errors.Is(err, sweep.ErrAgentLost) {
		b.Fatalf("follow: %v, want %v", err, sweep.ErrAgentLost)
	}
	if last := b.events[len(b.events)-1]; last.Kind != sweep.EventError || last.Text == "" {
		b.Errorf("the last event is %v", last)
	}
}

func (b *bench) cancelClean() {
	b.submit(job(Waits, 1), job(Works, 2))
	b.started("the first job")
	if err := b.host.Cancel(b.ctx, false); err != nil {
		b.Fatal(err)
	}
	b.wantDead()
	if err := b.follow(""); err != nil {
		b.Errorf("follow after a cancel: %v", err)
	}
	b.wantEnded("waits-1/repeat=1") // it had its time to write aborted
}

func (b *bench) cancelNow() {
	b.submit(job(Deaf, 1))
	b.started("the job")
	short, cancel := context.WithTimeout(b.ctx, 200*time.Millisecond)
	defer cancel()
	if err := b.host.Cancel(short, false); !errors.Is(err, context.DeadlineExceeded) {
		b.Errorf("a deaf agent was cancelled cleanly: %v", err)
	}
	if !b.subject.Alive(b.T, b.night) {
		b.Error("the agent was killed although it was asked politely")
	}
	if err := b.host.Cancel(b.ctx, true); err != nil {
		b.Fatal(err)
	}
	b.wantDead()
}

func (b *bench) cancelNothing() {
	for _, now := range []bool{false, true} {
		if err := b.host.Cancel(b.ctx, now); err != nil {
			b.Errorf("before the first submit: %v", err)
		}
	}
	b.submit(job(Works, 1))
	if err := b.follow(""); err != nil {
		b.Fatal(err)
	}
	if err := b.host.Cancel(b.ctx, false); err != nil {
		b.Errorf("after the end: %v", err)
	}
}

func (b *bench) contextEnds() {
	b.submit(job(Waits, 1))
	b.started("the job")
	ctx, cancel := context.WithTimeout(b.ctx, 100*time.Millisecond)
	defer cancel()
	err := b.host.Follow(ctx, b.from, func(sweep.Event, int64) error { return nil })
	if !errors.Is(err, context.DeadlineExceeded) {
		b.Errorf("follow: %v", err)
	}
	if !b.subject.Alive(b.T, b.night) {
		b.Error("the agent ended with the follower's context")
	}
}

func (b *bench) fnFails() {
	b.submit(job(Works, 1))
	if err := b.follow(sweep.EventEnd); !errors.Is(err, errSeen) {
		b.Errorf("follow: %v, want fn's error", err)
	}
}

// takenOver: a second host value for the same night, as another process makes it, follows and cancels.
func (b *bench) takenOver() {
	b.submit(job(Waits, 1), job(Works, 2))
	b.started("the job")
	other := b.subject.New(b.T, b.night)
	seen := 0
	err := other.Follow(b.ctx, 0, func(e sweep.Event, _ int64) error {
		seen++
		return errSeen
	})
	if !errors.Is(err, errSeen) || seen != 1 {
		b.Errorf("another follower: %d events, %v", seen, err)
	}
	if err := other.Cancel(b.ctx, false); err != nil {
		b.Fatal(err)
	}
	b.wantDead()
}

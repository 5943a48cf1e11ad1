package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sweep/sweep"
	"sweep/sweep/host/sshtest"
)

// onFaultyLink has an agent wait on a host, breaks the link until that was noticed, and mends it. Nothing may be lost
// or told twice, and the agent goes on meanwhile.
func onFaultyLink(t *testing.T, s *sshtest.Server, h *SSH, breakIt, mend func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	job := sweep.Job{Schema: sweep.Schema, ID: "waits/repeat=1", Attempt: 1, Config: sweep.Config{Key: "waits"}}
	noticed, again := make(chan struct{}), make(chan struct{})
	var once, twice sync.Once
	h.Say = func(text string) {
		t.Log(text)
		if strings.Contains(text, "not connected") {
			once.Do(func() { close(noticed) })
		}
		if strings.Contains(text, "connected again") {
			twice.Do(func() { close(again) })
		}
	}
	if err := h.Submit(ctx, []sweep.Job{job}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var kinds []sweep.EventKind
	var followErr error
	launched := make(chan struct{})
	wg.Go(func() {
		followErr = h.Follow(ctx, 0, func(e sweep.Event, _ int64) error {
			kinds = append(kinds, e.Kind)
			if e.Kind == sweep.EventLaunch {
				close(launched)
			}
			if e.Kind == sweep.EventEnd {
				return h.Fetch(ctx, e.Dir)
			}
			return nil
		})
	})
	await := func(c <-chan struct{}, what string) {
		t.Helper()
		select {
		case <-c:
		case <-ctx.Done():
			t.Fatal("in vain: " + what)
		}
	}
	await(launched, "the job begins")
	id, err := readIdentity(Dir(nightThere(t, s, h.Night), "gpu1"))
	if err != nil {
		t.Fatal(err)
	}
	breakIt()
	await(noticed, "the broken link is noticed")
	if !id.Alive() {
		t.Error("the agent ended with the link")
	}
	if err := id.Signal(syscall.SIGTERM); err != nil { // it ends its job while nobody can hear of it
		t.Error(err)
	}
	mend()
	await(again, "the link is up again")
	wg.Wait()
	if !errors.Is(followErr, sweep.ErrAgentLost) { // it left its queue undone
		t.Errorf("follow: %v", followErr)
	}
	if want := []sweep.EventKind{sweep.EventLaunch, sweep.EventEnd}; !slices.Equal(kinds, want) {
		t.Errorf("events %v, want %v", kinds, want)
	}
	if _, err := os.Stat(filepath.Join(h.Night, filepath.FromSlash(job.Dir(1)), "launch.json")); err != nil {
		t.Error(err)
	}
}

func TestBrokenLinks(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"native", "openssh"} {
		t.Run(transport+", server killed and started again", func(t *testing.T) {
			t.Parallel()
			s := startServer(t, sshtest.Options{User: sshtest.OtherUser})
			h := over(t, s, t.TempDir())
			h.Transport = transport
			onFaultyLink(t, s, h, s.Down, s.Up)
		})
		t.Run(transport+", server stopped", func(t *testing.T) {
			t.Parallel()
			s := startServer(t, sshtest.Options{})
			h := over(t, s, t.TempDir())
			h.Transport = transport
			h.timing.keepalive = 500 * time.Millisecond
			if err := h.Open(t.Context()); err != nil { // the first link may take its time, on a machine that is busy
				t.Fatal(err)
			}
			h.timing.handshake, h.timing.idle, h.timing.preamble = 3*time.Second, 8*time.Second, 3*time.Second
			stopped := []int{}
			onFaultyLink(t, s, h, func() {
				stopped = append(s.Sessions(), s.PID())
				signalAll(t, stopped, syscall.SIGSTOP)
			}, func() { signalAll(t, stopped, syscall.SIGCONT) })
		})
	}
	t.Run("link down for 30 s", func(t *testing.T) {
		t.Parallel()
		n := newNet(t)
		s := startServer(t, sshtest.Options{Netns: n.name, Address: n.there})
		h := over(t, s, t.TempDir())
		h.timing.keepalive, h.timing.dial, h.timing.idle = 2*time.Second, 3*time.Second, 20*time.Second
		var down time.Time
		onFaultyLink(t, s, h, func() { down = time.Now(); n.ip("link", "set", n.link, "down") }, func() {
			time.Sleep(time.Until(down.Add(30 * time.Second))) // the outage's length is what is tested
			n.ip("link", "set", n.link, "up")
		})
	})
}

func signalAll(t *testing.T, pids []int, sig syscall.Signal) {
	t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil {
			t.Errorf("signal %v to %d: %v", sig, pid, err)
		}
	}
}

// netns is a network namespace with one link to this one.
type netns struct {
	t           *testing.T
	name, link  string
	here, there string
}

func newNet(t *testing.T) *netns {
	t.Helper()
	id := os.Getpid() % 60000
	n := &netns{t: t, name: fmt.Sprintf("sweep%d", id), link: fmt.Sprintf("sw%da", id), here: fmt.Sprintf("10.%d.%d.1", 200+id%50, id/250), there: fmt.Sprintf("10.%d.%d.2", 200+id%50, id/250)}
	n.ip("netns", "add", n.name)
	t.Cleanup(func() { n.ip("netns", "del", n.name) })
	peer := fmt.Sprintf("sw%db", id)
	n.ip("link", "add", n.link, "type", "veth", "peer", "name", peer, "netns", n.name)
	n.ip("addr", "add", n.here+"/30", "dev", n.link)
	n.ip("link", "set", n.link, "up")
	n.ip("-n", n.name, "addr", "add", n.there+"/30", "dev", peer)
	n.ip("-n", n.name, "link", "set", peer, "up")
	n.ip("-n", n.name, "link", "set", "lo", "up")
	return n
}

func (n *netns) ip(args ...string) {
	n.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		n.t.Errorf("ip %v: %v: %s", args, err, out)
	}
}

// TestLeaseEnds: an agent's context ends with its lease, and not before; everything is killed when that is asked for, or
// when the clean stop takes too long.
func TestLeaseEnds(t *testing.T) {
	t.Parallel()
	for _, asked := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			now := make(chan struct{})
			ctx, kill, stop := Leased(t.Context(), dir, now)
			defer stop()
			if err := writeLease(dir, time.Hour); err != nil {
				t.Fatal(err)
			}
			time.Sleep(59 * time.Minute)
			if ctx.Err() != nil {
				t.Fatal("it ended before its lease")
			}
			if err := writeLease(dir, time.Minute); err != nil { // it was heard of once more
				t.Fatal(err)
			}
			began := time.Now()
			<-ctx.Done()
			if took := time.Since(began); !errors.Is(context.Cause(ctx), ErrLeaseOver) || took < time.Minute || took > time.Minute+2*leaseEvery {
				t.Errorf("cause %v, after %v", context.Cause(ctx), took)
			}
			select {
			case <-kill:
				t.Error("it was to stop cleanly first")
			default:
			}
			if asked {
				close(now)
			}
			began = time.Now()
			<-kill
			if took := time.Since(began); !asked && (took < leaseGrace || took > leaseGrace+2*leaseEvery) || asked && took > 0 {
				t.Errorf("killed after %v", took)
			}
		})
	}
}

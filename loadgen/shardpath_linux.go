//go:build linux && (amd64 || arm64)

package loadgen

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"github.com/sourcegraph/conc"
)

// shardPath is the fast way: plain HTTP/1.1 over TCP, by threads of their own.
type shardPath struct {
	run     *run
	address string
	to      *socketAddress
	target  netip.AddrPort
	locals  []*socketAddress // to spread connections over; empty: the kernel chooses
	kernel  bool             // stamps are the kernel's
	why     string           // why not
	keep    *stamping
	left    room // when the run ended

	shards  []*shard
	threads conc.WaitGroup
	start   chan struct{}
}

// streamsPerShard is from how many streams a further shard pays.
const streamsPerShard = 1024

func newShardPath(r *run, address string) path {
	return &shardPath{run: r, address: address, start: make(chan struct{})}
}

// prepare checks what the machine allows, asks it for kernel stamps, starts the threads and opens all connections.
func (p *shardPath) prepare(ctx context.Context) (err error) {
	if p.target, err = addressOf(ctx, p.address); err != nil {
		return err
	}
	p.to = newSocketAddress(p.target)
	streams := 0
	for i := range p.run.spec.Classes {
		streams += p.run.spec.Classes[i].connections()
	}
	if err := checkRoom(streams, p.target); err != nil {
		return err
	}
	p.spread(streams)
	if p.run.spec.Stamps != StampsUser {
		p.keep, p.why = probeStamps(ctx)
	}
	if p.kernel = p.keep != nil; !p.kernel && p.run.spec.Stamps == StampsKernel {
		return fmt.Errorf("no stamps of the kernel: %s", p.why)
	}
	n := p.lanes()
	for range n {
		s, err := newShard(p)
		if err != nil {
			p.abandon()
			return err
		}
		p.shards = append(p.shards, s)
	}
	p.share()
	raiseProcs(n)
	var ready sync.WaitGroup
	ready.Add(n)
	for _, s := range p.shards {
		p.threads.Go(func() { s.live(ctx, ready.Done, p.start) })
	}
	ready.Wait()
	if ctx.Err() != nil {
		p.finish()
		return errors.New("stopped before the first request") // the caller knows why
	}
	return nil
}

// lanes is the number of shards.
func (p *shardPath) lanes() int {
	if n := p.run.spec.Shards; n > 0 {
		return n
	}
	streams := 0
	for i := range p.run.spec.Classes {
		streams += p.run.spec.Classes[i].connections()
	}
	return max(1, min((streams+streamsPerShard-1)/streamsPerShard, runtime.NumCPU()/2))
}

// share deals the slots of each class out to the shards.
func (p *shardPath) share() {
	i, n := 0, len(p.shards)
	for _, f := range p.run.feeds {
		for range p.run.spec.Classes[f.class].slots {
			newShardConn(p.shards[i%n], f)
			i++
		}
	}
	for _, sch := range p.run.schedules {
		class := &p.run.spec.Classes[sch.class]
		for j, s := range p.shards {
			most := class.Arrivals.MaxOpen
			if most > 0 {
				most = max(1, (most+n-1-j)/n)
			}
			lane := newLane(s, sch, j, most)
			for range (class.connections() + n - 1) / n {
				c := newShardConn(s, nil)
				c.lane = lane
				lane.idle = append(lane.idle, c)
			}
		}
	}
}

// spread chooses local addresses when one has too few ports.
func (p *shardPath) spread(streams int) {
	left := portsLeft(p.target)
	if left < 0 || streams <= left/2 || localAddresses(p.target) == 1 {
		return
	}
	for i := range localAddresses(p.target) {
		p.locals = append(p.locals, newSocketAddress(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(1 + i)}), 0)))
	}
}

func (p *shardPath) localOf(index int) *socketAddress {
	if len(p.locals) == 0 {
		return nil
	}
	return p.locals[index%len(p.locals)]
}

// raiseProcs gives the scheduler processors for threads that keep theirs while they wait.
func raiseProcs(n int) { runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + n) }

func (p *shardPath) drive(ctx context.Context) {
	close(p.start)
	<-ctx.Done()
	p.left = roomLeft(p.target)
	p.finish()
}

func (p *shardPath) finish() {
	p.threads.Wait()
	raiseProcs(-len(p.shards))
	p.keep.close()
}

// abandon frees what was made before the threads ran.
func (p *shardPath) abandon() {
	for _, s := range p.shards {
		s.close()
	}
	p.keep.close()
}

func (p *shardPath) failing() bool {
	for _, s := range p.shards {
		for _, c := range s.conns {
			if c.lane == nil && c.fails.Load() < 3 {
				return false
			}
		}
	}
	return true
}

func (p *shardPath) resent() int {
	n := 0
	for _, s := range p.shards {
		n += int(s.seen.resent.Load())
	}
	return n
}

func (p *shardPath) kind() (client, stamps string) {
	if p.kernel {
		return ClientEpoll, StampsKernel
	}
	return ClientEpoll, StampsUser
}

func (p *shardPath) room() room { return p.left }

func (p *shardPath) load(to *shot) {
	to.kernel = p.kernel
	for _, s := range p.shards {
		n := &s.seen
		to.reads += n.reads.Load()
		to.events += n.events.Load()
		to.coalesced += n.coalesced.Load()
		to.lateCoalesced += n.lateCoalesced.Load()
		to.unstamped += n.unstamped.Load()
		to.starved += n.starved.Load()
		to.losses += n.losses.Load()
		to.steps += s.clock.steps.Load()
		to.worstStep = max(to.worstStep, s.clock.worst.Load())
		n.gap.shot(&to.gap)
		n.turn.shot(&to.turn)
		n.lag.shot(&to.lag)
		shot := shardShot{idle: time.Duration(n.idle.Load())}
		shot.cpu, shot.delay = threadTimes(n.thread.Load())
		to.shards = append(to.shards, shot)
	}
}

package simulate

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// rig is a scheduler without processes or sockets, in virtual time.
type rig struct {
	*scheduler
	died []failure
}

func newRig(t *testing.T, p *Profile, fraction float64, hicacheGB int, l limits) *rig {
	t.Helper()
	m := newMemory(p, p.TPSize, 1, 0)
	m.loadWeights()
	if err := m.sizeKV(fraction, 1, 0); err != nil {
		t.Fatal(err)
	}
	if m.allocateKV() != 0 || !m.eagerBuffers() {
		t.Fatalf("fraction %v does not start", fraction)
	}
	m.maxDecodeBS = defaultDecodeBS(p.GPUTotalMiB, p.TPSize)
	if m.gate() {
		m.take(m.prefillGraphBytes())
	}
	if !m.take(m.decodeGraphBytes()) {
		t.Fatalf("fraction %v: no room for graphs", fraction)
	}
	m.ready()
	c := newCache(m.tokens, false)
	if hicacheGB > 0 {
		tokens, _ := m.hostPoolTokens(hicacheGB, 0, 1)
		c.host = &hostTier{total: tokens}
	}
	if l.maxRunning == 0 {
		l.maxRunning = 2048
	}
	if l.chunk == 0 {
		l.chunk = chunkSize(p.GPUTotalMiB)
	}
	l.maxPrefill = 16384
	l.logInterval = 40
	l.clip = clipNewTokens
	if l.conservativity == 0 {
		l.conservativity = 1
	}
	r := &rig{scheduler: newScheduler(p, m, c, l, 1)}
	r.on.died = func(f failure) { r.died = append(r.died, f) }
	return r
}

// shape is one class of a closed pool.
type shape struct {
	pool              int
	inMin, inMax      int
	outMin, outMax    int
	asked             int // max_new_tokens; 0: exactly the output
	groups, prefixLen int
}

// drive holds the pools for warm-up and window and returns what was seen in the window.
func (r *rig) drive(ctx context.Context, seed uint64, warmup, window time.Duration, shapes ...shape) (running, queued, usage, perSecond float64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	draw := func(s shape) *request {
		n := s.inMin + rng.IntN(s.inMax-s.inMin+1)
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = int32(rng.IntN(ordinaryTokens))
		}
		if s.groups > 0 {
			shared := rand.New(rand.NewPCG(7, uint64(rng.IntN(s.groups))))
			for i := range s.prefixLen {
				ids[i] = int32(shared.IntN(ordinaryTokens))
			}
		}
		out := s.outMin + rng.IntN(s.outMax-s.outMin+1)
		q := newRequest("", ids, max(out, s.asked))
		q.stopAt = out
		return q
	}
	of := map[*request]shape{}
	ended := make(chan *request, 1024)
	r.on.ended = func(q *request) { ended <- q }
	for _, s := range shapes {
		for range s.pool {
			q := draw(s)
			of[q] = s
			r.submit(q)
		}
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case q := <-ended:
				n := draw(of[q])
				of[n] = of[q]
				delete(of, q)
				r.submit(n)
			case <-done:
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	time.Sleep(warmup)
	before := r.counts.decoded.Load()
	samples := 0.0
	for range int(window / time.Second) {
		time.Sleep(time.Second)
		l := r.load.Load()
		running += float64(l.running)
		queued += float64(l.waiting)
		usage += float64(l.used) / float64(l.total)
		samples++
	}
	perSecond = float64(r.counts.decoded.Load()-before) / (samples)
	close(done)
	return running / samples, queued / samples, usage / samples, perSecond
}

func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > share*math.Abs(want) {
		t.Errorf("%s: %.2f, want %.2f within %.0f %%", what, got, want, share*100)
	} else {
		t.Logf("%s: %.2f (arithmetic: %.2f)", what, got, want)
	}
}

// The night that the kimi profile is made from: at 0.88, 150 requests in flight of which about 1,180 tokens each are alive.
func TestKnownLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := newRig(t, kimi(), 0.88, 0, limits{})
		go r.run(ctx)
		running, queued, usage, rate := r.drive(ctx, 1, 300*time.Second, 900*time.Second,
			shape{pool: 150, inMin: 763, inMax: 1163, outMin: 200, outMax: 600, asked: 1600})
		t.Log(r.counts.retracted.Load())
		near(t, "running", running, 119, 0.02)
		near(t, "queued", queued, 30, 0.05)
		near(t, "usage", usage, 0.88, 0.02)
		near(t, "tokens/s", rate, 1295, 0.02)
		cancel()
		synctest.Wait()
	})
}

func TestNight(t *testing.T) {
	for _, c := range []struct {
		fraction float64
		hicache  int
		pool     int
		long     int
	}{{0.85, 0, 64, 0}, {0.85, 0, 150, 0}, {0.88, 0, 150, 0}, {0.88, 48, 150, 0}, {0.93, 0, 150, 0}, {0.85, 0, 150, 32}, {0.88, 0, 150, 32}, {0.88, 48, 150, 32}, {0.93, 0, 150, 32}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			r := newRig(t, kimi(), c.fraction, c.hicache, limits{})
			go r.run(ctx)
			shapes := []shape{{pool: c.pool, inMin: 800, inMax: 1600, outMin: 200, outMax: 600, groups: 800, prefixLen: 320}}
			if c.long > 0 {
				shapes = append(shapes, shape{pool: c.long, inMin: 9000, inMax: 14000, outMin: 200, outMax: 400})
			}
			running, queued, usage, rate := r.drive(ctx, 1, 120*time.Second, 240*time.Second, shapes...)
			t.Logf("%v: running %.1f queued %.1f usage %.3f rate %.0f retracted %d died %v peak %.2f of %.2f cached dev %d host %d computed %d", c, running, queued, usage, rate, r.counts.retracted.Load(), r.died, float64(r.mem.peak)/gib, float64(r.mem.headroom)/gib, r.counts.cachedDevice.Load(), r.counts.cachedHost.Load(), r.counts.prefillComputed.Load())
			cancel()
			synctest.Wait()
		})
	}
}

package loadgen

import (
	"context"
	"sync"
	"sync/atomic"
)

// feed prepares the requests of one class ahead of their use, so that nothing is made on the timing path.
type feed struct {
	maker *maker
	class int

	warm, measured queue
	free           chan []byte // buffers to use again
	openedC        <-chan struct{}
}

// queue holds the prepared requests of one stream.
type queue struct {
	name   string
	ready  chan request
	low    chan struct{} // of capacity 1: half of it is gone
	primed chan struct{} // closed when it was full for the first time
	once   sync.Once
	limit  int          // of requests; 0: none
	given  atomic.Int64 // requests taken
}

const (
	leastReady = 16       // requests of a stream that are prepared ahead, at least
	mostReady  = 4096     // and at most
	readyBytes = 32 << 20 // that they may take, of a stream
)

// depth is how many requests of a class are prepared ahead: all slots may need one at once.
func depth(c *Class, size int) int {
	return min(max(leastReady, min(2*c.slots, readyBytes/max(size, 1))), mostReady)
}

func newFeed(m *maker, class int, opened <-chan struct{}) *feed {
	c := &m.spec.Classes[class]
	n := depth(c, m.sizeOf(class))
	f := &feed{maker: m, class: class, openedC: opened, free: make(chan []byte, min(c.slots, mostReady)+2*n)}
	for name, q := range map[string]*queue{warmUp: &f.warm, measured: &f.measured} {
		q.name, q.ready = name, make(chan request, n)
		q.low, q.primed = make(chan struct{}, 1), make(chan struct{})
	}
	if w := &m.spec.Window; w.Exactly {
		f.measured.limit = w.Requests[c.Name]
	}
	return f
}

// prepare makes the requests of a stream until ctx ends or done closes.
func (f *feed) prepare(ctx context.Context, q *queue, done <-chan struct{}) {
	defer q.once.Do(func() { close(q.primed) })
	spec := f.maker.spec
	for i := spec.Part; ; {
		for len(q.ready) < cap(q.ready) && (q.limit == 0 || i < q.limit) { // nobody else fills it: this never waits
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			default:
			}
			var buf []byte
			select {
			case buf = <-f.free:
			default:
			}
			q.ready <- f.maker.make(f.class, q.name, i, buf)
			i += spec.Parts
		}
		q.once.Do(func() { close(q.primed) })
		select {
		case <-q.low:
		case <-done:
			return
		case <-ctx.Done():
			return
		}
	}
}

// taken wakes prepare when half of the queue is gone.
func (q *queue) taken() {
	q.given.Add(1)
	if len(q.ready) > cap(q.ready)/2 {
		return
	}
	select {
	case q.low <- struct{}{}:
	default:
	}
}

// over says whether all requests that were to be sent have been taken.
func (f *feed) over() bool {
	if f.measured.limit == 0 {
		return false
	}
	spec := f.maker.spec
	return int(f.measured.given.Load()) >= spec.share(f.measured.limit)
}

// take returns the next request to send, of the measured stream once the window is open; ok is false when none is
// ready yet.
func (f *feed) take() (req request, ok bool) {
	q := &f.warm
	select {
	case <-f.openedC:
		q = &f.measured
	default:
	}
	select {
	case req = <-q.ready:
		q.taken()
		return req, true
	default:
		return request{}, false
	}
}

// next is take that waits until a request is ready or ctx ends.
func (f *feed) next(ctx context.Context) (req request, ok bool) {
	select {
	case <-f.openedC:
	default:
		select {
		case req = <-f.warm.ready:
			f.warm.taken()
			return req, true
		case <-f.openedC:
		case <-ctx.Done():
			return request{}, false
		}
	}
	select {
	case req = <-f.measured.ready:
		f.measured.taken()
		return req, true
	case <-ctx.Done():
		return request{}, false
	}
}

// back takes a request's buffer to be used again.
func (f *feed) back(buf []byte) {
	select {
	case f.free <- buf:
	default:
	}
}

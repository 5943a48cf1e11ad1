package loadgen

// How requests travel.
const (
	ClientEpoll = "epoll"    // the fast path: threads of their own over epoll
	ClientConn  = "net.Conn" // a goroutine for each connection
	ClientHTTP  = "net/http" // through the standard library: HTTP/2, proxies
)

// Who stamps events.
const (
	StampsKernel = "kernel" // when the bytes came to the host
	StampsUser   = "user"   // when the client had read them
)

// Evidence is what a run observed of its own client.
type Evidence struct{}

// shot is what a path observed of itself until a moment.
type shot struct {
	reads, events, coalesced int64
	turn                     histShot
}

package sshtest

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Delay listens on a port of 127.0.0.1 and passes what comes on to another port, each byte half a round trip later.
func Delay(t testing.TB, to int, roundTrip time.Duration) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", to))
			if err != nil {
				_ = near.Close()
				continue
			}
			mu.Lock()
			open = append(open, near, far)
			mu.Unlock()
			wg.Go(func() { late(far, near, roundTrip/2) })
			wg.Go(func() { late(near, far, roundTrip/2) })
		}
	})
	return l.Addr().(*net.TCPAddr).Port
}

// piece is what was read at once, and when it is due on the other side.
type piece struct {
	data []byte
	due  time.Time
}

// late copies bytes, each so long after it came; many may be on their way.
func late(to, from net.Conn, delay time.Duration) {
	way := make(chan piece, 4096)
	var wg sync.WaitGroup
	wg.Go(func() {
		for p := range way {
			time.Sleep(time.Until(p.due)) // the delay is what this is for
			if _, err := to.Write(p.data); err != nil {
				_ = from.Close()
			}
		}
		_ = to.Close()
	})
	for {
		buf := make([]byte, 32<<10)
		n, err := from.Read(buf)
		if n > 0 {
			way <- piece{buf[:n], time.Now().Add(delay)}
		}
		if err != nil {
			if err != io.EOF {
				_ = to.Close()
			}
			close(way)
			wg.Wait()
			return
		}
	}
}

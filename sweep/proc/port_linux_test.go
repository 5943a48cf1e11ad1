package proc

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestListening(t *testing.T) {
	w := newWorld(t)
	port, err := FreeBlock(2, uint64(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	s := w.start(w.spec("listen", fmt.Sprint(port)))
	w.ready(s, 1)
	if ours, holder, err := s.Listening(port); !ours || holder != "" || err != nil {
		t.Errorf("the server's port: %v, %q, %v", ours, holder, err)
	}
	if ours, holder, err := s.Listening(port + 1); ours || holder != "" || err != nil {
		t.Errorf("nobody's port: %v, %q, %v", ours, holder, err)
	}
	if ours, holder, err := Listening(port, []int{os.Getpid()}); ours || err != nil || !strings.HasPrefix(holder, fmt.Sprintf("pid %d (", s.PID())) {
		t.Errorf("another's port: %v, %q, %v", ours, holder, err)
	}
	if err := PortFree(port); !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(err.Error(), fmt.Sprint("pid ", s.PID())) {
		t.Errorf("a held port is free: %v", err)
	}
	if _, err := s.Stop(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := PortFree(port); err != nil {
		t.Errorf("after the stop: %v", err)
	}
}

// TestPortInTimeWait checks the case in which Go's own listener would succeed and a server that does
// not set SO_REUSEADDR fails: the server's side closed a connection first. It runs alone, as a child that another test starts
// would hold the closed listener until its exec.
func TestPortInTimeWait(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = server.Close()
	_, _ = c.Read(make([]byte, 1))
	_ = c.Close()
	_ = l.Close()
	if again, err := net.Listen("tcp", l.Addr().String()); err != nil {
		t.Errorf("Go's listener: %v", err)
	} else {
		_ = again.Close()
	}
	if PortFree(port) == nil {
		t.Error("a port in TIME_WAIT is free")
	}
}

func TestParseListeners(t *testing.T) {
	t.Parallel()
	const tcp = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:7530 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 51 1 0000000000000000 100 0 0 10 0
   1: 00000000:7530 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 52 1 0000000000000000 100 0 0 10 0
   2: 0100007F:7530 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 53 1 0000000000000000 20 4 0 10 -1
   3: 0200000A:7530 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 54 1 0000000000000000 100 0 0 10 0
`
	const tcp6 = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000000000000:7530 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 61 1 0000000000000000 100 0 0 10 0
   1: 0000000000000000FFFF00000100007F:7530 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 62 1 0000000000000000 100 0 0 10 0
`
	inodes := func(all []listener) string {
		var out []string
		for _, l := range all {
			out = append(out, l.inode)
		}
		return strings.Join(out, " ")
	}
	v4, v6 := parseListeners([]byte(tcp), 30000), parseListeners([]byte(tcp6), 30000)
	for _, tt := range []struct {
		in   []listener
		want string
	}{
		{append(v4, v6...), "51 62"}, // the exact address goes first
		{v4[1:2], "52"},
		{v6[:1], "61"},
		{v4[2:], ""}, // another address of the machine does not serve 127.0.0.1
		{parseListeners([]byte(tcp), 30001), ""},
		{parseListeners([]byte("garbage\n0: x 0A"), 1), ""},
	} {
		if got := inodes(mostSpecific(tt.in)); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestFreeBlock(t *testing.T) {
	t.Parallel()
	everything := func(int) bool { return true }
	seen := map[int]bool{}
	last := -blockApart
	for seed := range uint64(40) {
		port, err := freeBlock(20, seed, 32768, 60999, everything)
		if err != nil || port < lowestPort || port+20 > 32768 || seen[port] {
			t.Fatalf("seed %d: %d, %v", seed, port, err)
		}
		if d := port - last; d > -blockApart && d < blockApart {
			t.Errorf("seed %d: %d is only %d away", seed, port, d)
		}
		seen[port], last = true, port
	}
	first, _ := freeBlock(20, 5, 32768, 60999, everything)
	next, err := freeBlock(20, 5, 32768, 60999, func(p int) bool { return p != first+19 })
	if err != nil || next == first {
		t.Errorf("a block with a taken port: %d, %v", next, err)
	}
	for _, tt := range []struct{ n, low, high, from, to int }{
		{10, 11000, 40000, 40001, 65535}, // no room below
		{10, 1024, 65535, 10000, 65535},  // the kernel takes all
	} {
		if port, err := freeBlock(tt.n, 3, tt.low, tt.high, everything); err != nil || port < tt.from || port+tt.n-1 > tt.to {
			t.Errorf("%+v: %d, %v", tt, port, err)
		}
	}
	if _, err := freeBlock(10, 0, 32768, 60999, func(int) bool { return false }); err == nil {
		t.Error("found a block where every port is taken")
	}
	if _, err := freeBlock(0, 0, 32768, 60999, everything); err == nil {
		t.Error("found a block of no ports")
	}
	port, err := FreeBlock(3, 99)
	if err != nil || PortFree(port) != nil || PortFree(port+2) != nil {
		t.Errorf("%d, %v", port, err)
	}
}

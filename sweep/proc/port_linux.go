package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// listener is a listening TCP socket as /proc/net/tcp shows it.
type listener struct {
	inode string
	any   bool // on every address
	ours  bool // its address takes connections to 127.0.0.1
	uid   string
}

// Listening is [Server.Listening] for any set of processes.
func Listening(port int, pids []int) (ours bool, holder string, err error) {
	var all []listener
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // no IPv6 in this kernel
		}
		if err != nil {
			return false, "", fmt.Errorf("look for who listens on port %d: %w", port, err)
		}
		all = append(all, parseListeners(b, port)...)
	}
	all = mostSpecific(all)
	if len(all) == 0 {
		return false, "", nil
	}
	mine := sockets(pids)
	for _, l := range all {
		if _, ok := mine[l.inode]; !ok {
			return false, whoHolds(l), nil
		}
	}
	return true, "", nil
}

// mostSpecific is the part of the listeners that a connection to 127.0.0.1 reaches: the exact
// address goes before the wildcard.
func mostSpecific(all []listener) []listener {
	var exact, wild []listener
	for _, l := range all {
		switch {
		case l.any:
			wild = append(wild, l)
		case l.ours:
			exact = append(exact, l)
		}
	}
	if len(exact) > 0 {
		return exact
	}
	return wild
}

// parseListeners reads /proc/net/tcp or tcp6: the listening sockets on a port that take connections
// to this machine itself.
func parseListeners(b []byte, port int) []listener {
	const listening = "0A"
	var out []listener
	for line := range bytes.Lines(b) {
		f := strings.Fields(string(line))
		if len(f) < 10 || f[3] != listening {
			continue
		}
		address, hex, ok := strings.Cut(f[1], ":")
		n, err := strconv.ParseUint(hex, 16, 16)
		if !ok || err != nil || int(n) != port {
			continue
		}
		l := listener{inode: f[9], uid: f[7], any: strings.Trim(address, "0") == ""}
		switch address {
		case "0100007F", "7F000001", "0000000000000000FFFF00000100007F", "00000000000000000000FFFF7F000001":
			l.ours = true
		}
		out = append(out, l)
	}
	return out
}

// sockets are the sockets that the processes hold, by inode, with the pid of one holder.
func sockets(pids []int) map[string]int {
	out := map[string]int{}
	for _, pid := range pids {
		dir := procPath(pid, "fd")
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // gone, or another user's
		}
		for _, e := range entries {
			target, err := os.Readlink(dir + "/" + e.Name())
			if err != nil {
				continue
			}
			if inode, ok := strings.CutPrefix(target, "socket:["); ok {
				out[strings.TrimSuffix(inode, "]")] = pid
			}
		}
	}
	return out
}

func whoHolds(l listener) string {
	all, err := allStats()
	if err == nil {
		for _, s := range all {
			if _, ok := sockets([]int{s.pid})[l.inode]; ok {
				return fmt.Sprintf("pid %d (%s)", s.pid, s.comm)
			}
		}
	}
	return "a process of user id " + l.uid + " that cannot be seen from here"
}

// PortFree is nil when a server could listen on the port now, even one that does not set SO_REUSEADDR.
func PortFree(port int) error {
	for _, address := range [][4]byte{{127, 0, 0, 1}, {}} {
		if err := bindOnce(address, port); err != nil {
			if _, holder, e := Listening(port, nil); e == nil && holder != "" {
				return fmt.Errorf("port %d is held by %s: %w", port, holder, err)
			}
			return fmt.Errorf("port %d is not free: %w", port, err)
		}
	}
	return nil
}

// bindOnce listens for a moment. Go's own listener sets SO_REUSEADDR and so succeeds where a server
// that does not would fail.
func bindOnce(address [4]byte, port int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: address}); err != nil {
		return err
	}
	return unix.Listen(fd, 1)
}

// Bounds of the ports that FreeBlock gives.
const (
	lowestPort  = 10000
	highestPort = 65535
	blockApart  = 2000 // SGLang derives more ports from its own, some of them more than a thousand away
)

// FreeBlock finds n free ports in a row outside the range from which the kernel takes ports for
// outgoing connections: below it, or above it where there is no room below. Another seed gives
// another place, at least 2,000 ports away where there is room.
func FreeBlock(n int, seed uint64) (port int, err error) {
	low, high := ephemeral()
	return freeBlock(n, seed, low, high, func(port int) bool { return PortFree(port) == nil })
}

func freeBlock(n int, seed uint64, low, high int, free func(int) bool) (int, error) {
	from, to := lowestPort, low-1
	if to-from < max(n, blockApart) {
		from, to = high+1, highestPort
	}
	if to-from < max(n, blockApart) { // the kernel takes nearly every port; what is free now is the best there is
		from, to = lowestPort, highestPort
	}
	if n < 1 || n > to-from+1 {
		return 0, fmt.Errorf("find %d free ports in a row between %d and %d: there are not so many", n, from, to)
	}
	slots := uint64((to - from + 1) / n)
	stride := min(uint64((blockApart+n-1)/n), slots)
	for gcd(stride, slots) != 1 { // so that each slot has its turn
		stride++
	}
	for i := range slots {
		first := from + int((seed%slots+i)*stride%slots)*n
		if all(first, n, free) {
			return first, nil
		}
	}
	return 0, fmt.Errorf("find %d free ports in a row between %d and %d: there are none", n, from, to)
}

func all(first, n int, free func(int) bool) bool {
	for port := first; port < first+n; port++ {
		if !free(port) {
			return false
		}
	}
	return true
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// ephemeral is the range from which the kernel takes ports for outgoing connections.
func ephemeral() (low, high int) {
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	f := strings.Fields(string(b))
	if err == nil && len(f) == 2 {
		low, err = strconv.Atoi(f[0])
		if err == nil {
			if high, err = strconv.Atoi(f[1]); err == nil {
				return low, high
			}
		}
	}
	return 32768, 60999 // Linux' own default
}

//go:build linux && (amd64 || arm64)

package loadgen

import (
	"bufio"
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// spareFiles is how many descriptors are left to the rest of the process.
const spareFiles = 64

// checkRoom makes room for a number of connections, or says what is missing.
func checkRoom(connections int, to netip.AddrPort) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("open files: %w", err)
	}
	need := uint64(connections + openFiles() + spareFiles)
	if limit.Cur < need && limit.Max >= need {
		limit.Cur = min(limit.Max, need)
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			return fmt.Errorf("raise the limit of open files to %d: %w", need, err)
		}
	}
	if limit.Cur < need {
		return fmt.Errorf("%d connections need %d open files, and this process may have %d: raise its limit (ulimit -n %d)", connections, need, limit.Max, need)
	}
	if left := portsLeft(to); left >= 0 && connections > left*localAddresses(to) {
		return fmt.Errorf("%d connections to %s need as many local ports, and %d are free: widen net.ipv4.ip_local_port_range, or wait a minute for closed connections to be forgotten", connections, to, left)
	}
	return nil
}

// localAddresses is how many addresses of this host can be used towards the server: on loopback as many as wanted.
func localAddresses(to netip.AddrPort) int {
	if to.Addr().Is4() && to.Addr().IsLoopback() {
		return maxLocal
	}
	return 1
}

const maxLocal = 64

// openFiles counts the descriptors of this process.
func openFiles() int {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(names)
}

func roomLeft(to netip.AddrPort) room {
	r := room{files: unknown, ports: portsLeft(to)}
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		r.files = int(min(limit.Cur, 1<<30)) - openFiles()
	}
	return r
}

// portsLeft is how many local ports are free for connections to an address; −1: not known.
func portsLeft(to netip.AddrPort) int {
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return unknown
	}
	f := strings.Fields(string(b))
	if len(f) != 2 {
		return unknown
	}
	low, err1 := strconv.Atoi(f[0])
	high, err2 := strconv.Atoi(f[1])
	if err1 != nil || err2 != nil || high < low {
		return unknown
	}
	table := "/proc/self/net/tcp"
	if to.Addr().Is6() {
		table = "/proc/self/net/tcp6"
	}
	return high - low + 1 - connectionsTo(table, to)
}

// connectionsTo counts the connections to an address in a table of the kernel, those waiting to be forgotten included.
func connectionsTo(table string, to netip.AddrPort) int {
	file, err := os.Open(table)
	if err != nil {
		return 0
	}
	defer file.Close()
	want := []byte(tableAddress(to))
	n := 0
	for in := bufio.NewScanner(file); in.Scan(); {
		if f := bytes.Fields(in.Bytes()); len(f) > 2 && bytes.Equal(f[2], want) {
			n++
		}
	}
	return n
}

// tableAddress writes an address as the kernel's tables do: words of four bytes in the host's order, in hex.
func tableAddress(a netip.AddrPort) string {
	b := a.Addr().AsSlice()
	for i := 0; i+4 <= len(b); i += 4 {
		slices.Reverse(b[i : i+4]) // both supported architectures are little-endian
	}
	return fmt.Sprintf("%X:%04X", b, a.Port())
}

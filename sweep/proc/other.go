//go:build !linux

package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// errLinux is what every call gives elsewhere: servers on GPUs run on Linux, and what holds a tree of
// processes together there has no like.
var errLinux = fmt.Errorf("a server can be run on Linux only: %w", errors.ErrUnsupported)

func bootID() (string, error) { return "", errLinux }

func readStat(int) (stat, error) { return stat{}, errLinux }

func allStats() ([]stat, error) { return nil, errLinux }

func signalExactly(Identity, syscall.Signal) error { return errLinux }

func bytesRead(int) (int64, error) { return 0, errLinux }

// Supervise is the main of a supervisor; the result is its exit code.
func Supervise(_ context.Context, _ io.Reader, stdout io.Writer) int {
	fmt.Fprintf(stdout, "{\"failed\":%q}\n", errLinux)
	return 1
}

// Exec is the main of `supervise --exec -- ARGV…`.
func Exec([]string) int {
	fmt.Fprintln(os.Stderr, errLinux)
	return 1
}

// Listening is [Server.Listening] for any set of processes.
func Listening(int, []int) (ours bool, holder string, err error) { return false, "", errLinux }

// PortFree is nil when a server could listen on the port now, even one that does not set SO_REUSEADDR.
func PortFree(int) error { return errLinux }

// FreeBlock finds n free ports in a row.
func FreeBlock(int, uint64) (port int, err error) { return 0, errLinux }

// kernelLog reads nothing here.
type kernelLog struct{}

func openKernelLog() *kernelLog { return nil }

func (*kernelLog) read() []byte { return nil }

func (*kernelLog) close() {}

func (Group) kill() {}

func (Group) pids() []int { return nil }

func (Group) processes() []Process { return nil }

func (Group) kills() (int, bool) { return 0, false }

func (Group) remove(time.Duration) error { return nil }

// Shared is an entry of shared memory.
type Shared struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// SharedMemory lists the names of the machine's shared memory now: none are known here.
func SharedMemory() []string { return nil }

// RemoveShared removes what dead processes of ours left in the machine's shared memory.
func RemoveShared([]string, time.Time) ([]Shared, error) { return nil, errLinux }

func containerGroup(int, string) Group { return Group{} }

func endOwned(*Container) error { return nil }

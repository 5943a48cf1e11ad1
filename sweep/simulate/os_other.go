//go:build !linux

package simulate

import (
	"context"
	"syscall"
	"time"
)

const supported = false

type childEvent int

const (
	childExited childEvent = iota
	childStopped
	childContinued
)

func childAttr(bond) *syscall.SysProcAttr { return nil }

func become([]string, []string) error { return syscall.EINVAL }

func setComm(string) {}

func killSelf() { select {} }

func waitChild(int) (event childEvent, code int) { return childExited, -1 }

func processAlive(int, uint64) bool { return false }

func startTicks(int) uint64 { return 0 }

func raise(int) { select {} }

func sleepPrecisely(ctx context.Context, t time.Time) { sleepUntil(ctx, t) }

func favour() {}

func keepTime() {}

//go:build linux

package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep/sweep"
	"sweep/sweep/gpu"
)

func TestClaims(t *testing.T) {
	dir := t.TempDir()
	one := &claims{dir: dir, held: map[string]*os.File{}}
	two := &claims{dir: dir, held: map[string]*os.File{}}
	devices := []gpu.Device{{Index: 0, UUID: "GPU-a"}, {Index: 1, UUID: "GPU-b"}, {Index: 2, UUID: "../GPU/c"}, {Index: 3}}
	if err := one.take(devices[1:], "/nights/first"); err != nil {
		t.Fatal(err)
	}
	if err := one.take(devices[1:], "/nights/first"); err != nil {
		t.Errorf("its own devices again: %v", err)
	}
	if err := two.take(devices[:1], "/nights/second"); err != nil {
		t.Errorf("another device: %v", err)
	}
	host, _ := os.Hostname()
	err := two.take(devices[:2], "/nights/second")
	_, environment := errors.AsType[*EnvironmentError](err)
	want := fmt.Sprintf("GPU 1 (GPU-b) is in use by another night: process %d on %s since 20", os.Getpid(), host)
	if err == nil || !environment || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "/nights/first") {
		t.Errorf("error %v, want %q", err, want)
	}
	if text := two.busy(devices); !strings.Contains(text, "GPU 0 (GPU-a)") { // its own, seen from a process that only looks
		t.Errorf("busy: %q", text)
	}
	one.drop()
	if err := two.take(devices, "/nights/second"); err != nil {
		t.Errorf("after they were given back: %v", err)
	}
	two.drop()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if text := two.busy(devices); text != "" {
		t.Errorf("busy: %q", text)
	}
}

// TestClaimFollowsNoLink: a link that somebody has put into the shared folder is refused, and what it points to stays as it is.
func TestClaimFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "mine")
	if err := os.WriteFile(mine, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &claims{dir: dir, held: map[string]*os.File{}}
	d := gpu.Device{UUID: "GPU-a"}
	if err := os.Symlink(mine, c.path(d)); err != nil {
		t.Fatal(err)
	}
	if err := c.take([]gpu.Device{d}, "/night"); err == nil {
		t.Error("a link was taken for a claim")
	}
	if data, err := os.ReadFile(mine); err != nil || string(data) != "mine" {
		t.Errorf("%q, %v", data, err)
	}
}

// TestSecondNightOnTheSameDevices: an agent whose devices another night has starts no server and says who has them.
func TestSecondNightOnTheSameDevices(t *testing.T) {
	first, second := newNight(t), newNight(t)
	locks := t.TempDir()
	bin := t.TempDir()
	smi := filepath.Join(bin, "nvidia-smi")
	script := "#!/bin/sh\nexec " + first.opt.Self + " simulate nvidia-smi --profile llama-8b-24gb \"$@\"\n"
	if err := os.WriteFile(smi, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	a := &agent{claims: claims{dir: locks, held: map[string]*os.File{}}}
	devices, err := newMachine(first.opt.Self, "").gpus.Devices(t.Context())
	if err != nil || len(devices) == 0 {
		t.Fatalf("%d devices, %v", len(devices), err)
	}
	began := time.Now()
	if err := a.claims.take(devices, first.opt.Out); err != nil {
		t.Fatal(err)
	}
	defer a.claims.drop()
	second.opt.Locks = locks
	job := second.job("ready", "w@2")
	second.submit(job)
	err = second.run(t.Context())
	host, _ := os.Hostname()
	if want := fmt.Sprintf("is in use by another night: process %d on %s since %s", os.Getpid(), host, began.Format("2006-01-02 ")); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), first.opt.Out) {
		t.Errorf("error %v, want %q and the first night", err, want)
	}
	events := readEvents(t, second.opt.Dir)
	if len(events) != 1 || events[0].Kind != sweep.EventError || len(second.launches(job)) > 0 {
		t.Errorf("events %+v", events)
	}
}

//go:build linux

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"sweep/sweep/proc/proctest"
	"sweep/sweep/simulate"
)

// scene is one kind of night.
type scene struct {
	name string
	// grid is its grid; PROGRAM stands for sweep's path, BED for the bed's folder.
	grid string
	// prepare makes what the night needs of a machine; self is this program. It may be nil.
	prepare func(b *bed, self string) error

	calm night // the undisturbed one
}

// scenes are the kinds of nights, each new.
func scenes() []*scene {
	return []*scene{{name: "tiny", grid: tinyGrid}, {name: "boxed", grid: boxedGrid, prepare: boxed}}
}

// tinyGrid is a night of a few seconds: one config that lives, and one that dies in its first large prefill.
const tinyGrid = `name: tiny
engine: sglang
model: llama-3-8b
command: [sweep, simulate, sglang, --profile, llama-8b-24gb, --speedup, "80"]
hosts: [{simulate: llama-8b-24gb}]
sweep:
  mem-fraction-static: [0.80, 0.96]
workloads:
  docs: {classes: {long: {input: 5k..7k, output: 20..40}}}
load: [{workload: docs, concurrency: [2, 4]}]
measure: {warmup: 0s, window: 1s}
drift: off
`

// boxedGrid is a night whose servers run in containers, on a GPU that the machine has to itself: it is claimed, and its memory
// and processes are read as those of a real one.
const boxedGrid = `name: boxed
engine: sglang
model: llama-3-8b
command: [PROGRAM, simulate, sglang, --profile, llama-8b-24gb, --speedup, "80"]
container: {runtime: BED/bin/docker, image: "server@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}
hosts: [{gpus: [0]}]
sweep:
  mem-fraction-static: [0.80]
workloads:
  docs: {classes: {long: {input: 5k..7k, output: 20..40}}}
load: [{workload: docs, concurrency: [2, 4]}]
measure: {warmup: 0s, window: 1s}
drift: off
`

// boxed gives a bed a container runtime, and a GPU with a UUID of its own: nights side by side must not take it from each other.
func boxed(b *bed, self string) error {
	daemon, err := proctest.NewDaemon(b.dir)
	if err != nil {
		return err
	}
	b.daemon = daemon
	bin := filepath.Join(b.dir, "bin")
	uuid := fmt.Sprintf("GPU-%08x-%04x-4000-8000-%012x", rand.Uint32(), rand.Uint32()&0xffff, rand.Uint64()&0xffffffffffff)
	smi := fmt.Sprintf("#!/bin/sh\n'%s' simulate nvidia-smi --profile llama-8b-24gb \"$@\" | sed 's/GPU-[0-9a-f]\\{8\\}-[0-9a-f-]*/%s/g'\n", b.program, uuid)
	b.env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), simulate.StateVariable + "=" + filepath.Join(b.dir, "state")}
	for _, dir := range []string{"/run/lock", "/dev/shm", "/tmp"} {
		b.claims = append(b.claims, filepath.Join(dir, "sweep-"+uuid+".lock"))
	}
	return errors.Join(daemon.WriteRuntime(filepath.Join(bin, "docker"), self), os.WriteFile(filepath.Join(bin, "nvidia-smi"), []byte(smi), 0o755))
}

//go:build !unix

package agent

import "os/exec"

// ownGroup has a command lead a group of processes, where the system has such.
func ownGroup(*exec.Cmd) {}

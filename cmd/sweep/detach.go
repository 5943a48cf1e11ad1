package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sweep/sweep"
)

// detachVariable tells a detached controller the file that its output goes to. It moves that into its night, and
// writes the night's folder into the file of the same name with the ending .night.
const detachVariable = "SWEEP_DETACHED"

// controllerLog is a detached controller's output, in its night.
const controllerLog = "controller.log"

// detachPoll is how often a starting controller is looked at.
const detachPoll = 50 * time.Millisecond

// detach starts this very command line as a process that outlives the terminal, and returns when its night runs.
func (env *environ) detach(output string) error {
	if err := os.MkdirAll(output, 0o755); err != nil {
		return exitWith(exitEnvironment, fmt.Errorf("results directory: %w", err))
	}
	log, err := os.CreateTemp(output, ".controller-*.log")
	if err != nil {
		return exitWith(exitEnvironment, fmt.Errorf("no night was started: %w", err))
	}
	defer log.Close()
	self, err := os.Executable()
	if err != nil {
		return exitWith(exitEnvironment, err)
	}
	path, err := filepath.Abs(log.Name())
	if err != nil {
		return exitWith(exitEnvironment, err)
	}
	args := slices.DeleteFunc(slices.Clone(env.Args[1:]), func(a string) bool { return a == "--detach" || strings.HasPrefix(a, "--detach=") })
	cmd := exec.Command(sweep.Executable(self), args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), detachVariable+"="+path)
	cmd.SysProcAttr = ownSession()
	if err := cmd.Start(); err != nil {
		return exitWith(exitEnvironment, fmt.Errorf("no night was started: %w", err))
	}
	ended := make(chan struct{})
	go func() { // it is waited for below, unless the night runs: then it outlives us
		_ = cmd.Wait()
		close(ended)
	}()
	tick := time.NewTicker(detachPoll)
	defer tick.Stop()
	for {
		night, err := os.ReadFile(path + ".night")
		if err == nil && strings.HasSuffix(string(night), "\n") {
			dir := strings.TrimSpace(string(night))
			env.say("night %s goes on in process %d\nsee: %s\nwatch: %s\nstop: %s", dir, cmd.Process.Pid,
				sweep.ShellLine([]string{"sweep", "status", dir}), sweep.ShellLine([]string{"sweep", "attach", dir}), sweep.ShellLine([]string{"sweep", "cancel", dir}))
			return os.Remove(path + ".night")
		}
		select {
		case <-ended:
			return env.notDetached(cmd, path)
		case <-tick.C:
		}
	}
}

// notDetached says why a controller ended before its night ran.
func (env *environ) notDetached(cmd *exec.Cmd, path string) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) { // the night was over before we looked
		return nil
	}
	if err != nil {
		return exitWith(exitEnvironment, err)
	}
	if _, err := io.WriteString(env.Stderr, printableLines(string(data))+"\n"); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return exitWith(exitEnvironment, err)
	}
	return exitWith(max(cmd.ProcessState.ExitCode(), exitOther), nil)
}

// announce says, in a detached controller, that its night runs.
func (env *environ) announce(dir string) error {
	path := env.Getenv(detachVariable)
	if path == "" {
		return nil
	}
	if err := os.Rename(path, filepath.Join(dir, controllerLog)); err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	return sweep.WriteFile(path+".night", []byte(dir+"\n"), 0o600)
}

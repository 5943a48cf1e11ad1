package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sweep/sweep"
	"sweep/sweep/proc"
)

// containerFile is where a runtime writes the id of a launch's container, in the attempt's folder.
const containerFile = "container.id"

// containerLabel is the label that each of our containers bears; its value is unlike any other launch's.
const containerLabel = "sweep.launch"

// prefix gives the argv prefix that starts the server, as the host or the container knows it.
func (l *launch) prefix() ([]string, error) {
	j := l.job
	if j.Container == nil {
		return resolveCommand(j.Command, l.agent.opt.Self, j.Workdir)
	}
	if len(j.Command) == 0 {
		return nil, &EnvironmentError{What: "the grid has no command and its engine has none either"}
	}
	path, err := containerRuntime(*j.Container)
	if err != nil {
		return nil, err
	}
	l.box = &proc.Container{Runtime: path, IDFile: filepath.Join(l.dir, containerFile)}
	return j.Command, nil
}

// containerRuntime is the path of a grid's container runtime.
func containerRuntime(c sweep.Container) (string, error) {
	path, err := exec.LookPath(c.Runtime)
	if err != nil {
		return "", &EnvironmentError{What: fmt.Sprintf("container runtime %s: not found on this machine; install it, or name its full path", c.Runtime), Err: err}
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", &EnvironmentError{What: "container runtime " + c.Runtime, Err: err}
	}
	return path, nil
}

// intoContainer makes the server's command line one that runs it in a container, if it is to.
func (l *launch) intoContainer(ctx context.Context) {
	c := l.job.Container
	if c == nil {
		return
	}
	l.box.Label = containerLabel + "=" + l.served
	start := sweep.ContainerStart{IDFile: l.box.IDFile, Label: l.box.Label, Workdir: l.job.Workdir}
	start.Memory, _ = l.memoryLimit(ctx)
	for _, d := range l.before.Devices {
		start.GPUs = append(start.GPUs, d.UUID)
	}
	for _, kv := range l.env.Added {
		name, _, _ := strings.Cut(kv, "=")
		start.Env = append(start.Env, name)
	}
	real := *c
	real.Runtime = l.box.Runtime
	l.argv = real.Argv(start, l.argv)
}

// hostDir is the folder of the host in which the launched program starts; inside a container it is another.
func (l *launch) hostDir() string {
	if l.job.Container != nil {
		return ""
	}
	return l.job.Workdir
}

// lookAtContainer looks for the runtime of a grid's containers, and proves that it can be worked with.
func (s *survey) lookAtContainer(ctx context.Context) {
	c := *s.jobs[0].Container
	path, err := containerRuntime(c)
	if err != nil {
		s.add(CheckCommand, sweep.LevelMissing, "%v", err)
		return
	}
	s.add(CheckCommand, sweep.LevelOK, "%s runs %s", path, c.Image)
	s.add(CheckFlags, sweep.LevelWarning, "not held against the server's own help, which is in a container")
	if !s.Prove {
		return
	}
	c.Runtime = path
	if text, err := s.sleepInContainer(ctx, c); err != nil {
		s.add(CheckContainer, sweep.LevelMissing, "a container that only sleeps: %v", err)
	} else {
		s.add(CheckContainer, sweep.LevelOK, "%s", text)
	}
}

// proofTime bounds the proof, the pull of an image left out: a runtime pulls before it starts.
const proofTime = 30 * time.Minute

// sleepInContainer starts a container that only sleeps, finds its processes, ends it, and looks whether anything is left.
func (s *survey) sleepInContainer(ctx context.Context, c sweep.Container) (string, error) {
	dir, err := os.MkdirTemp("", "sweep-doctor-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, proofTime)
	defer cancel()
	box := &proc.Container{Runtime: c.Runtime, IDFile: filepath.Join(dir, containerFile), Label: containerLabel + "=" + filepath.Base(dir)}
	log, owner := filepath.Join(dir, "server.log"), filepath.Join(dir, "owner.json")
	server, err := proc.Start(ctx, sweep.Startable([]string{s.Self, "supervise"}), proc.Spec{
		Argv: c.Argv(sweep.ContainerStart{IDFile: box.IDFile, Label: box.Label}, []string{"sleep", "3600"}),
		Env:  s.Environ, Log: log, Owner: owner, Container: box,
	})
	if err != nil {
		return "", err
	}
	found := server.Contained(ctx)
	tree, treeErr := server.Tree()
	began := time.Now()
	report, err := server.Stop(context.WithoutCancel(ctx), 0)
	said, _ := os.ReadFile(log)
	switch {
	case found.ID == "":
		return "", fmt.Errorf("it did not start%s", lastLine(string(said)))
	case err != nil || treeErr != nil:
		return "", errors.Join(err, treeErr)
	case server.Left() != "":
		return "", errors.New(server.Left())
	case len(report.Stuck) > 0:
		return "", fmt.Errorf("%d of its processes outlived the kill", len(report.Stuck))
	case found.Group == (proc.Group{}):
		return "", fmt.Errorf("it was started and ended by its id, but which processes are in it cannot be seen: its control group does not bear its id")
	}
	return fmt.Sprintf("a container that only sleeps was started, seen with %d processes in %s, and ended by its id in %.1f s",
		len(tree), cmp.Or(found.Group.Process, found.Group.Memory), time.Since(began).Seconds()), nil
}

package proc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"sweep/failpoint"
)

// Container says that the server is a client of a container runtime, whose daemon may own the processes: they are then
// found, counted and ended by the container's id, never by a name.
type Container struct {
	Runtime string `json:"runtime"`      // path of docker, or of a program that takes the same commands
	IDFile  string `json:"id_file"`      // into which the runtime writes the container's id (its --cidfile)
	Label   string `json:"label"`        // KEY=VALUE that the container bears: nothing without it is ever ended
	ID      string `json:"id,omitempty"` // once it is known
	Group   Group  `json:"group,omitzero"`
}

// containerTime bounds one command of a runtime: a daemon that hangs must not hold up a stop.
const containerTime = 15 * time.Second

// ErrForeign is wrapped by errors of containers that do not bear our label.
var ErrForeign = errors.New("the container is not one of ours")

var containerID = regexp.MustCompile(`^[0-9a-f]{12,64}$`)

// readID is the container's id as its runtime wrote it; "" while there is none.
func (c Container) readID() (string, error) {
	b, err := os.ReadFile(c.IDFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	id := strings.TrimSpace(string(b))
	if err != nil || id == "" {
		return "", err
	}
	if !containerID.MatchString(id) {
		return "", fmt.Errorf("%s holds no container's id", c.IDFile)
	}
	return id, nil
}

// command runs one command of the runtime. A supervisor waits for any child, so it may have been told how this one ended: what
// the command printed then has to say it, and whoever needs to know looks again.
func (c Container) command(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, containerTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Runtime, args...)
	cmd.WaitDelay = time.Second
	var errText limitedText
	cmd.Stderr = &errText
	out, err := cmd.Output()
	if errors.Is(err, syscall.ECHILD) {
		if err = nil; len(out) == 0 && len(errText) > 0 {
			err = errors.New("it failed")
		}
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", c.Runtime, args[0], err, strings.TrimSpace(string(errText)))
	}
	return strings.TrimSpace(string(out)), nil
}

// limitedText keeps the first bytes written to it.
type limitedText []byte

// Write implements [io.Writer].
func (t *limitedText) Write(p []byte) (int, error) {
	*t = append(*t, p[:min(len(p), max(0, 500-len(*t)))]...)
	return len(p), nil
}

// inspected is what a runtime says of a container.
type inspected struct {
	pid       int  // of its first process, 0 when it does not run
	oomKilled bool // the kernel's OOM killer ended a process in it
}

// inspect asks for a container by its id, and refuses one without our label.
func (c Container) inspect(ctx context.Context) (inspected, error) {
	var i inspected
	key, value, _ := strings.Cut(c.Label, "=")
	text, err := c.command(ctx, "inspect", "--type", "container", "--format", `{{.State.Pid}} {{.State.OOMKilled}} {{index .Config.Labels "`+key+`"}}`, c.ID)
	if err != nil {
		return i, err
	}
	label := ""
	if _, err := fmt.Sscan(text, &i.pid, &i.oomKilled, &label); err != nil {
		return i, fmt.Errorf("%s inspect: its answer %.100q is not understood", c.Runtime, text)
	}
	if label != value || value == "" {
		return i, fmt.Errorf("container %s: %w", c.ID, ErrForeign)
	}
	return i, nil
}

// find waits until the container runs, and says where its processes are. It ends with ctx, or when the runtime refuses.
func (c Container) find(ctx context.Context) (Container, error) {
	for {
		id, err := c.readID()
		if err != nil {
			return c, err
		}
		if id != "" {
			c.ID = id
			if i, err := c.inspect(ctx); errors.Is(err, ErrForeign) {
				return c, err
			} else if err == nil && i.pid > 1 {
				c.Group = containerGroup(i.pid, id)
				return c, nil
			}
		}
		select {
		case <-ctx.Done():
			return c, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// end kills the container by its id and removes it; oomKilled is the runtime's word that the kernel ended a process in it.
func (c Container) end(ctx context.Context) (oomKilled bool, err error) {
	ids, err := c.ids(ctx)
	if err != nil {
		return false, err
	}
	for _, id := range ids {
		c.ID = id
		oom, failed := c.endOne(ctx)
		oomKilled, err = oomKilled || oom, errors.Join(err, failed)
	}
	return oomKilled, err
}

// ids are the container's id, as it is known or as its runtime wrote it. A client that was killed between making the container
// and writing the id has left one that only its label tells, which no other launch has. None: it was never made.
func (c Container) ids(ctx context.Context) ([]string, error) {
	if c.ID != "" {
		return []string{c.ID}, nil
	}
	id, err := c.readID()
	if err != nil {
		return nil, err
	}
	if id != "" {
		return []string{id}, nil
	}
	if key, value, _ := strings.Cut(c.Label, "="); key == "" || value == "" {
		return nil, nil
	}
	text, err := c.command(ctx, "ps", "--all", "--quiet", "--no-trunc", "--filter", "label="+c.Label)
	if err != nil {
		return nil, err
	}
	ids := strings.Fields(text)
	for _, id := range ids {
		if !containerID.MatchString(id) {
			return nil, fmt.Errorf("%s ps: its answer %.100q is not understood", c.Runtime, text)
		}
	}
	return ids, nil
}

// endOne may find at any moment that somebody else ended or removed the container: its own supervisor does so too.
func (c Container) endOne(ctx context.Context) (oomKilled bool, err error) {
	i, err := c.inspect(ctx)
	if err == nil && i.pid > 0 {
		_, failed := c.command(ctx, "kill", c.ID) // the next look tells whether it worked, or was not needed any more
		var now inspected
		now, err = c.inspect(ctx)
		i.oomKilled = i.oomKilled || now.oomKilled
		if err == nil && now.pid > 0 {
			return i.oomKilled, errors.Join(failed, fmt.Errorf("container %s still runs after it was killed", c.ID))
		}
	}
	if noSuch(err) {
		return i.oomKilled, nil
	}
	if err != nil {
		return i.oomKilled, err
	}
	failpoint.Hit("container.killed")
	_, failed := c.command(ctx, "rm", "--force", c.ID) // refused while another's removal is under way
	if !waitFor(removeLimit, func() bool {
		_, err := c.inspect(ctx)
		return noSuch(err)
	}) {
		return i.oomKilled, errors.Join(failed, fmt.Errorf("container %s is still there after it was removed", c.ID))
	}
	return i.oomKilled, nil
}

var noSuchContainer = regexp.MustCompile(`(?i)no such (container|object)`)

// noSuch reports a runtime's answer that there is no such container.
func noSuch(err error) bool { return err != nil && noSuchContainer.MatchString(err.Error()) }

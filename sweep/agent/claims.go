package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sweep/failpoint"
	"sweep/sweep"
	"sweep/sweep/gpu"
)

// claims are the devices that this agent has taken for its night: one locked file each, in a folder that every user
// of the machine shares. The kernel ends a lock with the process that has it.
type claims struct {
	dir  string // "" where nothing can be shared: no device is claimed
	held map[string]*os.File
}

// claim is who has a device, as its file says.
type claim struct {
	sweep.Owner
	Night string `json:"night"` // the folder
}

// lockFolder is the first of the usual folders in which every user can make files and only take away his own. That is
// the machine's property, not the user's, so that all choose the same.
func lockFolder() string {
	for _, dir := range []string{"/run/lock", "/dev/shm", "/tmp"} {
		if info, err := os.Stat(dir); err == nil && info.IsDir() && info.Mode()&os.ModeSticky != 0 && info.Mode().Perm()&0o002 != 0 {
			return dir
		}
	}
	return ""
}

// take claims devices. An [EnvironmentError] names who has one of them.
func (c *claims) take(devices []gpu.Device, night string) error {
	if c.dir == "" {
		return nil
	}
	for _, d := range devices {
		if d.UUID == "" || c.held[d.UUID] != nil {
			continue
		}
		path := c.path(d)
		f, err := claimFile(path)
		if err != nil {
			return &EnvironmentError{What: deviceName(d) + " cannot be taken for this night", Err: err}
		}
		if f == nil {
			return &EnvironmentError{What: c.taken(d)}
		}
		c.held[d.UUID] = f
		failpoint.Hit("claim.locked")
		host, _ := os.Hostname()
		data, err := json.Marshal(claim{Owner: sweep.Owner{PID: os.Getpid(), Host: host, Start: time.Now().Truncate(time.Second)}, Night: night})
		if err == nil {
			err = f.Truncate(0)
		}
		if err == nil {
			_, err = f.WriteAt(append(data, '\n'), 0)
		}
		if err != nil {
			return &EnvironmentError{What: deviceName(d) + " cannot be taken for this night", Err: err}
		}
		failpoint.Hit("claim.taken")
	}
	return nil
}

func (c *claims) path(d gpu.Device) string {
	name := strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, d.UUID)
	return filepath.Join(c.dir, "sweep-"+name+".lock")
}

// taken says for a person who has a device.
func (c *claims) taken(d gpu.Device) string {
	who := "another night"
	var o claim
	if f, err := os.Open(c.path(d)); err == nil {
		data, err := io.ReadAll(io.LimitReader(f, 64<<10))
		_ = f.Close() // only read from
		if err == nil && json.Unmarshal(data, &o) == nil && o.PID > 0 {
			who = fmt.Sprintf("another night: process %d on %s since %s, %s", o.PID, sweep.Printable(o.Host), o.Start.Format(time.DateTime), sweep.Printable(o.Night))
		}
	}
	name := deviceName(d)
	if d.Parent == "" {
		name += " (" + d.UUID + ")"
	}
	return fmt.Sprintf("%s is in use by %s; wait for that, stop it, or give this night other GPUs under hosts:", name, who)
}

// busy says which of the devices another night has; empty: none.
func (c *claims) busy(devices []gpu.Device) string {
	for _, d := range devices {
		if c.dir == "" || d.UUID == "" {
			continue
		}
		f, err := claimFile(c.path(d))
		if err == nil && f == nil {
			return c.taken(d)
		}
		if f != nil {
			dropClaim(f)
		}
	}
	return ""
}

// drop gives every device back.
func (c *claims) drop() {
	for uuid, f := range c.held {
		dropClaim(f)
		delete(c.held, uuid)
	}
}

// claimTries bounds how often a file may vanish between its opening and its locking.
const claimTries = 100

// claimFile opens and locks a claim's file; nil: another process has it. The name must still be this file's once it is
// locked, since whoever gives a device back takes the file away.
func claimFile(path string) (*os.File, error) {
	for range claimTries {
		f, err := openClaim(path)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrExist) {
			continue // it came or went in between
		}
		if err != nil {
			return nil, err
		}
		ok, err := tryClaim(f)
		if !ok || err != nil {
			return nil, errors.Join(err, f.Close())
		}
		mine, mineErr := f.Stat()
		named, namedErr := os.Lstat(path)
		if mineErr == nil && namedErr == nil && os.SameFile(mine, named) {
			return f, nil
		}
		_ = f.Close() // another file has the name now
	}
	return nil, fmt.Errorf("%s comes and goes", path)
}

// openClaim opens a claim's file, or makes it so that every user can write it. A link is not followed.
func openClaim(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|noFollow, 0)
	if !errors.Is(err, os.ErrNotExist) {
		return f, err
	}
	if f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|noFollow, 0o666); err != nil {
		return nil, err
	}
	if err := f.Chmod(0o666); err != nil { // whatever the umask
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// dropClaim takes the file away while it is still locked, then unlocks it.
func dropClaim(f *os.File) {
	_ = os.Remove(f.Name()) // another user's file in a sticky folder stays, which harms nobody
	failpoint.Hit("claim.dropped")
	_ = f.Close()
}

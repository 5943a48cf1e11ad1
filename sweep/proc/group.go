package proc

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The ways in which a tree of processes is held together, best first.
const (
	HeldCgroup    = "cgroup"        // a control group of version 2: one write kills all that is in it
	HeldHybrid    = "cgroup-hybrid" // the same, with the memory limit in a group of version 1
	HeldCgroup1   = "cgroup-v1"     // a memory group of version 1 lists the processes; each is killed by itself
	HeldScope     = "systemd-scope" // a control group that the user's systemd made
	HeldSubreaper = "subreaper"     // orphans fall to the supervisor, which kills until it has no child
)

// Group is the control group that holds a server's tree and nothing else, or the two of them where a machine has both
// versions. The zero value is none.
type Group struct {
	Process string `json:"process,omitempty"`    // folder of version 2, which kills at once; "" without one
	Memory  string `json:"memory,omitempty"`     // folder whose memory limit and counters hold for the tree; the same one with version 2 alone
	Scope   string `json:"scope,omitempty"`      // name of the systemd scope that it belongs to
	Max     int64  `json:"memory_max,omitempty"` // the limit in bytes; 0: none
}

// held names the containment that a group gives.
func (g Group) held() string {
	switch {
	case g.Scope != "":
		return HeldScope
	case g.Process != "" && g.Memory != "" && g.Process != g.Memory:
		return HeldHybrid
	case g.Process != "":
		return HeldCgroup
	case g.Memory != "":
		return HeldCgroup1
	}
	return HeldSubreaper
}

// folders are the group's folders, each once.
func (g Group) folders() []string {
	var out []string
	if g.Process != "" {
		out = append(out, g.Process)
	}
	if g.Memory != "" && g.Memory != g.Process {
		out = append(out, g.Memory)
	}
	return out
}

// groupPrefix begins the name of each control group that we make.
const groupPrefix = "sweep-"

// groupName is unlike that of any other supervisor of this boot, so that a group proves by its name whose it is.
func groupName(supervisor Identity) string {
	return fmt.Sprintf("%s%d-%d", groupPrefix, supervisor.PID, supervisor.StartTicks)
}

// ownedBy reports whether a folder bears the name of a supervisor's group, as one of systemd's scopes or not.
func ownedBy(folder string, supervisor Identity) bool {
	name := groupName(supervisor)
	base := filepath.Base(folder)
	return supervisor.PID > 1 && filepath.IsAbs(folder) && (base == name || base == name+".scope")
}

// parseGroupName is the supervisor that a group's name tells, with no boot.
func parseGroupName(name string) (Identity, bool) {
	rest, ok := strings.CutPrefix(name, groupPrefix)
	a, b, cut := strings.Cut(rest, "-")
	pid, errA := strconv.Atoi(a)
	start, errB := strconv.ParseUint(b, 10, 64)
	return Identity{PID: pid, StartTicks: start}, ok && cut && errA == nil && errB == nil && pid > 1
}

// hierarchy is one mounted tree of control groups, and where in it this process is.
type hierarchy struct {
	mount string // folder
	own   string // folder of our own group
}

// parseHierarchies finds version 2, and the memory controller's hierarchy of version 1, in what /proc/PID/mountinfo and
// /proc/PID/cgroup say. A hierarchy that is not mounted is empty.
func parseHierarchies(mountinfo, cgroup []byte) (two, memory hierarchy) {
	for line := range bytes.Lines(mountinfo) {
		before, after, ok := strings.Cut(string(line), " - ")
		f, rest := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 5 || len(rest) < 3 {
			continue
		}
		root, mount := unescapeMount(f[3]), unescapeMount(f[4])
		switch {
		case rest[0] == "cgroup2" && two.mount == "":
			two = hierarchy{mount, ownGroup(cgroup, "", root, mount)}
		case rest[0] == "cgroup" && strings.Contains(","+rest[2]+",", ",memory,") && memory.mount == "":
			memory = hierarchy{mount, ownGroup(cgroup, "memory", root, mount)}
		}
	}
	return two, memory
}

// ownGroup is the folder of our group of one controller ("" for version 2). Inside a container only a part of the
// hierarchy is mounted, and the mount's root says which.
func ownGroup(cgroup []byte, controller, root, mount string) string {
	for line := range bytes.Lines(cgroup) {
		f := strings.SplitN(strings.TrimSpace(string(line)), ":", 3)
		if len(f) != 3 || !strings.Contains(","+f[1]+",", ","+controller+",") || controller == "" && f[1] != "" {
			continue
		}
		group := filepath.Clean("/" + f[2])
		if rel, err := filepath.Rel(root, group); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			return filepath.Join(mount, rel)
		}
	}
	return mount
}

// unescapeMount undoes the octal escapes of /proc/PID/mountinfo.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// oomFiles are the files that count the kernel's kills in a group, of version 2 and of version 1.
var oomFiles = []string{"memory.events", "memory.oom_control"}

// removeLimit is for a group to become empty after its last process was waited for.
const removeLimit = 2 * time.Second

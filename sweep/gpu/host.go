package gpu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// Memory is the host's memory in bytes. Swap is not counted.
type Memory struct {
	Total     int64  `json:"total"`           // of the machine, or the limit that this process runs under where that is less
	Available int64  `json:"available"`       // that can be had without swapping
	Limit     string `json:"limit,omitempty"` // the control group whose limit decides; "" is the machine itself
}

// HostReader reads the host's memory. The zero value reads /proc/meminfo and the limits of the
// control groups that this process is in.
type HostReader struct {
	Meminfo []string      // a command that prints what /proc/meminfo would hold; no other limit is looked at then
	Timeout time.Duration // for that command; 0 is 15 s

	run  runner
	root string // of the file system, for tests
}

// HostMemory is the memory that the host has and what can be had of it now.
func (h *HostReader) HostMemory(ctx context.Context) (Memory, error) {
	if len(h.Meminfo) > 0 {
		limit := h.Timeout
		if limit <= 0 {
			limit = defaultTimeout
		}
		text, err := h.run.output(ctx, limit, h.Meminfo)
		if err != nil {
			return Memory{}, fmt.Errorf("read the host's memory: %w", err)
		}
		return parseMeminfo([]byte(text))
	}
	b, err := os.ReadFile(h.root + "/proc/meminfo")
	if err != nil {
		return Memory{}, fmt.Errorf("read the host's memory: %w", err)
	}
	m, err := parseMeminfo(b)
	if err != nil {
		return Memory{}, err
	}
	for _, g := range h.groups() {
		if g.limit < m.Total {
			m.Total, m.Limit = g.limit, g.name
		}
		if free := max(0, g.limit-g.used); free < m.Available {
			m.Available, m.Limit = free, g.name
		}
	}
	return m, nil
}

// parseMeminfo reads /proc/meminfo.
func parseMeminfo(b []byte) (Memory, error) {
	values := map[string]int64{}
	for line := range bytes.Lines(b) {
		key, rest, _ := strings.Cut(string(line), ":")
		f := strings.Fields(rest)
		if len(f) == 0 {
			continue
		}
		if n, err := strconv.ParseInt(f[0], 10, 64); err == nil && n >= 0 && n < 1<<50 {
			values[key] = n * 1024
		}
	}
	total, ok := values["MemTotal"]
	available, also := values["MemAvailable"]
	if !ok || !also {
		return Memory{}, errors.New("read the host's memory: no MemTotal and MemAvailable in it")
	}
	return Memory{Total: total, Available: available}, nil
}

// group is a control group with a limit on memory, in bytes. What is used does not count the page
// cache that the kernel drops first: a model's weights, once read, would otherwise seem to fill it.
type group struct {
	name        string
	limit, used int64
}

// version says which files a version of control groups has.
type version struct {
	mounts                    []string // where it may be mounted
	limit, used, stat, inside string
}

var versions = map[string]version{
	"":       {[]string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}, "memory.max", "memory.current", "memory.stat", "inactive_file"},
	"memory": {[]string{"/sys/fs/cgroup/memory"}, "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat", "total_inactive_file"},
}

// groups are the control groups with a limit that this process is in, at every level.
func (h *HostReader) groups() []group {
	b, err := os.ReadFile(h.root + "/proc/self/cgroup")
	if err != nil {
		return nil
	}
	var out []group
	for line := range bytes.Lines(b) { // "4:memory:/a/b" in version 1, "0::/a/b" in version 2
		f := strings.SplitN(strings.TrimSpace(string(line)), ":", 3)
		if len(f) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(f[1], ",") {
			v, ok := versions[controller]
			if !ok {
				continue
			}
			for _, mount := range v.mounts {
				for dir := path.Clean("/" + f[2]); ; dir = path.Dir(dir) {
					if g, ok := h.group(v, mount, dir); ok {
						out = append(out, g)
					}
					if dir == "/" {
						break
					}
				}
			}
		}
	}
	return out
}

// group reads one control group; it is false where there is none or no limit. Inside a container the
// group's own path may not be mounted while its root is.
func (h *HostReader) group(v version, mount, dir string) (group, bool) {
	base := path.Join(h.root, mount, dir)
	limit, ok := readNumber(path.Join(base, v.limit))
	used, also := readNumber(path.Join(base, v.used))
	if !ok || !also {
		return group{}, false
	}
	if b, err := os.ReadFile(path.Join(base, v.stat)); err == nil {
		for line := range bytes.Lines(b) {
			f := strings.Fields(string(line))
			if len(f) == 2 && f[0] == v.inside {
				if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
					used -= min(used, max(0, n))
				}
			}
		}
	}
	return group{name: path.Join(mount, dir), limit: limit, used: used}, true
}

// readNumber reads a file that holds one number; "max" is none.
func readNumber(name string) (int64, bool) {
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil && n >= 0
}

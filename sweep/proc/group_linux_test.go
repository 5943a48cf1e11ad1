package proc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Where a process is in both versions of control groups, as machines say it.
func TestHierarchies(t *testing.T) {
	t.Parallel()
	const (
		two     = "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"
		hybrid  = "31 29 0:28 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n34 29 0:31 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
		docker1 = "700 690 0:31 /docker/abc /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory\n"
		joined  = "34 29 0:31 / /sys/fs/cgroup/cpu,memory rw - cgroup none rw,cpu,memory\n"
	)
	for name, c := range map[string]struct {
		mounts, groups string
		two, memory    hierarchy
	}{
		"version 2":         {two, "0::/user.slice/user-0.slice/session-3.scope\n", hierarchy{"/sys/fs/cgroup", "/sys/fs/cgroup/user.slice/user-0.slice/session-3.scope"}, hierarchy{}},
		"its own namespace": {two, "0::/\n", hierarchy{"/sys/fs/cgroup", "/sys/fs/cgroup"}, hierarchy{}},
		"hybrid": {hybrid, "9:name=systemd:/\n4:memory:/a/b\n0::/c\n",
			hierarchy{"/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/c"}, hierarchy{"/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/a/b"}},
		"a container's part": {docker1, "4:memory:/docker/abc/x\n", hierarchy{}, hierarchy{"/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/x"}},
		"outside its part":   {docker1, "4:memory:/docker/other\n", hierarchy{}, hierarchy{"/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory"}},
		"several on one":     {joined, "4:cpu,memory:/m\n", hierarchy{}, hierarchy{"/sys/fs/cgroup/cpu,memory", "/sys/fs/cgroup/cpu,memory/m"}},
		"nothing":            {"22 1 0:20 / /proc rw - proc proc rw\n", "", hierarchy{}, hierarchy{}},
	} {
		if a, b := parseHierarchies([]byte(c.mounts), []byte(c.groups)); a != c.two || b != c.memory {
			t.Errorf("%s: %+v and %+v, want %+v and %+v", name, a, b, c.two, c.memory)
		}
	}
}

// files makes files below a folder.
func files(t *testing.T, root string, texts map[string]string) {
	t.Helper()
	for name, text := range texts {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A group is made as near as it can have a memory limit, and never outside of a limit that holds for us.
func TestGroupPlaces(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		made  string // folder, "" for one in our own group without a limit
	}{
		"our own gives it": {map[string]string{"a/b/cgroup.controllers": "cpu memory\n", "a/b/cgroup.subtree_control": "cpu memory\n", "a/b/memory.max": "max\n"}, "a/b/sweep-9-8"},
		"the one above": {map[string]string{"a/b/cgroup.controllers": "memory\n", "a/b/memory.max": "max\n",
			"a/cgroup.controllers": "cpuset memory pids\n", "a/cgroup.subtree_control": "memory pids\n", "a/memory.max": "max\n"}, "a/sweep-9-8"},
		"above our limit": {map[string]string{"a/b/cgroup.controllers": "memory\n", "a/b/memory.max": "1073741824\n",
			"a/cgroup.controllers": "memory\n", "a/cgroup.subtree_control": "memory\n"}, ""},
		"another controller": {map[string]string{"a/b/cgroup.controllers": "hugetlb\n", "a/b/cgroup.subtree_control": "memory_like\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			files(t, root, c.files)
			g := grouper{two: hierarchy{root, filepath.Join(root, "a/b")}, name: "sweep-9-8", max: 1 << 30}
			made := g.build()
			want := Group{Process: filepath.Join(root, "a/b/sweep-9-8")}
			if c.made != "" {
				want = Group{Process: filepath.Join(root, c.made), Memory: filepath.Join(root, c.made)}
			}
			if made != want || made.held() != HeldCgroup {
				t.Errorf("made %+v, want %+v", made, want)
			}
			if !slices.Contains(g.candidates(), made.Process) {
				t.Errorf("%s is not among the candidates %v", made.Process, g.candidates())
			}
			if err := made.remove(0); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(made.Process); err == nil {
				t.Error("it is still there after remove")
			}
		})
	}
}

// The limits and counters of both versions.
func TestGroupFiles(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	files(t, root, map[string]string{
		"two/memory.max": "max", "two/memory.swap.max": "max", "two/memory.events": "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n",
		"one/memory.limit_in_bytes": "9223372036854771712", "one/memory.memsw.limit_in_bytes": "9", "one/memory.swappiness": "60",
		"one/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n",
		"old/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\n",
		"two/cgroup.procs":       "10\n11\n", "two/inner/cgroup.procs": "12\n", "one/cgroup.procs": "11\n13\n",
	})
	if n := limitTwo(filepath.Join(root, "two"), 5000); n != 5000 {
		t.Errorf("version 2 is limited to %d", n)
	}
	if n := limitOne(filepath.Join(root, "one"), 6000); n != 6000 {
		t.Errorf("version 1 is limited to %d", n)
	}
	if n := limitTwo(filepath.Join(root, "one"), 5000); n != 0 {
		t.Errorf("without memory.max: limited to %d", n)
	}
	for name, want := range map[string]string{"two/memory.max": "5000", "two/memory.swap.max": "0", "one/memory.limit_in_bytes": "6000", "one/memory.swappiness": "0"} {
		// The files are longer than what is written over them, which real ones are not.
		if b, err := os.ReadFile(filepath.Join(root, name)); err != nil || !strings.HasPrefix(string(b), want) {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	for _, c := range []struct {
		folder string
		kills  int
		ok     bool
	}{{"two", 2, true}, {"one", 5, true}, {"old", 0, false}, {"none", 0, false}} {
		if n, ok := (Group{Memory: filepath.Join(root, c.folder)}).kills(); n != c.kills || ok != c.ok {
			t.Errorf("%s: %d kills, %v", c.folder, n, ok)
		}
	}
	pids := Group{Process: filepath.Join(root, "two"), Memory: filepath.Join(root, "one")}.pids()
	if slices.Sort(pids); !slices.Equal(pids, []int{10, 11, 12, 13}) {
		t.Errorf("processes %v", pids)
	}
}

// Only a folder with the supervisor's own name is ever emptied.
func TestProvedGroup(t *testing.T) {
	t.Parallel()
	supervisor := Identity{BootID: "b", PID: 40, StartTicks: 7}
	for folder, ours := range map[string]bool{
		"/sys/fs/cgroup/sweep-40-7": true, "/sys/fs/cgroup/app.slice/sweep-40-7.scope": true, "/sys/fs/cgroup/sweep-40-8": false,
		"/sys/fs/cgroup": false, "/sys/fs/cgroup/sweep-40-7/x": false, "sweep-40-7": false, "": false,
	} {
		g := provedGroup(Owner{Supervisor: supervisor, Group: Group{Process: folder, Memory: folder}})
		if (g.Process != "") != ours || (g.Memory != "") != ours {
			t.Errorf("%q: %+v", folder, g)
		}
	}
	if g := provedGroup(Owner{Group: Group{Process: "/sys/fs/cgroup/sweep-0-0"}}); g.Process != "" {
		t.Errorf("a group of nobody: %+v", g)
	}
	for name, want := range map[string]bool{"sweep-12-900": true, "sweep-1-900": false, "sweep-x-1": false, "other-12-900": false, "sweep-12": false} {
		if _, ok := parseGroupName(name); ok != want {
			t.Errorf("%q: %v", name, ok)
		}
	}
}

// The user's systemd is asked as its documentation says, and its group is then used as our own.
func TestScope(t *testing.T) {
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	two, _ := parseHierarchies(mountinfo, own)
	group := filepath.Join(two.own, fmt.Sprintf("test-slice-%d", os.Getpid()))
	if two.own == "" || os.Mkdir(group, 0o755) != nil {
		t.Skip("what stands for systemd can make no control group here")
	}
	defer func() { _ = removeFolders(group) }()
	dir := t.TempDir()
	stub := "#!/bin/sh\necho \"$@\" > " + dir + "/asked\nmkdir " + group + "/$8 && echo ${14} > " + group + "/$8/cgroup.procs && echo o /org/freedesktop/systemd1/job/7\n"
	if err := os.WriteFile(filepath.Join(dir, "busctl"), []byte(stub), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("XDG_RUNTIME_DIR", dir)
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	g := grouper{two: two, name: "sweep-40-7", max: 1 << 30}
	made, err := g.scope(t.Context(), cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if made.Process != group+"/sweep-40-7.scope" || made.held() != HeldScope || !slices.Equal(made.pids(), []int{cmd.Process.Pid}) {
		t.Errorf("made %+v with %v", made, made.pids())
	}
	asked, err := os.ReadFile(dir + "/asked")
	want := "--user call org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager StartTransientUnit ssa(sv)a(sa(sv)) " +
		"sweep-40-7.scope fail 7 PIDs au 1 " + strconv.Itoa(cmd.Process.Pid) + " Description s a server that sweep started KillMode s control-group " +
		"CollectMode s inactive-or-failed Delegate b true MemoryMax t 1073741824 MemorySwapMax t 0 0\n"
	if err != nil || string(asked) != want {
		t.Errorf("asked\n%s, want\n%s", asked, want)
	}
	if err := made.hold(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	made.kill()
	if id, err := Identify(cmd.Process.Pid); err != nil || !id.Alive() {
		t.Error("a group with ourselves in it was killed")
	}
	if err := writeGroup(two.own, "cgroup.procs", strconv.Itoa(os.Getpid())); err != nil {
		t.Fatal(err)
	}
	made.kill()
	_ = cmd.Wait()
	if err := made.remove(time.Second); err != nil {
		t.Error(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	if _, err := g.scope(t.Context(), os.Getpid()); err == nil {
		t.Error("a scope without a systemd of the user")
	}
}

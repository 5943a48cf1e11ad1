package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sweep/sweep"
	"sweep/sweep/host/sshtest"
	"sweep/sweep/proc"
)

var thisSum = sync.OnceValues(func() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	return sumFile(self)
})

// server starts a server for a bed's nights, to which this program need not be copied.
func (b *bed) server(o sshtest.Options) *sshtest.Server {
	b.t.Helper()
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	sum, err := thisSum()
	if err != nil {
		b.t.Fatal(err)
	}
	o.Program, o.Sum = self, sum
	o.Env = append(o.Env, b.mark) // so that what runs there is found
	b.ssh = sshtest.Start(b.t, o)
	return b.ssh
}

// remote is a grid for this machine as one for the bed's server, where it has one.
func (b *bed) remote(grid string) string {
	if b.ssh == nil {
		return grid
	}
	return strings.Replace(grid, "hosts: [{", fmt.Sprintf("hosts: [{ssh: %s, ssh_config: %s, ", sshtest.Target, b.ssh.Config), 1)
}

// overSSH makes a bed whose night runs on a server.
func overSSH(t *testing.T, o sshtest.Options) (*bed, *sshtest.Server) {
	t.Helper()
	b := newBed(t)
	s := b.server(o)
	b.grid(b.remote(tinyGrid))
	return b, s
}

// tokens are what the cells' requests asked for, and the facts that a server said of itself.
func (b *bed) tokens() []string {
	b.t.Helper()
	records, err := sweep.ReadRecords(b.night())
	if err != nil {
		b.t.Fatal(err)
	}
	var lines []string
	for _, r := range records {
		lines = append(lines, fmt.Sprintf("%s kv_tokens %v headroom_gib %v", r.Cell, r.Values["kv_tokens"], r.Values["headroom_gib"]))
	}
	slices.Sort(lines)
	return lines
}

// TestSSHNight: a night over SSH gives what the same night gives here, brings every file here, and leaves nothing there.
func TestSSHNight(t *testing.T) {
	if testing.Short() {
		t.Skip("runs two nights")
	}
	t.Parallel()
	here := newBed(t)
	if code, said := here.run("run", "grid.yaml"); code != exitOK && code != exitOther {
		t.Fatalf("exit code %d: %s", code, said)
	}
	there, s := overSSH(t, sshtest.Options{User: sshtest.OtherUser})
	code, said := there.run("run", "grid.yaml")
	if code != exitOK && code != exitOther {
		t.Fatalf("exit code %d: %s\n%s", code, said, s.Said())
	}
	if got, want := there.cells(), here.cells(); !slices.Equal(got, want) {
		t.Errorf("cells\n%s\nwant\n%s\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), said)
	}
	if got, want := there.tokens(), here.tokens(); !slices.Equal(got, want) {
		t.Errorf("facts\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got, want := there.launchFiles(), here.launchFiles(); !slices.Equal(got, want) {
		t.Errorf("files\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	there.nothingLeft()
	if left, err := os.ReadDir(filepath.Join(s.Home, ".sweep")); err != nil || len(left) > 0 {
		t.Errorf("left on the host: %v, %v", left, err)
	}
}

// TestWorkstationGone kills the process on the workstation in the first minute, with its server as well, so that no link
// is left. The host does the whole night alone; attach, or a resume the next day, only fetches it. When the lease is over
// first, the host stops what runs, and a resume measures only what is missing.
func TestWorkstationGone(t *testing.T) {
	if testing.Short() {
		t.Skip("runs nights")
	}
	t.Parallel()
	here := newBed(t)
	if code, said := here.run("run", "grid.yaml"); code != exitOK && code != exitOther {
		t.Fatalf("exit code %d: %s", code, said)
	}
	want := here.cells()
	for _, how := range []string{"attach while it runs", "resume when it is over", leaseOver} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			b, s := overSSH(t, sshtest.Options{User: sshtest.OtherUser})
			cmd, said := b.sweep("run", "grid.yaml")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			b.await("agents/target/events.jsonl", `"kind":"load"`)
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // killed
			s.Down()
			agent := b.farAgent(s)
			if how == leaseOver {
				b.endLease(s)
			}
			if how != "attach while it runs" {
				for deadline := time.Now().Add(3 * time.Minute); agent.Alive(); time.Sleep(50 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatal("the agent does not end")
					}
				}
			}
			most := 2
			if how == leaseOver {
				most = 3
				b.leaseEnded(s)
			}
			s.Up()
			code, more := b.run(strings.Fields(how)[0], "results")
			if code != exitOK && code != exitOther {
				t.Fatalf("exit code %d: %s\n%s", code, said, more)
			}
			if got := b.cells(); !slices.Equal(got, want) {
				t.Errorf("cells\n%s\nwant\n%s\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), more)
			}
			launches, err := filepath.Glob(filepath.Join(b.night(), "launches", "*", "*", "attempt=*"))
			if err != nil || len(launches) < 2 || len(launches) > most {
				t.Errorf("%d attempts were made where %d were enough: %q, %v", len(launches), most, launches, err)
			}
			b.nothingLeft()
		})
	}
}

// leaseOver is how a night ends whose workstation is not back in time.
const leaseOver = "resume after its lease"

// endLease has the lease of the bed's night on the server be over in a moment: it was given for a day.
func (b *bed) endLease(s *sshtest.Server) {
	b.t.Helper()
	path := filepath.Join(b.farDir(s), "lease.json")
	var lease struct {
		Until time.Time `json:"until"`
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &lease)
	}
	if left := time.Until(lease.Until); err != nil || left < 23*time.Hour || left > 24*time.Hour {
		b.t.Errorf("the lease is over in %v, %v", left, err)
	}
	if err := os.WriteFile(path, fmt.Appendf(nil, `{"until":%q}`, time.Now().Add(time.Second).Format(time.RFC3339Nano)), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// leaseEnded holds that the agent stopped for the lease with work left, and that nothing of the night runs.
func (b *bed) leaseEnded(s *sshtest.Server) {
	b.t.Helper()
	dir := b.farDir(s)
	said, err := os.ReadFile(filepath.Join(dir, "agent.log"))
	if err != nil || !strings.Contains(string(said), "the workstation has not been heard of for as long as its lease allows") {
		b.t.Errorf("the agent said %q, %v", said, err)
	}
	if events, err := os.ReadFile(filepath.Join(dir, "events.jsonl")); err != nil || strings.Contains(string(events), `"kind":"done"`) {
		b.t.Errorf("the agent was done before its lease was over: %s, %v", events, err)
	}
	b.nothingLeftOf(filepath.Dir(filepath.Dir(dir)))
}

// farDir is the folder of the agent of the bed's night on the server.
func (b *bed) farDir(s *sshtest.Server) string {
	b.t.Helper()
	found, err := filepath.Glob(filepath.Join(s.Home, ".sweep", "*", "agents", "target"))
	if err != nil || len(found) != 1 {
		b.t.Fatalf("agents %q, %v", found, err)
	}
	return found[0]
}

// farAgent is the agent of the bed's night on the server.
func (b *bed) farAgent(s *sshtest.Server) proc.Identity {
	b.t.Helper()
	var id proc.Identity
	data, err := os.ReadFile(filepath.Join(b.farDir(s), "agent.json"))
	if err == nil {
		err = json.Unmarshal(data, &id)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return id
}

// TestDetachedNight starts a night that needs no terminal, asks how it stands, watches it, and cancels it.
func TestDetachedNight(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a night")
	}
	t.Parallel()
	b := newBed(t)
	code, said := b.run("run", "grid.yaml", "--detach")
	if code != exitOK || !strings.Contains(said, "goes on in process") {
		t.Fatalf("exit code %d: %s", code, said)
	}
	b.await("agents/local/events.jsonl", `"kind":"load"`)
	var status nightStatus
	if err := json.Unmarshal(b.output("status", "--format", "json"), &status); err != nil {
		t.Fatal(err)
	}
	if status.Owner == nil || status.Planned != 6 || len(status.Hosts) != 1 || status.Hosts[0].Does == "nothing yet" || status.Log == "" {
		t.Errorf("status %+v", status)
	}
	if text := string(b.output("status")); !strings.Contains(text, "in process") || !strings.Contains(text, "of 6") {
		t.Errorf("status: %s", text)
	}
	if text := string(b.output("logs", "results")); !strings.Contains(text, "launch mem-fraction-static=0.80") {
		t.Errorf("logs: %s", text)
	}
	if text := string(b.output("logs", "results", "mem-fraction-static=0.80")); !strings.Contains(text, "server_args") {
		t.Errorf("logs of a launch: %.500s", text)
	}
	if code, said := b.run("cancel"); code != exitOK || !strings.Contains(said, "sweep resume results/") {
		t.Errorf("cancel: exit code %d: %s", code, said)
	}
	b.nothingLeft()
	if data, err := os.ReadFile(filepath.Join(b.night(), controllerLog)); err != nil || !strings.Contains(string(data), "interrupted") {
		t.Errorf("the controller's log: %s, %v", data, err)
	}
	if code, said := b.run("attach"); code != exitOK && code != exitOther || len(b.cells()) != 6 {
		t.Errorf("attach: exit code %d: %s", code, said)
	}
	b.nothingLeft()
	if code, said := b.run("run", "no-such.yaml", "--detach"); code != exitUsage {
		t.Errorf("a grid that is not there: exit code %d: %s", code, said)
	}
}

// output is what sweep writes to standard output.
func (b *bed) output(args ...string) []byte {
	b.t.Helper()
	cmd, said := b.sweep(args...)
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("%v: %v: %s", args, err, said)
	}
	return out
}

// launchFiles are those of the night's launches.
func (b *bed) launchFiles() []string {
	b.t.Helper()
	var files []string
	root := filepath.Join(b.night(), "launches")
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(root, path)
			files = append(files, rel)
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return files
}

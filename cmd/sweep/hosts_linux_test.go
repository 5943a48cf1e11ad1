package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"sweep/sweep"
	"sweep/sweep/host/sshtest"
)

// overHosts gives a bed's grid several servers as its hosts, which are called gpu1, gpu2 and so on.
func (b *bed) overHosts(servers ...*sshtest.Server) {
	b.t.Helper()
	config := filepath.Join(b.dir, "ssh_config")
	var hosts, stanzas []string
	for i, s := range servers {
		text, err := os.ReadFile(s.Config)
		if err != nil {
			b.t.Fatal(err)
		}
		name := fmt.Sprintf("gpu%d", i+1)
		stanzas = append(stanzas, strings.Replace(string(text), "Host "+sshtest.Target, "Host "+name, 1))
		hosts = append(hosts, fmt.Sprintf("{ssh: %s, ssh_config: %s, simulate: llama-8b-24gb}", name, config))
	}
	if err := os.WriteFile(config, []byte(strings.Join(stanzas, "\n")), 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.grid(strings.Replace(tinyGrid, "{simulate: llama-8b-24gb}", strings.Join(hosts, ", "), 1))
}

// byHost counts the night's records by the host that made them.
func (b *bed) byHost() map[string]int {
	b.t.Helper()
	records, err := sweep.ReadRecords(b.night())
	if err != nil {
		b.t.Fatal(err)
	}
	counts := map[string]int{}
	for _, r := range records {
		counts[r.Host]++
	}
	return counts
}

// forget has the client know another key than the server's.
func forget(t *testing.T, s *sshtest.Server) {
	t.Helper()
	other := sshtest.WriteKey(t, filepath.Join(s.Dir, "other"))
	s.Write("known_hosts", fmt.Sprintf("[127.0.0.1]:%d %s", s.Port, ssh.MarshalAuthorizedKey(other)))
}

// TestTwoHosts: two servers share a night's launches, each one its part.
func TestTwoHosts(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a night")
	}
	t.Parallel()
	b := newBed(t)
	b.overHosts(b.server(sshtest.Options{}), b.server(sshtest.Options{User: sshtest.OtherUser}))
	code, said := b.run("run", "grid.yaml")
	if code != exitOK && code != exitOther {
		t.Fatalf("exit code %d: %s", code, said)
	}
	if counts := b.byHost(); len(b.cells()) != 6 || counts["gpu1"] != 3 || counts["gpu2"] != 3 {
		t.Errorf("records by host: %v: %s", counts, said)
	}
	b.nothingLeft()
}

// TestHostsThatAreAway: of three servers one does not answer and one shows another key. The night says so, once each, and
// the third one does all of it. Where none is there, no night begins, and each has its sentence.
func TestHostsThatAreAway(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a night")
	}
	t.Parallel()
	b := newBed(t)
	good, down, changed := b.server(sshtest.Options{}), b.server(sshtest.Options{}), b.server(sshtest.Options{})
	down.Down()
	forget(t, changed)
	b.overHosts(down, changed)
	code, said := b.run("run", "grid.yaml")
	if code != exitEnvironment || b.night() != "" || !strings.Contains(said, "no night was started: ") {
		t.Errorf("none is there: exit code %d: %s", code, said)
	}
	for _, want := range []string{"gpu1: ssh: connect to gpu1", "connection refused", "gpu2: ssh: the host key of gpu2 has CHANGED"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not said: %s", want, said)
		}
	}
	b.overHosts(down, good, changed)
	code, said = b.run("run", "grid.yaml")
	if code != exitOK && code != exitOther {
		t.Fatalf("exit code %d: %s", code, said)
	}
	lines := strings.Split(said, "\n")
	about := func(host string) (found []string) {
		return slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !strings.Contains(l, " "+host+": ") })
	}
	if got := about("gpu1"); len(got) != 1 || !strings.Contains(got[0], "not reached (connect to gpu1: ") || !strings.Contains(got[0], "tried again; hosts with the same devices take its 1 launch") {
		t.Errorf("of the host that does not answer: %q", got)
	}
	if got := about("gpu3"); len(got) != 1 || !strings.Contains(got[0], "no further try can help: the host key of gpu3 has CHANGED") {
		t.Errorf("of the host with another key: %q", got)
	}
	if counts := b.byHost(); len(b.cells()) != 6 || counts["gpu2"] != 6 {
		t.Errorf("records by host: %v: %s", counts, said)
	}
	b.nothingLeft()
}

// TestPlanOfHosts: a plan says what each host gets to do and connects to none, unless it is told to: then it says what each
// one lacks or refuses, and which are not there.
func TestPlanOfHosts(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	good, down := b.server(sshtest.Options{}), b.server(sshtest.Options{})
	down.Down()
	b.overHosts(good, down)
	b.edit("mem-fraction-static: [0.80, 0.96]", "mem-fraction-static: [0.80, 0.96]\n  hicache-size: [100, off]")
	b.edit("model: llama-3-8b", "model: /no/such/model")
	b.edit("command: [sweep, ", "command: [no-such-sweep, ")
	before := strings.Count(good.Said(), "Connection from")
	plan := string(b.output("plan", "grid.yaml"))
	for _, want := range []string{
		"hosts   gpu1: over SSH to gpu1, 2 starts, 6 cells; it works alone with this machine off, for 24 h at most; sweep is copied to ~/.cache/sweep/bin, the night is in ~/.sweep until",
		"\n        gpu2: over SSH to gpu2, 2 starts, 6 cells;", "  on gpu1\n", "  on gpu2\n",
		"nothing was connected: what gpu1, gpu2 may lack or refuse is shown with --connect, and by: sweep doctor grid.yaml",
	} {
		if !strings.Contains(plan, want) {
			t.Errorf("%q is not in\n%s", want, plan)
		}
	}
	if after := strings.Count(good.Said(), "Connection from"); after != before {
		t.Error("it connected")
	}
	plan = string(b.output("plan", "grid.yaml", "--connect"))
	for _, want := range []string{"gpu1 lacks what the night needs (command", "gpu2 was not reached: connect to gpu2: ", "not started: "} {
		if !strings.Contains(plan, want) {
			t.Errorf("%q is not in\n%s", want, plan)
		}
	}
	var night plannedNight
	if err := json.Unmarshal(b.output("plan", "grid.yaml", "--connect", "--format", "json"), &night); err != nil {
		t.Fatal(err)
	}
	if h := night.Hosts; len(h) != 2 || !h[0].Looked || h[0].Away != "" || h[1].Looked || h[1].Away == "" || h[1].SSH != "gpu2" {
		t.Errorf("hosts %+v", h)
	}
	for _, l := range night.Launches { // the host that was looked at refuses what its own memory has no room for
		if refused := l.Host == "gpu1" && strings.Contains(l.Config, "hicache-size=100"); (l.Refused != "") != refused {
			t.Errorf("%s on %s: %q", l.Config, l.Host, l.Refused)
		}
	}
}

// edit replaces a part of the bed's grid.
func (b *bed) edit(part, by string) {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, "grid.yaml"))
	if err != nil || strings.Count(string(text), part) != 1 {
		b.t.Fatalf("%q is not in the grid once: %v", part, err)
	}
	b.grid(strings.Replace(string(text), part, by, 1))
}

package sweep

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMerge(t *testing.T) {
	t.Parallel()
	found := Merge([]Finding{
		{Check: "flags", Level: LevelFlags, Flag: "x", Text: "no", Configs: []string{"a"}},
		{Check: "configs", Level: LevelRefused, Text: "48", Configs: []string{"b"}},
		{Check: "flags", Level: LevelFlags, Flag: "x", Text: "no", Configs: []string{"b"}},
		{Check: "configs", Level: LevelRefused, Text: "300", Configs: []string{"a"}},
		{Check: "model", Level: LevelOK, Text: "/m"},
	}, 2)
	if got, want := fmt.Sprint(found), "[{flags flags  [] x no false} {configs refused  [b]  48 false} {configs refused  [a]  300 false} {model ok  []  /m false}]"; got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
}

// TestGridProblem holds that a flag is found wherever a grid may set it.
func TestGridProblem(t *testing.T) {
	t.Parallel()
	g := readGood(t, "server: {tp-size: 8}\nsweep:\n  mem-fraction-static: [0.8]\n  spec: {off: {}, on: {draft-size: 3}}\ninclude:\n  - {label: a, schedule-conservativeness: 0.5}\n")
	for flag, want := range map[string]string{
		"tp-size": "grid.yaml:5:10: bad (write good)\n", "mem-fraction-static": "grid.yaml:7:3: bad", "draft-size": "grid.yaml:8:24: bad",
		"schedule-conservativeness": "grid.yaml:10:16: bad", "nowhere": "grid.yaml: bad",
	} {
		if got := g.Problem(flag, "bad", "write good").String(); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", flag, got, want)
		}
	}
}

// TestProbes holds that each config is looked at on each host, without loads.
func TestProbes(t *testing.T) {
	t.Parallel()
	g := readGood(t, "hosts: [{gpus: [0]}, {gpus: [1]}]\nsweep: {a: [1, 2]}\ncommand: [serve]\nrepeats: 3\n")
	plan, err := g.Plan()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, j := range plan.Probes(nil) {
		got = append(got, fmt.Sprintf("%s %s %v %v %d", j.Host, j.Config.Key, j.GPUs, j.Command, len(j.Loads)))
	}
	want := "local a=1 [0] [serve] 0, local a=2 [0] [serve] 0, local-2 a=1 [1] [serve] 0, local-2 a=2 [1] [serve] 0"
	if strings.Join(got, ", ") != want {
		t.Errorf("%q, want %s", got, want)
	}
	if hosts := plan.HostOf(); len(hosts) != len(plan.Launches) || hosts[0].Name == hosts[1].Name {
		t.Errorf("hosts %v", hosts)
	}
}

// TestPostpone holds that what is not expected to start runs last in its repeat, before the drift check.
func TestPostpone(t *testing.T) {
	t.Parallel()
	g := readGood(t, "sweep: {a: [1, 2, 3, 4]}\nrepeats: 2\n")
	plan, err := g.Plan()
	if err != nil {
		t.Fatal(err)
	}
	plan.Postpone(func(l Launch) bool { return l.Config.Key == "a=2" || l.Config.Baseline })
	var got []string
	for _, l := range plan.Launches {
		got = append(got, l.ID())
	}
	want := []string{
		"a=1/repeat=1", "a=3/repeat=1", "a=4/repeat=1", "a=2/repeat=1", "a=1@drift/repeat=1",
		"a=1/repeat=2", "a=3/repeat=2", "a=4/repeat=2", "a=2/repeat=2", "a=1@drift/repeat=2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestForecastOrders holds that a night's jobs know what they may be skipped for, and what earlier nights saw.
func TestForecastOrders(t *testing.T) {
	t.Parallel()
	plan := testPlan("local")
	limit := 0.5
	n, err := CreateNight(NightOptions{Root: t.TempDir(), Plan: plan, Now: time.Now(), SkipHeadroomGiB: &limit, NoFlagCheck: true})
	if err != nil {
		t.Fatal(err)
	}
	dir := n.Dir
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err = OpenNight(dir); err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	n.Use(plan, nil)
	n.Earlier = func(j Job) []Sighting { return []Sighting{SightingOf(j)} }
	jobs, err := (&Runner{Night: n}).jobs("local")
	if err != nil || len(jobs) == 0 {
		t.Fatal(len(jobs), err)
	}
	for _, j := range jobs {
		if j.SkipHeadroomGiB == nil || *j.SkipHeadroomGiB != limit || !j.NoFlagCheck || len(j.Earlier) != 1 || j.Earlier[0].Launch != j.ID {
			t.Errorf("job %+v", j)
		}
	}
}

func TestForecastText(t *testing.T) {
	t.Parallel()
	f := &Forecast{KVTokens: &Estimate{-1234.4, 8.2}, From: []string{"a", "b", "c", "d"}, Notes: []string{"n"}}
	if got, want := f.String(), "−1,234 ± 9 KV tokens, from a, b and 2 more; n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	var none *Forecast
	if none.Hopeless(1) != "" || len(none.Values(Values{"kv_tokens": 1})) != 0 {
		t.Error("no forecast says something")
	}
}

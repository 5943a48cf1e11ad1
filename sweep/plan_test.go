package sweep

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func mustPlan(t *testing.T, g *Grid) *Plan {
	t.Helper()
	p, err := g.Plan()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// ids are the launches in order, each with the number of its loads.
func ids(p *Plan) string {
	var b strings.Builder
	for _, l := range p.Launches {
		fmt.Fprintf(&b, "%s %d\n", l.ID(), len(l.Loads))
	}
	return b.String()
}

func TestPlanOrder(t *testing.T) {
	t.Parallel()
	g := readGood(t, `server: {tp-size: 8}
sweep: {mem: [0.80, 0.90], cache: [off, 48]}
exclude: [{mem: 0.8, cache: 48}]
include: [{label: shipped, mem: 0.85, tp-size: 4}]
baseline: {cache: off, mem: 0.9}
repeats: 2
`)
	p := mustPlan(t, g)
	var want strings.Builder
	for _, repeat := range []string{"1", "2"} {
		want.WriteString("mem=0.90,cache=off/repeat=" + repeat + " 2\n" +
			"mem=0.80,cache=off/repeat=" + repeat + " 2\n" +
			"mem=0.90,cache=48/repeat=" + repeat + " 2\n" +
			"shipped/repeat=" + repeat + " 2\n" +
			"mem=0.90,cache=off@drift/repeat=" + repeat + " 1\n")
	}
	if got := ids(p); got != want.String() {
		t.Errorf("launches:\n%swant:\n%s", got, want.String())
	}
	if p.Cells() != 18 {
		t.Errorf("%d cells, want 18", p.Cells())
	}
	last := p.Launches[4]
	if last.Role != RoleDrift || last.Loads[0].String() != "w,short=6,long=2" || last.CellKey(last.Loads[0]) != "mem=0.90,cache=off/w,short=6,long=2@drift" {
		t.Errorf("the drift check is %v at %v", last.Role, last.Loads)
	}
	for i, c := range p.Configs {
		if c.Baseline != (i == 0) {
			t.Errorf("config %s: baseline %v", c.Key, c.Baseline)
		}
	}
	for _, test := range []struct {
		config   int
		settings string
		axes     string
	}{
		{0, "[{tp-size [8]} {mem [0.90]} {cache [off]}]", "mem=0.90,cache=off"},
		{3, "[{tp-size [4]} {mem [0.85]}]", "mem=0.85,tp-size=4"}, // a flag of an included config replaces the server's, in its place
	} {
		c := p.Configs[test.config]
		if fmt.Sprint(c.Settings) != test.settings || c.Axes.String() != test.axes {
			t.Errorf("config %s: settings %v, axes %s", c.Key, c.Settings, c.Axes)
		}
	}
}

func TestPlanKinds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, add, want string }{
		{"no axes", "", "default/repeat=1 2\n"},
		{"one config has no drift check", "sweep: {a: 1}\n", "a=1/repeat=1 2\n"},
		{"drift off", "sweep: {a: [1, 2]}\ndrift: off\n", "a=1/repeat=1 2\na=2/repeat=1 2\n"},
		{"first config is the baseline", "sweep: {a: [2, 1]}\n", "a=2/repeat=1 2\na=1/repeat=1 2\na=2@drift/repeat=1 1\n"},
		{"only included", "include: [{label: x, a: 1}, {label: y, a: 2}]\nbaseline: {label: y}\ndrift: off\n", "y/repeat=1 2\nx/repeat=1 2\n"},
		{"bundles", "sweep: {spec: {off: {}, on: {s: E, n: 3}}}\ndrift: off\n", "spec=off/repeat=1 2\nspec=on/repeat=1 2\n"},
		{"only included left", "sweep: {a: 1}\nexclude: [{a: 1}]\ninclude: [{label: x, a: 2}]\n", "x/repeat=1 2\n"},
	} {
		if got := ids(mustPlan(t, readGood(t, test.add))); got != test.want {
			t.Errorf("%s:\n%swant:\n%s", test.name, got, test.want)
		}
	}
}

func TestPlanSettings(t *testing.T) {
	t.Parallel()
	g := readGood(t, `server: {tp: 8}
sweep: {spec: {off: {}, on: {s: E, n: 3}}, mem: [0.80]}
include: [{label: x, spec: on, mem: 0.85}]
unacceptable: [{mem: 0.8, reason: small}, {spec: on, mem: 0.80, reason: never said}, {n: 3, reason: steps}]
`)
	var got []string
	for _, c := range mustPlan(t, g).Configs {
		got = append(got, fmt.Sprintf("%s %v %q", c.Key, c.Settings, c.Unacceptable))
	}
	want := []string{
		`spec=off,mem=0.80 [{tp [8]} {mem [0.80]}] "small"`,
		`spec=on,mem=0.80 [{tp [8]} {s [E]} {n [3]} {mem [0.80]}] "small"`,
		`x [{tp [8]} {s [E]} {n [3]} {mem [0.85]}] "steps"`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("configs:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestPlanErrors(t *testing.T) {
	t.Parallel()
	loads := []Load{{Workload: "w"}}
	for _, test := range []struct {
		name string
		grid Grid
		want string
	}{
		{"no loads", Grid{}, "no loads"},
		{"no values", Grid{Loads: loads, Axes: []Axis{{Name: "a"}}}, "no configs"},
		{"no baseline", Grid{Loads: loads, Baseline: Params{{"a", "1"}}}, "baseline a=1"},
	} {
		if p, err := test.grid.Plan(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v %v", test.name, p, err)
		}
	}
}

func TestEstimate(t *testing.T) {
	t.Parallel()
	const lives = "measure: {warmup: 10s, window: {min: 1m, max: 5m, requests: {long: 9}}}\nlimits: {stop: 20s}\ndrift: off\n"
	for _, test := range []struct {
		name   string
		add    string
		lo, hi time.Duration
	}{
		// two loads of 10 s and 1 to 5 min; starts of 1 s to 10 min, a stop of up to 20 s
		{"one launch", lives, 141 * time.Second, 10*time.Minute + 20*time.Second + 2*(5*time.Minute+10*time.Second)},
		{"two launches", lives + "sweep: {a: [1, 2]}\n", 282 * time.Second, 41*time.Minute + 20*time.Second},
		{"two hosts", lives + "sweep: {a: [1, 2]}\nhosts: [{gpus: [0]}, {gpus: [1]}]\n", 141 * time.Second, 20*time.Minute + 40*time.Second},
		{"more hosts than launches", lives + "hosts: [{gpus: [0]}, {gpus: [1]}]\n", 141 * time.Second, 20*time.Minute + 40*time.Second},
		{"no requests", "measure: {warmup: 10s, window: {min: 1m, max: 5m}}\n", 141 * time.Second, 10*time.Minute + 20*time.Second + 140*time.Second},
		// the cohort: 20 tokens of the long class at 10 to 150 ms
		{"first cohort", "measure: {window: 1m}\n", 121*time.Second + 400*time.Millisecond, 10*time.Minute + 20*time.Second + 126*time.Second},
		{"sped up", "measure: {window: 1m}\ncommand: [x, --speedup=20]\n", 120*time.Second + 70*time.Millisecond, 30*time.Second + 20*time.Second + 120*time.Second + 300*time.Millisecond},
	} {
		lo, hi := mustPlan(t, readGood(t, test.add)).Estimate()
		if lo != test.lo || hi != test.hi {
			t.Errorf("%s: %s to %s, want %s to %s", test.name, lo, hi, test.lo, test.hi)
		}
	}
}

// TestPlanExample holds the whole order of the founding grid.
func TestPlanExample(t *testing.T) {
	t.Parallel()
	g, _, err := ReadGrid("testdata/grid/kimi-k2.5.yaml")
	if err != nil || g == nil {
		t.Fatal(err)
	}
	p := mustPlan(t, g)
	if len(p.Configs) != 9 || len(p.Launches) != 20 || p.Cells() != 74 {
		t.Errorf("%d configs, %d launches, %d cells", len(p.Configs), len(p.Launches), p.Cells())
	}
	golden, err := os.ReadFile("testdata/grid/kimi-k2.5.launches")
	if err != nil {
		t.Fatal(err)
	}
	if got := ids(p); got != string(golden) {
		t.Errorf("launches:\n%s", got)
	}
}

// TestConfigJSON holds that a config survives its way through a job file with every text as typed.
func TestConfigJSON(t *testing.T) {
	t.Parallel()
	g := readGood(t, "sweep: {mem: [0.80], big: [1e3], z: [off]}\n")
	want := mustPlan(t, g).Configs[0]
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Config
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || got.Axes.String() != "mem=0.80,big=1e3,z=off" {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestParams(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{}`, `{"b":"0.80","a":"x\"y"}`} {
		var p Params
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(p); err != nil || string(got) != text {
			t.Errorf("%s becomes %s %v", text, got, err)
		}
	}
	for _, text := range []string{`[]`, `{"a":1}`, `{"a":{"b":"c"}}`} {
		var p Params
		if err := json.Unmarshal([]byte(text), &p); err == nil {
			t.Errorf("%s reads as %v", text, p)
		}
	}
}

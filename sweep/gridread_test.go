package sweep

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// readGood reads the good grid with lines added, and fails the test on any problem.
func readGood(t *testing.T, add string) *Grid {
	t.Helper()
	grid, problems := testReader().ReadBytes("grid.yaml", []byte(goodGrid+add))
	if len(problems) > 0 {
		t.Fatalf("problems:\n%s", strings.Join(firstLines(problems), "\n"))
	}
	return grid
}

func TestExampleReads(t *testing.T) {
	t.Parallel()
	g, problems, err := ReadGrid("testdata/grid/kimi-k2.5.yaml")
	if err != nil || g == nil {
		t.Fatalf("%v %v", err, firstLines(problems))
	}
	if len(problems) != 1 || !problems[0].Warning || problems[0].Line != 31 {
		t.Errorf("problems %q, want one warning in line 31", firstLines(problems))
	}
	source, err := os.ReadFile("testdata/grid/kimi-k2.5.yaml")
	if err != nil || !bytes.Equal(source, g.Source) {
		t.Errorf("the grid's source is not the file: %v", err)
	}
	for _, test := range []struct {
		what      string
		got, want any
	}{
		{"name", g.Name, "kimi-k2.5"},
		{"engine", g.Engine, "sglang"},
		{"model", g.Model, "/shared/kimi-k2.5-int4"},
		{"command", g.Command, []string{"/opt/sglang/bin/python", "-m", "sglang.launch_server"}},
		{"workdir", g.Workdir, "/shared"},
		{"env", g.Env, "HF_HUB_OFFLINE=1,HF_TOKEN=${env:HF_TOKEN}"},
		{"hosts", g.Hosts, []HostSpec{{Name: "local"}}},
		{"server", g.Server, []Setting{
			{"tp-size", []string{"8"}},
			{"trust-remote-code", []string{"true"}},
			{"enable-metrics", []string{"true"}},
			{"enable-cache-report", []string{"true"}},
		}},
		{"exclude", g.Exclude, []Params{{{"mem-fraction-static", "0.85"}, {"hicache-size", "300"}}}},
		{"baseline", g.Baseline, "mem-fraction-static=0.85,hicache-size=off"},
		{"unacceptable", g.Unacceptable, []Unacceptable{{Params{{"kv-cache-dtype", "fp8_e4m3"}}, "quality"}}},
		{"loads", g.Loads, "[short-only,short=64 short-only,short=150 synth,short=53,long=11 synth,short=150,long=32]"},
		{"measure", g.Measure, Measure{true, 0, 2 * time.Minute, 15 * time.Minute, map[string]int{"short": 300, "long": 30}}},
		{"limits", g.Limits, Limits{45 * time.Minute, 10 * time.Minute, time.Minute, 20 * time.Second}},
		{"repeats", g.Repeats, 2},
		{"drift", g.Drift, true},
	} {
		if fmt.Sprint(test.got) != fmt.Sprint(test.want) {
			t.Errorf("%s: %v, want %v", test.what, test.got, test.want)
		}
	}
	long := g.Workloads[0].Classes[1]
	if long.Name != "long" || long.Input != (Range{6000, 14000}) || long.Output != (Range{1000, 2000}) || long.Share != 32 {
		t.Errorf("class long is %+v", long)
	}
	if len(long.SLO) != 1 || long.SLO[0] != (Objective{"ttft", 0.9, 30 * time.Second}) {
		t.Errorf("slo of long is %v", long.SLO)
	}
	if slo := g.Workloads[0].SLO; len(slo) != 1 || slo[0] != (Objective{"tpot", 0.95, 150 * time.Millisecond}) {
		t.Errorf("slo of synth is %v", slo)
	}
	if p := g.Workloads[1].Classes[0].SharedPrefix; p == nil || *p != (SharedPrefix{400, 640}) {
		t.Errorf("shared prefix is %v", p)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	g := readGood(t, "")
	if g.Name != "grid" {
		t.Errorf("name %q, want that of the file", g.Name)
	}
	if want := (Measure{WarmupCohort: true, WindowMin: time.Minute, WindowMax: 10 * time.Minute}); fmt.Sprint(g.Measure) != fmt.Sprint(want) {
		t.Errorf("measure %v, want %v", g.Measure, want)
	}
	if g.Repeats != 1 || !g.Drift || len(g.Hosts) != 1 || g.Hosts[0].Name != "local" || g.Hosts[0].GPUs != nil {
		t.Errorf("repeats %d, drift %v, hosts %v", g.Repeats, g.Drift, g.Hosts)
	}
}

// TestLiteralText holds that every value of an axis or flag keeps the text that the user typed.
func TestLiteralText(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ yaml, want string }{
		{"0.80", "0.80"},
		{"[0.80, 0.850, 1e3, 0x10]", "0.80 0.850 1e3 0x10"},
		{"[off, on, yes, no, true]", "off on yes no true"},
		{"[auto, fp8_e4m3, 'null', \"~\"]", ""}, // "~" is not safe as a folder's name
		{"[4k, 8k, 1.5k]", "4k 8k 1.5k"},
		{"[-1, 2048, +3]", "-1 2048 +3"},
		{"[2026-11-29, 1_000]", "2026-11-29 1_000"},
		{"['010', \"00\"]", "010 00"},
		{"0.80:0.94:0.02", "0.80 0.82 0.84 0.86 0.88 0.90 0.92 0.94"},
		{"[0.1, 0.5:0.7:0.10]", "0.1 0.50 0.60 0.70"},
		{"10:0:-5", "10 5 0"},
		{"-0.2:0.2:0.2", "-0.2 0.0 0.2"},
		{"1:8:x2", "1 2 4 8"},
		{"[3:81:x3, 100]", "3 9 27 81 100"},
		{"5:5:1", "5"},
		{"0.50:0.5:0.1", "0.50"},
	} {
		grid, problems := testReader().ReadBytes("grid.yaml", []byte(goodGrid+"sweep: {a: "+test.yaml+"}\n"))
		if test.want == "" {
			if grid != nil {
				t.Errorf("%s: no problem", test.yaml)
			}
			continue
		}
		if grid == nil {
			t.Errorf("%s: %q", test.yaml, firstLines(problems))
			continue
		}
		var labels []string
		for _, v := range grid.Axes[0].Values {
			labels = append(labels, v.Label)
			if len(v.Settings) != 1 || v.Settings[0].Name != "a" || v.Settings[0].Value() != v.Label {
				t.Errorf("%s: value %q has settings %v", test.yaml, v.Label, v.Settings)
			}
		}
		if got := strings.Join(labels, " "); got != test.want {
			t.Errorf("%s: %s, want %s", test.yaml, got, test.want)
		}
	}
}

func TestBundles(t *testing.T) {
	t.Parallel()
	g := readGood(t, `sweep:
  spec:
    off: {}
    none:
    eagle: {speculative-algorithm: EAGLE, speculative-num-steps: 3, graph-bs: [1, 2, 4]}
  cache: {off: {}, "48": {cache-size: 48}}
`)
	want := "[{spec [{off []} {none []} {eagle [{speculative-algorithm [EAGLE]} {speculative-num-steps [3]} {graph-bs [1 2 4]}]}]} " +
		"{cache [{off []} {48 [{cache-size [48]}]}]}]"
	if got := fmt.Sprint(g.Axes); got != want {
		t.Errorf("axes\n%s, want\n%s", got, want)
	}
}

func TestSSHHosts(t *testing.T) {
	t.Parallel()
	g := readGood(t, `hosts:
  - {ssh: root@gpu1, gpus: [0, 1]}
  - {ssh: root@gpu1, gpus: [2, 3], lease: 12h, dir: ~/fast/, host_key: "SHA256:2lZAzqvKGAFTbrgFSa6PCrHGVBBvEPANPnoMrxm2fEY"}
  - {ssh: "me@[fe80::1]:2222", transport: openssh, ssh_config: /etc/other}
  - {gpus: all}
`)
	want := []HostSpec{
		{Name: "gpu1", GPUs: []string{"0", "1"}, SSH: &SSHSpec{Target: "root@gpu1"}},
		{Name: "gpu1-2", GPUs: []string{"2", "3"}, SSH: &SSHSpec{Target: "root@gpu1", Lease: 12 * time.Hour, Dir: "~/fast", HostKey: "SHA256:2lZAzqvKGAFTbrgFSa6PCrHGVBBvEPANPnoMrxm2fEY"}},
		{Name: "fe80--1", SSH: &SSHSpec{Target: "me@[fe80::1]:2222", Transport: "openssh", Config: "/etc/other"}},
		{Name: "local-4"},
	}
	if !reflect.DeepEqual(g.Hosts, want) {
		t.Errorf("hosts %+v, want %+v", g.Hosts, want)
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	g := readGood(t, `command: ~/bin/llama-server
workdir: ~/work
env: {A: "x=${env:B}", TOKENIZERS_PARALLELISM: false, EMPTY: ""}
hosts: [{gpus: [0, 1]}, {gpus: [GPU-0a1b2c3d-0000]}, {simulate: two-cards}]
server: {tp-size: 8, graph-bs: [1, 2], flash-attn: on, quoted: ""}
measure: {warmup: 30s, window: 90s}
limits: {load_stall: 5s}
drift: off
price_per_hour: 12.50
accept_edge: true
`)
	for _, test := range []struct {
		what      string
		got, want any
	}{
		{"command", g.Command, []string{"/home/u/bin/llama-server"}},
		{"workdir", g.Workdir, "/home/u/work"},
		{"env", g.Env, "A=x=${env:B},TOKENIZERS_PARALLELISM=false,EMPTY="},
		{"hosts", g.Hosts, "[{local [0 1]  <nil>  {false []}} {local-2 [GPU-0a1b2c3d-0000]  <nil>  {false []}} {local-3 [] two-cards <nil>  {false []}}]"},
		{"server", g.Server, "[{tp-size [8]} {graph-bs [1 2]} {flash-attn [on]} {quoted []}]"},
		{"measure", g.Measure, Measure{false, 30 * time.Second, 90 * time.Second, 90 * time.Second, nil}},
		{"limits", g.Limits, Limits{45 * time.Minute, 10 * time.Minute, 5 * time.Second, 20 * time.Second}},
		{"drift", g.Drift, false},
		{"price", g.PricePerHour, 12.5},
		{"edge", g.AcceptEdge, true},
	} {
		if fmt.Sprint(test.got) != fmt.Sprint(test.want) {
			t.Errorf("%s: %v, want %v", test.what, test.got, test.want)
		}
	}
}

func TestLevels(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ yaml, want string }{
		{"8", "w,short=6,long=2"},
		{"[64, 4, {short: 1, long: 31}]", "w,short=3,long=1 w,short=1,long=31 w,short=48,long=16"},
		{"4:16:x2", "w,short=3,long=1 w,short=6,long=2 w,short=12,long=4"},
		{"[4:12:4]", "w,short=3,long=1 w,short=6,long=2 w,short=9,long=3"},
		{"1k", "w,short=750,long=250"},
	} {
		text := strings.Replace(goodGrid, "[4, 8]", test.yaml, 1)
		g, problems := testReader().ReadBytes("grid.yaml", []byte(text))
		if g == nil {
			t.Errorf("%s: %q", test.yaml, firstLines(problems))
			continue
		}
		var got []string
		for _, l := range g.Loads {
			got = append(got, l.String())
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %s, want %s", test.yaml, strings.Join(got, " "), test.want)
		}
	}
}

// TestRequestsForAll holds that one number of requests is meant for each class.
func TestRequestsForAll(t *testing.T) {
	t.Parallel()
	g := readGood(t, "measure: {window: {requests: 30}}\n")
	if got := fmt.Sprint(g.Measure.Requests); got != "map[long:30 short:30]" {
		t.Errorf("requests %s", got)
	}
}

// TestSpeedup holds that a sped-up simulator shortens the lives that a window is held against.
func TestSpeedup(t *testing.T) {
	t.Parallel()
	text := strings.Replace(goodGrid, "output: 20", "output: 2k", 1) + "measure: {window: 20s}\ncommand: [sweep, simulate, sglang, --speedup, %s]\n"
	for _, test := range []struct {
		speed string
		warns bool
	}{{"'2'", true}, {"'20'", false}} {
		_, problems := testReader().ReadBytes("grid.yaml", fmt.Appendf(nil, text, test.speed))
		if got := len(problems) > 0; got != test.warns {
			t.Errorf("speedup %s: %q", test.speed, firstLines(problems))
		}
	}
}

// TestFixedKeys holds that every key of a record that is no value is refused as the name of an axis.
func TestFixedKeys(t *testing.T) {
	t.Parallel()
	steady := true
	r := Record{
		GPU: "x", EngineVersion: "x", Baseline: true, Unacceptable: "x", Steady: &steady, Verdict: "x", Failures: map[string]int{"x": 1},
		Notes: []string{"x"}, Dir: "x", Command: "x", StartedAt: time.Unix(1, 0), EndedAt: time.Unix(1, 0),
		Ending: Ending{Phase: "x", Cause: "x", Detail: "x", ImpliedBy: "x", Evidence: &Evidence{}, Exit: &Exit{}},
	}
	line, err := r.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(line, &keys); err != nil {
		t.Fatal(err)
	}
	for key := range keys {
		if !slices.Contains(fixedKeys, key) {
			t.Errorf("a record has the key %q, but an axis may be named so", key)
		}
	}
}

func FuzzReadGrid(f *testing.F) {
	example, err := os.ReadFile("testdata/grid/kimi-k2.5-notyet.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(example)
	f.Add([]byte(goodGrid))
	for _, table := range [][]badGrid{badYAML, badNames, badFlags, badAxes, badChoices, badLoads, badMeasures, badHosts} {
		for _, b := range table {
			if b.whole != "" {
				f.Add([]byte(b.whole))
			} else if len(b.add) < 4096 {
				f.Add([]byte(strings.Replace(goodGrid, b.old, b.new, 1) + b.add))
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		grid, problems := testReader().ReadBytes("grid.yaml", data)
		failed := false
		for _, p := range problems {
			failed = failed || !p.Warning
			if s := p.String(); !strings.HasPrefix(s, "grid.yaml") || strings.ContainsAny(s, "\x1b\x00") || p.Text == "" {
				t.Errorf("problem %q", s)
			}
		}
		if (grid == nil) != failed {
			t.Fatalf("grid %v, problems %q", grid != nil, firstLines(problems))
		}
		if grid == nil {
			return
		}
		plan, err := grid.Plan()
		if err != nil {
			t.Fatalf("a valid grid has no plan: %v", err)
		}
		seen := map[string]bool{}
		for _, l := range plan.Launches {
			if id := l.ID(); seen[id] || strings.Count(id, "/") != 1 || strings.ContainsAny(id, "\x00\n\\: ") {
				t.Errorf("launch %q", id)
			}
			seen[l.ID()] = true
		}
		if lo, hi := plan.Estimate(); lo <= 0 || hi < lo {
			t.Errorf("estimate %s to %s", lo, hi)
		}
	})
}

func BenchmarkReadGrid(b *testing.B) {
	example, err := os.ReadFile("testdata/grid/kimi-k2.5.yaml")
	if err != nil {
		b.Fatal(err)
	}
	var large strings.Builder
	large.WriteString(goodGrid + "sweep: {a: 1:50:1, b: 1:50:1}\nexclude:\n")
	for i := range 50 {
		fmt.Fprintf(&large, "  - {a: %d, b: %d}\n", i+1, i+1)
	}
	for _, grid := range []struct {
		name string
		data []byte
	}{{"example", example}, {"2500configs", []byte(large.String())}} {
		b.Run(grid.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(grid.data)))
			for b.Loop() {
				if g, problems := ReadGridBytes("grid.yaml", grid.data); g == nil {
					b.Fatal(firstLines(problems))
				}
			}
		})
	}
}

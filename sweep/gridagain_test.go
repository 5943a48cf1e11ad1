package sweep

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const confirmed = `# the night's grid
name: kimi
engine: sglang
model: m
server: {tp-size: 8}   # a comment that stays
sweep:
  mem-fraction-static: [0.85, 0.88, 0.93]
  hicache-size: [off, 48]
baseline: {mem-fraction-static: 0.85, hicache-size: off}
workloads:
  short-only:
    classes: {chat: {input: 40, output: 30}}
  synth:
    classes:
      short: {share: 3, input: 800..1600, output: 200..600}
      long: {input: 9k..14k, output: 200..400, slo: {ttft: p90<30s}}
    slo: {tpot: p95<150ms}
load:
  - {workload: short-only, concurrency: [64]}
  - {workload: synth, concurrency: [32, {short: 150, long: 32}]}
measure: {window: {min: 2m, requests: {short: 300, chat: 10}, max: 15m}}
repeats: 2
`

func TestGridAgain(t *testing.T) {
	t.Parallel()
	g, problems := ReadGridBytes("kimi.yaml", []byte(confirmed))
	if g == nil {
		t.Fatal(problems)
	}
	load := Load{Workload: "synth", Pools: []Pool{{Class: "short", Concurrency: 150}, {Class: "long", Concurrency: 32}}}
	text, err := g.Again(Again{
		Name: "kimi-confirm", Only: []string{"mem-fraction-static=0.85,hicache-size=off", "mem-fraction-static=0.88,hicache-size=48"},
		Loads: []Load{load}, Repeats: 5, Prompts: "confirm", Bursts: []Burst{{Over: load, Count: 11}},
	})
	if err != nil {
		t.Fatal(err)
	}
	again, problems := ReadGridBytes("again.yaml", text)
	if again == nil || len(problems) > 0 {
		t.Fatalf("problems %v of\n%s", problems, text)
	}
	if !strings.Contains(string(text), "# a comment that stays") {
		t.Errorf("comments are lost:\n%s", text)
	}
	plan, err := again.Plan()
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Configs) != 2 || len(plan.Launches) != 10 || !plan.Configs[0].Baseline || again.Drift {
		t.Errorf("%d configs, %d launches", len(plan.Configs), len(plan.Launches))
	}
	if len(again.Loads) != 2 || again.Loads[0].String() != load.String() || again.Loads[1].String() != "synth-burst,short=150,long=32,burst=11" {
		t.Errorf("loads %v", again.Loads)
	}
	burst := again.workload("synth-burst")
	if c := burst.Classes[2]; c.Input != (Range{14000, 14000}) || c.Output.Max != burstOutput {
		t.Errorf("the burst's class is %+v", c)
	}
	if len(burst.SLO) > 0 || len(burst.Classes[1].SLO) > 0 || len(again.workload("synth").Classes[1].SLO) != 1 {
		t.Error("service levels: the burst has some, or the other workload lost its own")
	}
	if len(again.Measure.Requests) != 1 || again.Measure.Requests["short"] != 300 || again.Measure.WindowMax != 15*time.Minute {
		t.Errorf("measure %+v", again.Measure)
	}
	first, err := g.Plan()
	if err != nil {
		t.Fatal(err)
	}
	seeds := func(p *Plan, l Load) []uint64 {
		var out []uint64
		for _, c := range newManifest(p, nil).Cells {
			if c.Load.String() == l.String() && c.Repeat <= 2 && !slices.Contains(out, c.Seed) {
				out = append(out, c.Seed)
			}
		}
		return out
	}
	if old, fresh := seeds(first, load), seeds(plan, load); len(old) != 2 || len(fresh) != 2 || slices.ContainsFunc(fresh, func(s uint64) bool { return slices.Contains(old, s) }) {
		t.Errorf("seeds %v, then %v: the prompts are not fresh", old, fresh)
	}

	soak, err := g.Again(Again{Name: "kimi-soak", Only: []string{"mem-fraction-static=0.88,hicache-size=48"}, Loads: []Load{load}, Repeats: 1, Window: 30 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	again, problems = ReadGridBytes("soak.yaml", soak)
	if again == nil {
		t.Fatal(problems)
	}
	if again.Measure.WindowMin != 30*time.Minute || again.Measure.WindowMax != 30*time.Minute || again.Repeats != 1 {
		t.Errorf("soak %+v", again.Measure)
	}
	if plan, err = again.Plan(); err != nil || len(plan.Configs) != 1 || len(plan.Launches) != 1 {
		t.Errorf("plan of the soak: %+v, %v", plan, err)
	}
	again.Only = []string{"nothing"}
	if _, err := again.Plan(); err == nil || !strings.Contains(err.Error(), `no config is named "nothing"`) {
		t.Errorf("an unknown config: %v", err)
	}
}

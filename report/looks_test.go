package report

import (
	"fmt"
	"time"

	"sweep/sweep"
)

// ladder is a workload "chat" of one class at these levels.
func ladder(levels ...int) []sweep.Load {
	var loads []sweep.Load
	for _, n := range levels {
		loads = append(loads, load("chat", "chat", n))
	}
	return loads
}

// nights are the shapes that every picture and table must stand: few and many configs, nothing
// measured, one cell, an unfinished night, names of any length.
func nights() map[string]nightSpec {
	oom := func(sweep.Config, sweep.Load, int) sweep.Ending {
		return sweep.Ending{Outcome: sweep.OOMWeights, Phase: sweep.PhaseWeights, Detail: "the weights need 61 GiB, the device has 24 GiB"}
	}
	base := func(name string, loads []sweep.Load, axes ...sweep.Axis) nightSpec {
		return nightSpec{name: name, axes: axes, loads: loads, repeats: 1, plan: true}
	}
	wide := ladder(1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
	edge := func(c sweep.Config, l sweep.Load, repeat int) sweep.Ending {
		mem, _ := c.Axes.Get("mem-fraction-static")
		if mem >= "0.90" && l.Concurrency() >= 256 || mem >= "0.94" && l.Concurrency() >= 128 {
			return sweep.Ending{Outcome: sweep.OOMDecode, Phase: sweep.PhaseLoad}
		}
		return sweep.Ending{}
	}
	eight := base("eight", wide, axis("mem-fraction-static", "0.80", "0.85", "0.90", "0.94"), axis("hicache-size", "off", "2x"))
	eight.end, eight.repeats = edge, 3
	forty := base("forty", wide, axis("mem-fraction-static", "0.80", "0.82", "0.84", "0.86", "0.88", "0.90", "0.92", "0.94"),
		axis("hicache-size", "off", "8", "16", "24", "48"))
	forty.end = edge
	line := base("forty-one-axis", wide, axis("max-running-requests", counted(40)...))
	unfinished := base("unfinished", wide, axis("mem-fraction-static", "0.80", "0.85", "0.90"), axis("hicache-size", "off", "2x"))
	unfinished.repeats = 2
	unfinished.edit = func(r *sweep.Record) bool {
		mem, _ := r.Axes.Get("mem-fraction-static")
		return r.Repeat == 1 && (mem == "0.80" || mem == "0.85" && r.Load.Concurrency() < 20)
	}
	failed := base("all-failed", ladder(8, 16), axis("mem-fraction-static", "0.80", "0.85"), axis("tp-size", "1", "2"))
	failed.end = oom
	long := base("long names", ladder(7, 8, 9, 10, 11), axis("a-very-long-name-of-a-flag-that-nobody-would-choose", "an-extraordinarily-long-value-of-it-number-one", "an-extraordinarily-long-value-of-it-number-two"),
		axis("a-very-odd-flag", "on", "off"))
	long.end = func(c sweep.Config, l sweep.Load, _ int) sweep.Ending {
		if v, _ := c.Axes.Get("a-very-odd-flag"); v == "off" {
			return sweep.Ending{Outcome: sweep.SkippedPreflight, Phase: sweep.PhaseGate, Detail: preflight300}
		}
		return sweep.Ending{}
	}
	empty := base("nothing-yet", ladder(1, 2), axis("threads", "1", "2"))
	empty.edit = func(*sweep.Record) bool { return false }
	raw := kimi(2)
	raw.raw = true
	raw.workloads = []sweep.Workload{raw.workloads[0], {Name: "synth", SLO: []sweep.Objective{{Metric: "tpot", Quantile: 0.95, Limit: 150 * time.Millisecond}}, Classes: []sweep.Class{
		{Name: "short", SLO: []sweep.Objective{{Metric: "ttft", Quantile: 0.99, Limit: 5 * time.Second}}},
		{Name: "long", SLO: []sweep.Objective{{Metric: "ttft", Quantile: 0.9, Limit: 30 * time.Second}}},
	}}}
	longRaw, eightRaw := long, eight
	longRaw.raw, eightRaw.raw = true, true
	eightRaw.loads, eightRaw.repeats = ladder(32, 64, 128), 1
	twins := base("same-totals", []sweep.Load{load("mix", "a", 4, "b", 4), load("mix", "a", 6, "b", 2), load("mix", "a", 2, "b", 2)}, axis("threads", "1", "2"))
	return map[string]nightSpec{
		"one-cell":   base("one-cell", ladder(4), axis("threads", "2")),
		"no-axis":    base("no-axis", ladder(1, 2, 4)),
		"one":        base("one", wide, axis("mem-fraction-static", "0.85")),
		"two":        base("two", wide, axis("hicache-size", "off", "2x")),
		"eight":      eight,
		"forty":      forty,
		"forty-line": line,
		"all-failed": failed,
		"unfinished": unfinished,
		"empty":      empty,
		"long":       long,
		"twins":      twins,
		"kimi-1":     kimi(1),
		"kimi-2":     kimi(2),
		"kimi-raw":   raw,
		"long-raw":   longRaw,
		"eight-raw":  eightRaw,
		"planned":    openNight(),
	}
}

func counted(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprint((i+1)*8))
	}
	return out
}

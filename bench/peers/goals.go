package main

import (
	"fmt"
	"strings"
)

// bound is a limit for our figure: Factor × another figure + Add. A zero Factor makes Add the limit.
type bound struct {
	Factor, Add float64
	Of          role // limit or peer; of no meaning without a Factor
	Strict      bool // better than, not as good as
}

// goal is what our client should reach in one case.
type goal struct {
	Measure string
	Case    string
	Unit    string
	Digits  int
	More    bool // more is better
	Figure  figure
	Kernel  []bound // with stamps of the kernel
	User    []bound // with user stamps; nil: as Kernel
}

func fromR(factor, add float64) bound { return bound{Factor: factor, Add: add, Of: limit} }
func fromP(factor float64) bound      { return bound{Factor: factor, Of: peer} }

// goals are what the comparison decides.
func goals() []goal {
	list := []goal{
		{Measure: "TTFT mean error", Case: "spread-100", Unit: "ms", Digits: 2, Figure: absError("ttft_mean"), Kernel: []bound{fromR(1, 0.15), fromP(1.0 / 4)}},
		{Measure: "TTFT mean error", Case: "spread-300", Unit: "ms", Digits: 2, Figure: absError("ttft_mean"), Kernel: []bound{fromR(1, 0.3), fromP(1.0 / 5)}},
		{Measure: "TTFT mean error", Case: "spread-1000", Unit: "ms", Digits: 2, Figure: absError("ttft_mean"), Kernel: []bound{fromR(1, 0.5), fromP(1.0 / 5)}},
		{Measure: "TTFT p99 error", Case: "spread-1000", Unit: "ms", Digits: 2, Figure: absError("ttft_p99"), Kernel: []bound{fromR(2, 1), fromP(1.0 / 10)}},
		{Measure: "ITL p99 error", Case: "spread-1000", Unit: "ms", Digits: 3, Figure: absError("itl_p99"), Kernel: []bound{{Add: 0.05}}, User: []bound{fromR(1, 0.3)}},
		{Measure: "CPU per event", Case: "spread-100", Unit: "µs", Digits: 1, Figure: cpuPerEvent, Kernel: []bound{fromR(1.3, 0), fromP(0.95)}},
		{Measure: "CPU per event", Case: "spread-1000", Unit: "µs", Digits: 1, Figure: cpuPerEvent, Kernel: []bound{fromR(1.25, 0), fromP(0.9)}},
		{Measure: "CPU per event", Case: "spread-2000", Unit: "µs", Digits: 1, Figure: cpuPerEvent, Kernel: []bound{fromR(1.3, 0), fromP(0.9)}},
		{Measure: "flood, 1 event a write", Case: "flood-1", Unit: "events per core-second", More: true, Figure: eventsPerCoreSecond, Kernel: []bound{fromR(0.8, 0), fromP(1.1)}},
		{Measure: "flood, 16 events a write", Case: "flood-16", Unit: "events per core-second", More: true, Figure: eventsPerCoreSecond, Kernel: []bound{fromR(0.4, 0), fromP(2)}},
		{Measure: "delivered concurrency", Case: "spread-1000", Unit: "%", Digits: 1, More: true, Figure: delivered, Kernel: []bound{fromR(1, -1), {Factor: 1, Of: peer, Strict: true}}},
		{Measure: "peak RSS, private", Case: "spread-1000", Unit: "MB", Digits: 0, Figure: peakAnon, Kernel: []bound{{Add: 40}, fromP(1.0 / 2)}},
		{Measure: "start to first request", Case: "spread-100", Unit: "s", Digits: 3, Figure: startup, Kernel: []bound{{Add: 0.1}}},
	}
	for _, g := range list {
		if g.Case == "spread-300" || g.Case == "spread-1000" && !strings.HasPrefix(g.Measure, "peak") {
			g.Case = strings.Replace(g.Case, "spread", "lockstep", 1)
			list = append(list, g)
		}
	}
	return list
}

// verdict is a goal held against the runs.
type verdict struct {
	Goal     goal
	Stamps   string // kernel or user
	Ours, R  spread
	P        spread // of the best peer
	Peer     string // its name; "": none was measured
	Limits   []string
	Pass     bool
	Complete bool // all that the goal refers to was measured, our client included
}

// judge holds each goal against the runs, for both kinds of stamps.
func judge(all []result, tools []tool, list []goal) []verdict {
	var verdicts []verdict
	for _, g := range list {
		for _, stamps := range []string{"kernel", "user"} {
			v := verdict{Goal: g, Stamps: stamps, Ours: over(all, g.Case, "sweep "+stamps, g.Figure), R: over(all, g.Case, "R "+stamps, g.Figure)}
			if v.R.N == 0 && v.Ours.N == 0 {
				continue // the case was not run
			}
			for i := range tools {
				if tools[i].Role != peer {
					continue
				}
				p := over(all, g.Case, tools[i].Name, g.Figure)
				if p.N > 0 && (v.Peer == "" || p.Median != v.P.Median && p.Median > v.P.Median == g.More) {
					v.Peer, v.P = tools[i].Name, p
				}
			}
			bounds := g.Kernel
			if stamps == "user" && g.User != nil {
				bounds = g.User
			}
			v.hold(bounds)
			verdicts = append(verdicts, v)
		}
	}
	return verdicts
}

func (v *verdict) hold(bounds []bound) {
	v.Pass, v.Complete = v.Ours.N > 0, v.Ours.N > 0
	for _, b := range bounds {
		at := b.Add
		if b.Factor != 0 {
			of := v.R
			if b.Of == peer {
				of = v.P
			}
			if of.N == 0 {
				v.Complete = false
				v.Limits = append(v.Limits, b.text(v.Goal)+" (not measured)")
				continue
			}
			at += b.Factor * of.Median
		}
		v.Limits = append(v.Limits, fmt.Sprintf("%s = %s", b.text(v.Goal), number(at, v.Goal.Digits)))
		ours := v.Ours.Median
		if v.Goal.More {
			ours, at = -ours, -at
		}
		if ours > at || b.Strict && ours == at {
			v.Pass = false
		}
	}
}

// text is a bound as a person writes it: "≤ 1.25 R + 0.5".
func (b bound) text(g goal) string {
	sign := "≤"
	if g.More {
		sign = "≥"
	}
	if b.Strict {
		sign = map[bool]string{true: ">", false: "<"}[g.More]
	}
	if b.Factor == 0 {
		return sign
	}
	name := "R"
	if b.Of == peer {
		name = "P"
	}
	switch {
	case b.Factor == 1:
	case b.Factor < 1 && float64(int(1/b.Factor+0.5)) == 1/b.Factor:
		name = fmt.Sprintf("%s/%g", name, 1/b.Factor)
	default:
		name = fmt.Sprintf("%g %s", b.Factor, name)
	}
	switch {
	case b.Add > 0:
		name += fmt.Sprintf(" + %g", b.Add)
	case b.Add < 0:
		name += fmt.Sprintf(" − %g", -b.Add)
	}
	return sign + " " + name
}

package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"sweep/sweep"
)

// driftLine says how far the baseline moved between the beginning and the end of each repeat.
func (s *Summary) driftLine() string {
	byRepeat := map[int][]float64{}
	var repeats []int
	var lost []string
	for _, d := range s.Drift {
		if !d.Known {
			if d.Outcome != sweep.OK {
				lost = append(lost, fmt.Sprintf("repeat %d at %s: %s", d.Repeat, poolLabel(d.Load), shortOutcome(d.Outcome)))
			}
			continue
		}
		if !slices.Contains(repeats, d.Repeat) {
			repeats = append(repeats, d.Repeat)
		}
		byRepeat[d.Repeat] = append(byRepeat[d.Repeat], d.Change)
	}
	slices.Sort(repeats)
	var parts []string
	for _, r := range repeats {
		lo, hi := span(byRepeat[r])
		text := percent(lo)
		if percent(lo) != percent(hi) {
			text += " to " + percent(hi) + " by load"
		}
		parts = append(parts, text)
	}
	var line string
	switch {
	case len(parts) == 1:
		line = "The baseline drifted " + parts[0] + " over the repeat" + s.driftEnds() + "."
	case len(parts) > 1:
		line = "The baseline drifted over the repeats, in order: " + strings.Join(parts, "; ") + "."
	}
	switch e := s.DriftChange; {
	case e == nil || !e.Known:
		line += s.driftVerdict()
	case e.Sure:
		line += " That is more than noise, " + changeWords(e.Change, e.Interval) + ": configs measured late are not quite comparable with early ones."
	default:
		line += " That is within the noise."
	}
	if len(lost) > 0 {
		line = strings.TrimSpace(line + " Drift not known: " + strings.Join(lost, "; ") + ".")
	}
	return line
}

// driftEnds are the ends of the largest drift of a single repeat: ", from 1,770 to 1,530 tok/s".
func (s *Summary) driftEnds() string {
	most, known := DriftCheck{}, 0
	for _, d := range s.Drift {
		if d.Known {
			if known++; known == 1 || math.Abs(d.Change) > math.Abs(most.Change) {
				most = d
			}
		}
	}
	decimals := throughput().decimals([]float64{most.Before, most.After})
	line := fmt.Sprintf("from %s to %s tok/s", commas(most.Before, decimals), commas(most.After, decimals))
	if known > 1 {
		return fmt.Sprintf(", the most %s at %s", line, inFlight(most.Load))
	}
	return ", " + line
}

// driftVerdict holds the gain of each workload's best against what the baseline drifted, where no noise estimate says more: a config that
// was measured late may owe so much to the machine, or have lost it.
func (s *Summary) driftVerdict() string {
	largest := map[string]float64{} // by workload; "" is all
	for _, d := range s.Drift {
		if d.Known {
			for _, w := range []string{d.Load.Workload, ""} {
				largest[w] = max(largest[w], math.Abs(d.Change))
			}
		}
	}
	if len(largest) == 0 || slices.ContainsFunc(s.Sheets, func(sheet *Sheet) bool { return sheet.Noise.DF > 0 }) {
		return ""
	}
	var parts []string
	for _, sheet := range s.Sheets {
		if sheet.Best == nil {
			continue
		}
		gain, ok := sheet.Change(sheet.Best.Best)
		if !ok {
			continue
		}
		drift, own := largest[sheet.Workload]
		if !own {
			drift = largest[""]
		}
		text := fmt.Sprintf("the %s's %s", sheet.bestWord(), percent(gain))
		if len(s.Sheets) > 1 {
			text = "in " + sweep.Printable(sheet.Workload) + " " + text
		}
		if gain > drift {
			text += " is larger"
		} else {
			text += " is not larger, and may be drift"
		}
		parts = append(parts, text)
	}
	line := " A gain below " + strings.TrimPrefix(percent(largest[""]), "+") + " is not told apart from drift"
	if len(s.Sheets) > 1 {
		line = " A gain below the drift is not told apart from it"
	}
	if len(parts) > 0 {
		line += ": " + strings.Join(parts, "; ")
	}
	return line + "."
}

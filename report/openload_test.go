package report

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"sweep/sweep"
)

// planned is a load by rate.
func planned(workload, class string, rate float64) sweep.Load {
	return sweep.Load{Workload: workload, Pools: []sweep.Pool{{Class: class, Rate: rate}}, Arrivals: &sweep.Arrivals{}}
}

// openNight has loads by rate only.
func openNight() nightSpec {
	return nightSpec{
		name: "open", repeats: 2, plan: true, raw: true, loads: []sweep.Load{planned("w", "x", 0.5), planned("w", "x", 2.5), planned("w", "x", 8)},
		axes: []sweep.Axis{axis("mem-fraction-static", "0.80", "0.90"), axis("hicache-size", "off", "16")},
		edit: func(r *sweep.Record) bool {
			if r.Outcome == sweep.OK {
				rate := r.Load.Rate()
				maps.Copy(r.Values, sweep.Values{"output_throughput": 200 * rate, "running": 2 * rate, "queued": max(0, 3*rate-15), "median_tpot_ms": 20 + rate, "p95_tpot_ms": 25 + rate, "p95_ttft_ms": 300 + 50*rate})
			}
			return true
		},
	}
}

// Of a night whose loads are planned rates nothing says that requests are held in flight: tables, pictures, page and comparison.
func TestOpenLoadWords(t *testing.T) {
	n, s := openNight().read(t)
	texts := map[string]string{"next": nextText(s), "next level": levelWords(n.Loads[1], n.Loads)}
	var table, pivot, diff bytes.Buffer
	for _, err := range []error{
		WriteTable(&table, s, Options{}), WriteTable(&pivot, s, Options{View: View{Rows: "mem-fraction-static", Cols: "concurrency", Metrics: []string{"output_throughput"}}}),
		WriteDiff(&diff, Compare([]*Night{n, n}, throughput()), Options{}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	texts["table"], texts["pivot"], texts["comparison"] = table.String(), pivot.String(), diff.String()
	drawn := 0
	for _, d := range s.drawings() {
		if d.skip != "" {
			continue
		}
		svg, err := renderSVG(d)
		if err != nil {
			t.Fatal(err)
		}
		drawn++
		texts[d.Name+".svg"] = string(svg)
	}
	if drawn < 5 {
		t.Errorf("%d pictures", drawn)
	}
	data, err := s.data()
	if err != nil {
		t.Fatal(err)
	}
	page, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	texts["page"] = string(page)
	for _, sheet := range s.Sheets {
		for _, b := range pageBlocks(s.sheetBlocks(sheet, View{}), nil) {
			texts["page's words"] += b.Text
		}
		for _, a := range s.decision(sheet).Answers {
			texts["decision"] += strings.Join(a.Lines, " ")
		}
	}
	for name, text := range texts {
		if i := strings.Index(text, "in flight"); i >= 0 {
			t.Errorf("%s: %q", name, text[max(0, i-80):min(len(text), i+30)])
		}
	}
	if !strings.Contains(texts["table"], "planned") || !strings.Contains(texts["decision"], "8/s planned") || !strings.Contains(texts["throughput.svg"], "Requests planned a second") || !strings.Contains(texts["page"], `"planned a second"`) {
		t.Error("nothing says that the requests were planned")
	}
}

// A night of both kinds names both where they stand in one column.
func TestMixedLoadWords(t *testing.T) {
	loads := []sweep.Load{load("held", "x", 4), planned("sent", "x", 2)}
	if got := levelName(loads); got != "requests in flight or planned a second" {
		t.Error(got)
	}
	if got := levelHead(loads); got != [2]string{"load"} {
		t.Error(got)
	}
}

// The ticks of counts are whole, and more than the ends of the axis where there is room.
func TestCountScale(t *testing.T) {
	for _, top := range []float64{0, 0.4, 1, 2, 3, 7, 9, 12, 16, 31, 150, 1234} {
		a := countScale(top, 4)
		if len(a.ticks) < 2 || top >= 4 && len(a.ticks) < 3 {
			t.Errorf("up to %g: ticks %v", top, a.ticks)
		}
		for _, k := range a.ticks {
			if strings.ContainsAny(k.label, ".") || k.value != float64(int(k.value)) {
				t.Errorf("up to %g: a tick at %q", top, k.label)
			}
		}
	}
}

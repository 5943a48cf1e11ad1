package report

import (
	"math"
	"strings"
	"testing"

	"sweep/sweep"
)

// forecastNight is the founding night with what was forecast before the launches at 0.93: the pool to the token, the headroom 0.25 GiB too high.
func forecastNight() nightSpec {
	spec := kimi(1)
	spec.edit = func(r *sweep.Record) bool {
		if mem, _ := r.Axes.Get("mem-fraction-static"); mem == "0.93" && r.Outcome != sweep.SkippedPreflight {
			v := r.Values
			v["forecast_kv_tokens"], v["forecast_kv_tokens_within"], v["forecast_kv_tokens_error"] = v["kv_tokens"]-9, 20, 9
			v["forecast_headroom_gib"], v["forecast_headroom_within_gib"], v["forecast_headroom_error_gib"] = v["headroom_gib"]+0.25, 0.4, -0.25
		}
		return true
	}
	return spec
}

// The report says how good a forecast was: in the table of what each takes, and in the picture of the memory's edge and its table.
func TestForecastIsShown(t *testing.T) {
	_, s := forecastNight().read(t)
	table := s.resourceTable(s.Sheets[0])
	text, _, err := table.terminal(0, false)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "off forecast") || !strings.Contains(text, "+0.0 % / −0.25") {
		t.Errorf("the table does not tell the forecast's error:\n%s", text)
	}
	e, ok := s.edge()
	if !ok {
		t.Fatal("no edge")
	}
	seen := 0
	for _, p := range e.points {
		if hi, _ := p.config.Axes.Get("hicache-size"); p.tick != "0.93" || hi == "300" {
			if p.forecast() {
				t.Errorf("%s was never forecast", p.config.Key)
			}
			continue
		}
		seen++
		near(t, "forecast tokens", p.kvForecast.Value, p.kv-9, 1e-9)
		near(t, "forecast headroom", p.roomForecast.Value, p.start+0.25, 1e-9)
		near(t, "its interval", p.roomForecast.Hi-p.roomForecast.Lo, 0.8, 1e-9)
	}
	if seen != 2 {
		t.Errorf("%d points at 0.93, want two", seen)
	}
	rows := 0
	for _, row := range s.edgeTable().Rows {
		if strings.HasSuffix(row[3], " ± 20") && strings.HasSuffix(row[5], " ± 0.40") {
			rows++
		}
	}
	if rows != 2 {
		t.Errorf("%d lines of the picture's table have the forecast", rows)
	}
	svg, err := renderSVG(pictured(t, s, "memory-edge"))
	if err != nil {
		t.Fatal(err)
	}
	_, without := kimi(1).read(t)
	plain, err := renderSVG(pictured(t, without, "memory-edge"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(svg), "Diamond and bar") || strings.Contains(string(plain), "Diamond") || strings.Count(string(svg), "<path") < strings.Count(string(plain), "<path")+4 {
		t.Error("the picture does not show what was forecast")
	}
}

// A launch that was skipped for its forecast still stands in the picture, at what was forecast.
func TestForecastOfSkipped(t *testing.T) {
	spec := forecastNight()
	edit := spec.edit
	spec.edit = func(r *sweep.Record) bool {
		edit(r)
		if mem, _ := r.Axes.Get("mem-fraction-static"); mem == "0.93" {
			for _, k := range []string{"kv_tokens", "headroom_gib", "output_throughput", "forecast_kv_tokens_error", "forecast_headroom_error_gib"} {
				delete(r.Values, k)
			}
			r.Ending = sweep.Ending{Outcome: sweep.SkippedPreflight, Detail: "the forecast leaves less than asked"}
		}
		return true
	}
	_, s := spec.read(t)
	e, ok := s.edge()
	if !ok {
		t.Fatal("no edge")
	}
	skipped := 0
	for _, p := range e.points {
		if p.tick == "0.93" && math.IsNaN(p.kv) && p.forecast() {
			skipped++
		}
	}
	if skipped != 2 {
		t.Errorf("%d points that were only forecast, want two", skipped)
	}
	pictured(t, s, "memory-edge")
}

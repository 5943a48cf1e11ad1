package report

import (
	"math"
	"strings"
	"testing"

	"sweep/sweep"
)

// factors is a night in which mem 0.88 brings 30 %, hicache 48 brings 5 %, and both together 2 % more; 64 in flight run 20 % faster
// than 32, but the baseline is saturated at 32. start is what a fresh start of the server deviates by.
func factors(repeats int, start func(r *sweep.Record) float64) nightSpec {
	return nightSpec{
		name: "factors", repeats: repeats, plan: true, drift: true,
		axes:  []sweep.Axis{axis("mem", "0.85", "0.88"), axis("hicache", "off", "48")},
		loads: []sweep.Load{load("w", "x", 32), load("w", "x", 64)},
		edit: func(r *sweep.Record) bool {
			mem, _ := r.Axes.Get("mem")
			hi, _ := r.Axes.Get("hicache")
			v := 1000.0
			if mem == "0.88" {
				v *= 1.30
			}
			if hi == "48" {
				v *= 1.05
			}
			if mem == "0.88" && hi == "48" {
				v *= 1.02
			}
			if r.Load.Concurrency() == 64 {
				if mem == "0.85" {
					v *= 0.97
				} else {
					v *= 1.20
				}
			}
			r.Values["output_throughput"] = v * start(r)
			return true
		},
	}
}

func exact(*sweep.Record) float64 { return 1 }

// jitter differs by repeat and config, a little around 1.
func jitter(r *sweep.Record) float64 {
	return 1 + 0.004*math.Sin(float64(7*r.Repeat+3*len(r.Config)+11*int(r.Role[0])))
}

func TestGainIsSplit(t *testing.T) {
	_, s := factors(3, exact).read(t)
	g := s.Sheets[0].Gain
	if g == nil || g.Unknown != "" || len(g.Axes) != 2 || !g.OtherLoad {
		t.Fatalf("gain %+v", g)
	}
	// At 64 the settings bring 1.30·1.05·1.02·(1.20/0.97); the baseline's own best is at 32, and 64 costs it 3 %.
	total := 1.30 * 1.05 * 1.02 * 1.20
	near(t, "total", g.Total.Change, total-1, 1e-9)
	near(t, "other load", g.Load.Change, 0.97-1, 1e-9)
	near(t, "equal load", g.Equal.Change, total/0.97-1, 1e-9)
	// Each axis has half of what both bring together only.
	near(t, "mem", g.Axes[0].Change, 1.30*1.20/0.97*math.Sqrt(1.02)-1, 1e-9)
	near(t, "hicache", g.Axes[1].Change, 1.05*math.Sqrt(1.02)-1, 1e-9)
	product := (1 + g.Axes[0].Change) * (1 + g.Axes[1].Change) * (1 + g.Load.Change)
	near(t, "product of the parts", product, 1+g.Total.Change, 1e-9)
	want := "Of +67.1 % against the baseline's own best (at 32): mem 0.85 → 0.88 +62.4 %; hicache off → 48 +6.0 %; another load, 32 → 64 in flight, −3.0 %."
	if got := s.gainLine(s.Sheets[0]); got != want {
		t.Errorf("gain line\n%s, want\n%s", got, want)
	}
}

func TestGainNeedsTheCellsBetween(t *testing.T) {
	spec := factors(2, jitter)
	edit := spec.edit
	spec.edit = func(r *sweep.Record) bool {
		edit(r)
		return r.Config != "mem=0.85,hicache=48"
	}
	_, s := spec.read(t)
	g := s.Sheets[0].Gain
	if g == nil || len(g.Axes) != 0 || g.Unknown != "mem 0.85, hicache 48 was not measured at 64" {
		t.Fatalf("gain %+v", g)
	}
	if line := s.gainLine(s.Sheets[0]); !strings.Contains(line, "all settings together") {
		t.Errorf("gain line %q", line)
	}
}

func TestAxisEffects(t *testing.T) {
	_, s := factors(3, jitter).read(t)
	list := s.Sheets[0].Effects
	if len(list) != 2 {
		t.Fatalf("effects %+v", list)
	}
	mem := list[0]
	if mem.Axis != "mem" || mem.Value != "0.88" || mem.Against != "0.85" || mem.Pairs != 2 || !mem.Known || !mem.Sure {
		t.Errorf("effect of mem %+v", mem)
	}
	want := math.Sqrt(1.30*1.30*1.2/0.97) * math.Sqrt(1.02) // mean over both loads, and both values of hicache
	near(t, "effect of mem", mem.Change, want-1, 0.01)
	if mem.Lo > mem.Change || mem.Hi < mem.Change || mem.Interval.Lo > mem.Change || mem.Interval.Hi < mem.Change {
		t.Errorf("the effect lies outside its ranges: %+v", mem)
	}
}

func TestDriftAgainstNoise(t *testing.T) {
	for _, tt := range []struct {
		by   float64
		want string
	}{{1, "That is within the noise."}, {0.95, "That is more than noise"}} {
		_, s := factors(3, func(r *sweep.Record) float64 {
			v := jitter(r)
			if r.Role == sweep.RoleDrift {
				v *= tt.by
			}
			return v
		}).read(t)
		if line := s.driftLine(); !strings.Contains(line, tt.want) {
			t.Errorf("drift by %g: %q", tt.by, line)
		}
	}
}

func TestOneRepeatHasNoVerdicts(t *testing.T) {
	_, s := factors(1, exact).read(t)
	sheet := s.Sheets[0]
	for _, row := range sheet.Rows {
		for _, q := range row.Squares {
			if v := sheet.AgainstBase(q); v.Known || v.Word() != "" {
				t.Errorf("a verdict from one repeat: %+v", v)
			}
		}
	}
	text := tableText(t, s, Options{})
	for _, bad := range []string{"~", "±", "noise here", "ties"} {
		if strings.Contains(text, bad) {
			t.Errorf("one repeat, and the report says %q:\n%s", bad, text)
		}
	}
	if !strings.Contains(text, "1 repeat: no noise estimate") || !strings.Contains(text, "+67.1 %") {
		t.Errorf("the values are not shown:\n%s", text)
	}
}

// A verdict is shown as "~" where the repeats do not tell a config from the baseline.
func TestTildeInTheTable(t *testing.T) {
	_, s := nightSpec{
		name: "twins", repeats: 3, plan: true, axes: []sweep.Axis{axis("twin", "a", "b", "c")}, loads: []sweep.Load{load("w", "x", 8)},
		edit: func(r *sweep.Record) bool {
			v := 1000 * jitter(r)
			if r.Config == "twin=c" {
				v *= 1.2
			}
			r.Values["output_throughput"] = v
			return true
		},
	}.read(t)
	sheet := s.Sheets[0]
	if a, b := sheet.AgainstBase(sheet.Rows[1].Squares[0]), sheet.AgainstBase(sheet.Rows[2].Squares[0]); a.Word() != "~" || b.Word() != "better" {
		t.Errorf("b is %q, c is %q against a", a.Word(), b.Word())
	}
	if got := sheet.changeText(sheet.Rows[1].Squares[0]); got != "~" {
		t.Errorf("the table shows %q", got)
	}
	if title := s.curvesTitle(sheet); title != "w: twin c brings +20.0 % over the baseline" {
		t.Errorf("title %q", title)
	}
	sheet.Ties, sheet.againstBase = nil, nil
	if title := s.curvesTitle(sheet); title != "w: output throughput by requests in flight" {
		t.Errorf("without proof the title is %q", title)
	}
}

// A median is never that of survivors alone.
func TestMedianCountsDeaths(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []float64
		dead   int
		metric string
		want   float64
		ok     bool
	}{
		{"none died", []float64{1, 2, 9}, 0, "output_throughput", 2, true},
		{"one of three died", []float64{9, 2}, 1, "output_throughput", 2, true},
		{"one of three died: the larger latency", []float64{9, 2}, 1, "p99_ttft_ms", 9, true},
		{"two of three died", []float64{9}, 2, "output_throughput", 0, false},
		{"one of two died", []float64{9}, 1, "output_throughput", 0, false},
		{"one of four died", []float64{9, 4, 2}, 1, "output_throughput", 3, true},
		{"no direction", []float64{9, 4, 2}, 1, "token_usage", 0, false},
		{"a fact of the launch", []float64{5, 5}, 1, "kv_tokens", 5, true},
	} {
		q := &Square{}
		for _, v := range tt.values {
			q.Records = append(q.Records, sweep.Record{Ending: sweep.Ending{Outcome: sweep.OK}, Values: sweep.Values{tt.metric: v}})
		}
		for range tt.dead {
			q.Records = append(q.Records, sweep.Record{Ending: sweep.Ending{Outcome: sweep.OOMPrefill}})
		}
		if got, ok := q.Median(metric(tt.metric)); got != tt.want || ok != tt.ok {
			t.Errorf("%s: %g, %v, want %g, %v", tt.name, got, ok, tt.want, tt.ok)
		}
	}
}

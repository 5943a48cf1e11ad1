package report

import (
	"strings"
	"testing"

	"sweep/sweep"
)

// race is a night of three configs at two loads; c is the fastest, then b, then a.
func race(edit func(r *sweep.Record)) nightSpec {
	return nightSpec{
		name: "race", repeats: 3, plan: true, loads: []sweep.Load{load("w", "x", 8), load("w", "x", 16), load("other", "x", 4)},
		axes: []sweep.Axis{axis("setting", "a", "b", "c")},
		edit: func(r *sweep.Record) bool {
			if r.Outcome == sweep.OK {
				v, _ := r.Axes.Get("setting")
				r.Values["output_throughput"] = map[string]float64{"a": 100, "b": 200, "c": 300}[v] * float64(r.Load.Concurrency()) * (1 + 0.01*float64(r.Repeat))
			}
			edit(r)
			return true
		},
	}
}

func TestWhoIsBest(t *testing.T) {
	fail := func(r *sweep.Record, o sweep.Outcome) {
		r.Outcome = o
		delete(r.Values, "output_throughput")
	}
	at := func(r *sweep.Record, setting string, level, repeat int) bool {
		v, _ := r.Axes.Get("setting")
		return v == setting && r.Load.Concurrency() == level && (repeat == 0 || r.Repeat == repeat)
	}
	tests := []struct {
		name string
		edit func(r *sweep.Record)
		best string
		load int
	}{
		{"the fastest", func(*sweep.Record) {}, "c", 16},
		{"died at the higher load", func(r *sweep.Record) {
			if at(r, "c", 16, 0) {
				fail(r, sweep.OOMPrefill)
			}
		}, "b", 16},
		{"died in one repeat of three", func(r *sweep.Record) {
			if at(r, "c", 8, 2) {
				fail(r, sweep.OOMDecode)
			}
		}, "b", 16},
		{"died in another workload", func(r *sweep.Record) {
			if at(r, "c", 4, 3) {
				fail(r, sweep.CrashLoad)
			}
		}, "b", 16},
		{"not acceptable", func(*sweep.Record) {}, "b", 16},
		{"client-bound at the higher load", func(r *sweep.Record) {
			if at(r, "c", 16, 0) {
				r.Outcome = sweep.ClientBound // its number is there, and must not count
			}
		}, "b", 16},
		{"verdict client_bound", func(r *sweep.Record) {
			if at(r, "c", 16, 0) || at(r, "c", 8, 0) {
				r.Verdict = "client_bound"
			}
		}, "b", 16},
		{"withheld", func(r *sweep.Record) {
			if at(r, "c", 16, 0) || at(r, "c", 8, 0) {
				r.Notes = append(r.Notes, "withheld: a stranger used the GPU")
			}
		}, "b", 16},
		{"answers that look wrong after the last load of one repeat", func(r *sweep.Record) {
			if at(r, "c", 4, 3) {
				r.Notes = append(r.Notes, "output_suspect: 5 of 5 greedy answers are empty or one token again and again (after the last load): \"\"")
			}
		}, "b", 16},
		{"labelled off and in effect on", func(r *sweep.Record) {
			if v, _ := r.Axes.Get("setting"); v == "c" {
				r.Notes = append(r.Notes, "mislabelled: hicache-size is off here, but in effect on: this is the number of another config")
			}
		}, "b", 16},
		{"hicache_inert", func(r *sweep.Record) {
			if v, _ := r.Axes.Get("setting"); v == "c" {
				r.Notes = append(r.Notes, "hicache_inert: no prompt token came from the host's cache: the workload's prompts share nothing")
			}
		}, "b", 16},
		{"hicache inert", func(r *sweep.Record) {
			if v, _ := r.Axes.Get("setting"); v == "c" {
				r.Notes = append(r.Notes, "hicache inert: no host hits")
			}
		}, "b", 16},
		{"host cache never used", func(r *sweep.Record) {
			if v, _ := r.Axes.Get("setting"); v == "c" {
				r.Values["host_pool_tokens"], r.Values["cached_tokens_host"], r.Values["load_back_tokens"] = 5000, 0, 0
			}
		}, "b", 16},
		{"host cache used", func(r *sweep.Record) {
			r.Values["host_pool_tokens"], r.Values["cached_tokens_host"] = 5000, 12
		}, "c", 16},
		{"too few requests in one repeat to judge the service level", func(r *sweep.Record) {
			if r.Values["slo_met"] = 1; at(r, "c", 16, 1) {
				delete(r.Values, "slo_met")
			}
		}, "b", 16},
		{"lost machine is not the config's fault", func(r *sweep.Record) {
			if at(r, "c", 8, 0) {
				fail(r, sweep.InfraLost)
			}
		}, "c", 16},
		{"service level only at the lower load", func(r *sweep.Record) {
			r.Values["slo_met"] = 1
			if at(r, "c", 16, 1) || at(r, "b", 16, 1) {
				r.Values["slo_met"] = 0
			}
		}, "c", 8},
		{"no load meets the service level", func(r *sweep.Record) { r.Values["slo_met"] = 0 }, "", 0},
		{"nothing measured", func(r *sweep.Record) { fail(r, sweep.BadModel) }, "", 0},
	}
	for _, tt := range tests {
		spec := race(tt.edit)
		if tt.name == "not acceptable" {
			spec.configs = func(all []sweep.Config) []sweep.Config {
				all[2].Unacceptable = "quality"
				return all
			}
		}
		_, s := spec.read(t)
		sheet := s.Sheets[0]
		got, level := "", 0
		if sheet.Best != nil {
			got, _ = sheet.Best.Config.Axes.Get("setting")
			level = sheet.Best.Best.Load.Concurrency()
		}
		if got != tt.best || level != tt.load {
			t.Errorf("%s: best is %q at %d, want %q at %d", tt.name, got, level, tt.best, tt.load)
		}
		if text := tableText(t, s, Options{}); tt.best == "" && !strings.Contains(text, "No config can be named best") {
			t.Errorf("%s: the table does not say that nothing is best:\n%s", tt.name, text)
		}
	}
}

func tableText(t testing.TB, s *Summary, opts Options) string {
	t.Helper()
	var b strings.Builder
	if err := WriteTable(&b, s, opts); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestRepeatsInTheTable(t *testing.T) {
	_, s := race(func(r *sweep.Record) {
		if v, _ := r.Axes.Get("setting"); v == "c" && r.Load.Concurrency() == 16 && r.Repeat == 2 {
			r.Ending = sweep.Ending{Outcome: sweep.OOMPrefill, Phase: sweep.PhaseLoad, Detail: "12 MiB short"}
			delete(r.Values, "output_throughput")
		}
	}).read(t)
	text := tableText(t, s, Options{})
	for _, want := range []string{
		"4,848 (2/3)",               // c died once: the median of 4,944, 4,848 and a death
		"OOM prefill @16 (1/3) [1]", // in the table of configs
		"[1] oom.prefill in phase load: 12 MiB short",
		"3,264 (3)", // b: the median of three
		"±1.3 %",
		"Median of 3 repeats; with 95 % confidence 3,222–3,307.",
		"+100.0 % (+96.4 to +103.7) against the baseline at the same load.",
		"Differences below 1.9 % are noise here",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the table does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "no noise estimate") {
		t.Error("three repeats are said to give no noise estimate")
	}
}

func TestTies(t *testing.T) {
	near := race(func(r *sweep.Record) {
		if v, _ := r.Axes.Get("setting"); v == "b" && r.Outcome == sweep.OK {
			r.Values["output_throughput"] *= 300.0 / 200 * 0.995
		}
	})
	_, s := near.read(t)
	if text := tableText(t, s, Options{}); !strings.Contains(text, "Not told apart from it (~): setting b.") {
		t.Errorf("the tie of b and c is not said:\n%s", text)
	}
	_, s = race(func(*sweep.Record) {}).read(t)
	if r := s.Sheets[0].Ties; len(r) != 0 {
		t.Errorf("ties %v with a best that is 50 %% ahead", r)
	}
	if text := tableText(t, s, Options{}); !strings.Contains(text, "No other config ties with it.") {
		t.Errorf("that none ties is not said:\n%s", text)
	}
}

func TestDrift(t *testing.T) {
	spec := race(func(r *sweep.Record) {
		if r.Role == sweep.RoleDrift {
			r.Values["output_throughput"] *= 1.004
		}
	})
	spec.drift, spec.repeats, spec.loads = true, 1, spec.loads[:1]
	_, s := spec.read(t)
	if got, want := s.driftLine(), "The baseline drifted +0.4 % over the repeat, from 808 to 811 tok/s. A gain below 0.4 % is not told apart from drift: the candidate's +200.0 % is larger."; got != want {
		t.Errorf("drift line %q, want %q", got, want)
	}
	if len(s.Sheets[0].Rows) != 3 {
		t.Errorf("%d rows: a drift check is no config of its own", len(s.Sheets[0].Rows))
	}
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		in   []float64
		want float64
		ok   bool
	}{{nil, 0, false}, {[]float64{3}, 3, true}, {[]float64{4, 1}, 2.5, true}, {[]float64{9, 1, 2}, 2, true}} {
		if got, ok := medianOf(tt.in); got != tt.want || ok != tt.ok {
			t.Errorf("medianOf(%v) = %g, %v", tt.in, got, ok)
		}
	}
}

// What stands off the frontier says which of the reasons it has; a config that served every load is said to have died nowhere.
func TestFrontierSaysWhyNot(t *testing.T) {
	is := func(r *sweep.Record, mem, cache string, level int) bool {
		m, _ := r.Axes.Get("mem-fraction-static")
		h, _ := r.Axes.Get("hicache-size")
		return m == mem && h == cache && r.Load.Concurrency() == level
	}
	spec := nightSpec{
		name: "frontier", repeats: 1, plan: true, loads: ladder(8, 16),
		axes: []sweep.Axis{axis("mem-fraction-static", "0.80", "0.86", "0.95"), axis("hicache-size", "off", "16")},
		configs: func(all []sweep.Config) []sweep.Config {
			all[4].Unacceptable = "quality" // 0.95, off
			return all
		},
		edit: func(r *sweep.Record) bool {
			switch {
			case is(r, "0.86", "16", 8): // its lowest load had no need of the cache
				r.Notes = append(r.Notes, "hicache_inert: no prompt token came from the host's cache")
			case is(r, "0.95", "16", 16):
				r.Ending, r.Values = sweep.Ending{Outcome: sweep.OOMPrefill, Phase: sweep.PhaseLoad}, sweep.Values{}
			case is(r, "0.80", "16", 16):
				r.Notes = append(r.Notes, "output_suspect: 5 of 5 answers are empty")
			}
			return true
		},
	}
	_, s := spec.read(t)
	points, _ := s.paretoPoints(s.Sheets[0])
	got := map[string]string{}
	for _, p := range points {
		got[s.Night.curveLabel(p.row.Config, "")+" @"+p.square.Load.LevelText()] = p.why
		if p.frontier && p.ban != "" {
			t.Errorf("%s is on the frontier", p.why)
		}
	}
	for cell, want := range map[string]string{
		"mem 0.80 · hicache off @8": "", "mem 0.80 · hicache off @16": "", "mem 0.86 · hicache off @8": "", "mem 0.86 · hicache 16 @16": "",
		"mem 0.86 · hicache 16 @8":  "host cache not used at this load",
		"mem 0.95 · hicache 16 @8":  "died under some load: OOM prefill in chat @16",
		"mem 0.95 · hicache off @8": "not acceptable: quality", "mem 0.95 · hicache off @16": "not acceptable: quality",
		"mem 0.80 · hicache 16 @8": "not trusted: output_suspect: 5 of 5 answers are empty",
	} {
		if why, ok := got[cell]; !ok || why != want {
			t.Errorf("%s: %q (there: %v), want %q", cell, why, ok, want)
		}
	}
	for _, p := range problems(s.pareto(s.Sheets[0])) { // the legend has six marks
		t.Error(p)
	}
}

// The tables that compare say at which loads: of a config that died, its best load is not that of the others.
func TestTablesNameTheirLoads(t *testing.T) {
	_, s := kimi(1).read(t)
	for i, want := range []string{"What each takes, at 150 in flight:", "What each takes, each at its own best load, not the same for all:"} {
		if got := s.resourceTitle(s.Sheets[i]); got != want {
			t.Errorf("%s: %q, want %q", s.Sheets[i].Workload, got, want)
		}
	}
	_, s = nights()["all-failed"].read(t)
	if got := s.resourceTitle(s.Sheets[0]); got != "What each took when it was ready:" {
		t.Errorf("nothing was measured: %q", got)
	}

	spec := nightSpec{
		name: "effects", repeats: 1, plan: true, loads: ladder(8, 16, 32), axes: []sweep.Axis{axis("mem-fraction-static", "0.80", "0.86", "0.95"), axis("hicache-size", "off", "16")},
		end: func(c sweep.Config, l sweep.Load, _ int) sweep.Ending {
			if mem, _ := c.Axes.Get("mem-fraction-static"); mem == "0.95" && l.Concurrency() > 8 {
				return sweep.Ending{Outcome: sweep.OOMPrefill, Phase: sweep.PhaseLoad}
			}
			return sweep.Ending{}
		},
		edit: func(r *sweep.Record) bool { return r.Config != "mem-fraction-static=0.95,hicache-size=16" },
	}
	_, s = spec.read(t)
	table := s.effectTable(s.Sheets[0])
	var heads []string
	for _, c := range table.columns {
		heads = append(heads, c.name())
	}
	if got := strings.Join(heads, "|"); got != "axis|value|against|output tok/s|least to most|pairs|loads, in flight" {
		t.Errorf("heads %s: with one repeat there is no interval", got)
	}
	for _, row := range table.rows {
		want := map[string]string{"0.86": "8, 16, 32", "0.95": "8", "16": "8, 16, 32"}[row[1]]
		if loads := row[6]; loads != want {
			t.Errorf("%s %s: loads %q, want %q", row[0], row[1], loads, want)
		}
		if alone := row[5] == "1"; alone != (row[4] == absent) || alone != (row[1] == "0.95") {
			t.Errorf("%s %s: %s pairs with the range %q", row[0], row[1], row[5], row[4])
		}
	}
	_, s = race(func(*sweep.Record) {}).read(t)
	table = s.effectTable(s.Sheets[0])
	if heads := table.columns; len(heads) != 7 || heads[4].name() != "95 % interval" {
		t.Errorf("three repeats of single pairs: %+v, want an interval and no range", heads)
	}
}

// Colour has one meaning: a config that died is in the colour of failures also where a lower load was served, and what was only left
// out is grey.
func TestTonesByMeaning(t *testing.T) {
	_, s := kimi(1).read(t)
	sheet := s.Sheets[1]
	table := s.summaryTable(sheet, sheet.Rows, &footnotes{}, View{})
	for i, row := range sheet.Rows {
		mem, _ := row.Config.Axes.Get("mem-fraction-static")
		cache, _ := row.Config.Axes.Get("hicache-size")
		want := plain
		switch {
		case row == sheet.Best:
			want = strong
		case cache == "300":
			want = soft // skipped by arithmetic
		case mem == "0.93":
			want = alarm // OOM at the higher load
		}
		if table.tones[i] != want {
			t.Errorf("%s: tone %d, want %d", row.Config.Key, table.tones[i], want)
		}
	}
	cells := s.detailBlocks(sheet, View{})[1].table
	tones := map[string]tone{"ok": plain, "OOM prefill": alarm, "skipped:": soft}
	for i, row := range cells.rows {
		for word, want := range tones {
			if strings.HasPrefix(row[len(row)-1], word) && cells.tones[i] != want && cells.tones[i] != strong {
				t.Errorf("%v: tone %d, want %d", row, cells.tones[i], want)
			}
		}
	}
	for outcome, want := range map[sweep.Outcome]string{
		sweep.OK: "", sweep.OOMPrefill: "alarm", sweep.CrashLoad: "alarm", sweep.HangLoad: "alarm", sweep.InfraLost: "alarm", sweep.ClientBound: "alarm",
		sweep.SkippedPreflight: "soft", sweep.SkippedImplied: "soft", sweep.SkippedDeadline: "soft", sweep.Aborted: "soft",
	} {
		if got := recordTone(sweep.Record{Ending: sweep.Ending{Outcome: outcome}}).class(); got != want {
			t.Errorf("%s: %q, want %q", outcome, got, want)
		}
	}
}

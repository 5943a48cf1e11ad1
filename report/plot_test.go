package report

import (
	"bytes"
	"flag"
	"fmt"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"

	"sweep/sweep"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestPicturesHoldTheirTexts(t *testing.T) {
	for name, spec := range nights() {
		t.Run(name, func(t *testing.T) {
			_, s := spec.read(t)
			drawn := 0
			for _, d := range s.drawings() {
				if d.skip != "" {
					continue
				}
				drawn++
				for _, p := range problems(d) {
					t.Errorf("%s: %s", d.Name, p)
				}
			}
			if drawn == 0 {
				t.Error("no picture was drawn")
			}
		})
	}
}

// The check itself must see an overlap and an escape, also of rotated text.
func TestProblemsAreSeen(t *testing.T) {
	paint := func(f func(c canvas)) []string {
		return problems(drawing{width: 100, height: 100, paint: f})
	}
	turned := style(9, ink, false)
	turned.Rotation = math.Pi / 2
	tests := []struct {
		name string
		f    func(c canvas)
		want string
	}{
		{"overlap", func(c canvas) {
			c.text(style(9, ink, false), 10, 50, "one")
			c.text(style(9, ink, false), 20, 52, "two")
		}, "overlap"},
		{"overlap of turned text", func(c canvas) {
			c.text(turned, 10, 10, "upwards and on")
			c.text(style(9, ink, false), 5, 40, "two")
		}, "overlap"},
		{"text outside", func(c canvas) { c.text(style(9, ink, false), 80, 50, "a long text") }, "outside the canvas"},
		{"line outside", func(c canvas) { c.line(ink, 1, nil, 0, 0, 120, 10) }, "lines outside"},
		{"fine", func(c canvas) {
			c.text(style(9, ink, false), 10, 50, "one")
			c.text(style(9, ink, false), 10, 70, "two")
		}, ""},
	}
	for _, tt := range tests {
		got := strings.Join(paint(tt.f), "; ")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: problems %q, want %q", tt.name, got, tt.want)
		}
	}
}

// pictured returns the drawing of that name.
func pictured(t *testing.T, s *Summary, name string) drawing {
	t.Helper()
	for _, d := range s.drawings() {
		if d.Name == name {
			return d
		}
	}
	t.Fatalf("no picture %s", name)
	return drawing{}
}

func TestPicturesShowFailures(t *testing.T) {
	_, s := kimi(2).read(t)
	texts, _ := record(pictured(t, s, "throughput-synth"))
	var all []string
	for _, b := range texts {
		all = append(all, b.text)
	}
	for _, want := range []string{
		"failed", "mem 0.93 · hicache 48: OOM prefill", "mem 0.88 · hicache 300: skipped: 8 × 300 GB > 449 GB",
		"mem 0.88 · hicache 48 (candidate)", "mem 0.85 · hicache off (base)", "fp8 (not acceptable: quality)", "64", "182",
	} {
		if !strings.Contains(strings.Join(all, "\n"), want) {
			t.Errorf("curves do not say %q; texts: %q", want, all)
		}
	}
	if n := crosses(pictured(t, s, "throughput-synth")); n != 2 {
		t.Errorf("%d red crosses, want 2: both configs at 0.93 died at 182", n)
	}
	texts, _ = record(pictured(t, s, "heatmap-synth"))
	counts := map[string]int{}
	for _, b := range texts {
		counts[b.text]++
	}
	if counts["OOM prefill"] != 2 || counts["skipped"] != 2 || counts["not run"] != 1 {
		t.Errorf("map shows %d OOM prefill, %d skipped, %d not run; want 2, 2, 1", counts["OOM prefill"], counts["skipped"], counts["not run"])
	}
}

// crosses counts the failure marks: pairs of strokes in the red that is theirs alone.
func crosses(d drawing) int {
	var rec recorder.Canvas
	d.paint(canvas{draw.NewCanvas(&rec, d.width, d.height)})
	n, red := 0, false
	for _, action := range rec.Actions {
		switch a := action.(type) {
		case *recorder.SetColor:
			red = a.Color == bad
		case *recorder.Stroke:
			if red {
				n++
			}
		}
	}
	return n / 2
}

func TestErrorBarsNeedRepeats(t *testing.T) {
	strokes := func(repeats int) (n int) {
		spec := kimi(repeats)
		_, s := spec.read(t)
		var rec recorder.Canvas
		d := pictured(t, s, "throughput-synth")
		d.paint(canvas{draw.NewCanvas(&rec, d.width, d.height)})
		for _, a := range rec.Actions {
			if _, ok := a.(*recorder.Stroke); ok {
				n++
			}
		}
		return n
	}
	points := 2*5 + 2 // measured cells of synth: five configs at two loads, two at one
	if one, two := strokes(1), strokes(2); two-one != 3*points {
		t.Errorf("two repeats draw %d strokes more than one, want %d: three for each bar", two-one, 3*points)
	}
}

func TestSVGGolden(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("coordinates are rounded otherwise where products and sums are fused")
	}
	_, s := kimi(2).read(t)
	for _, name := range []string{"throughput-synth", "heatmap-synth", "latency-synth", "knee-synth", "pareto-synth", "memory-edge"} {
		got, err := renderSVG(pictured(t, s, name))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(got, []byte("font-family:Liberation")) || !bytes.Contains(got, []byte("'Liberation Sans',Arial,Helvetica,sans-serif")) {
			t.Errorf("%s: texts have no fallback font", name)
		}
		golden(t, name+".svg", got)
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from what was drawn; look at it, and if it is right run this test with -update", path)
		if name[len(name)-3:] != "svg" {
			t.Logf("got:\n%s", got)
		}
	}
}

func TestPNG(t *testing.T) {
	_, s := nights()["two"].read(t)
	data, err := paintPNG(pictured(t, s, "throughput"))()
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if size := img.Bounds().Size(); size.X != 1500 || size.Y != 920 {
		t.Errorf("picture of %v dots, want 1500 × 920: 7.5 × 4.6 inches at 200", size)
	}
}

func TestSpread(t *testing.T) {
	tests := []struct {
		name    string
		at      []vg.Length
		gap     vg.Length
		lo, hi  vg.Length
		want    []vg.Length
		inOrder bool
	}{
		{"far apart", []vg.Length{10, 50, 90}, 10, 0, 100, []vg.Length{10, 50, 90}, true},
		{"two at one place", []vg.Length{50, 50}, 10, 0, 100, []vg.Length{45, 55}, true},
		{"at the top", []vg.Length{99, 100}, 10, 0, 100, []vg.Length{90, 100}, true},
		{"at the bottom", []vg.Length{0, 0, 0}, 10, 0, 100, []vg.Length{0, 10, 20}, true},
		{"not sorted", []vg.Length{80, 10}, 10, 0, 100, []vg.Length{80, 10}, false},
		{"none", nil, 10, 0, 100, []vg.Length{}, true},
	}
	for _, tt := range tests {
		got := spread(tt.at, tt.gap, tt.lo, tt.hi)
		if fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestNiceTicks(t *testing.T) {
	tests := []struct {
		top  float64
		want string
	}{
		{1347, "0 250 500 750 1,000 1,250"},
		{0.9, "0.0 0.2 0.4 0.6 0.8"},
		{5, "0 1 2 3 4 5"},
		{41.3, "0 10 20 30 40"},
		{0, ""},
	}
	for _, tt := range tests {
		ticks, end := niceTicks(tt.top, 5)
		var labels []string
		for _, tk := range ticks {
			labels = append(labels, tk.label)
			if tk.value > end {
				t.Errorf("%g: tick %g above the axis's end %g", tt.top, tk.value, end)
			}
		}
		if got := strings.Join(labels, " "); got != tt.want || end < tt.top {
			t.Errorf("niceTicks(%g) = %q to %g, want %q", tt.top, got, end, tt.want)
		}
	}
}

// A load whose number is withheld is no failure of its config: no red cross, no hatching, and its death
// under another load is what the words tell.
func TestWithheldIsNoFailure(t *testing.T) {
	_, s := race(func(r *sweep.Record) {
		v, _ := r.Axes.Get("setting")
		switch {
		case r.Load.Workload != "w":
		case v == "b":
			r.Outcome, r.Phase = sweep.ClientBound, sweep.PhaseLoad
		case v == "c" && r.Load.Concurrency() == 8:
			r.Outcome, r.Phase = sweep.ClientBound, sweep.PhaseLoad
		case v == "c":
			r.Outcome, r.Phase = sweep.OOMDecode, sweep.PhaseLoad
		}
	}).read(t)
	if n := crosses(pictured(t, s, "throughput-w")); n != 1 {
		t.Errorf("%d red crosses, want 1: c at 16", n)
	}
	texts, _ := record(pictured(t, s, "throughput-w"))
	var all []string
	for _, b := range texts {
		all = append(all, b.text)
	}
	for _, want := range []string{"setting b: client-bound", "setting c: OOM decode"} {
		if !slices.Contains(all, want) {
			t.Errorf("the lane does not say %q; texts: %q", want, all)
		}
	}
	var rec recorder.Canvas
	d := pictured(t, s, "heatmap-w")
	d.paint(canvas{draw.NewCanvas(&rec, d.width, d.height)})
	var red strings.Builder
	var color any
	for _, action := range rec.Actions {
		switch a := action.(type) {
		case *recorder.SetColor:
			color = a.Color
		case *recorder.FillString:
			if color == bad {
				red.WriteString(a.String + ";")
			}
		}
	}
	if red.String() != "OOM decode;" {
		t.Errorf("red in the map: %q, want only the config that died", red.String())
	}
}

// Labels are read as text: each colour of a line has a dark enough one for its name.
func TestReadable(t *testing.T) {
	for _, c := range hues() {
		if d := readable(c); 1.05/(luminance(d)+0.05) < 4.5 {
			t.Errorf("%v on white: contrast %.1f", d, 1.05/(luminance(d)+0.05))
		}
	}
	if blue := hues()[0]; readable(blue) != blue {
		t.Error("a colour that can be read is changed")
	}
}

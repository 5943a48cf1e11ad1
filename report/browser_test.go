package report

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sweep/report/browsertest"
	"sweep/sweep"
)

// writePage writes a night's page and returns its path.
func writePage(t *testing.T, s *Summary) string {
	t.Helper()
	var b bytes.Buffer
	if err := WritePage(&b, s, PageOptions{Version: "test"}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "index.html")
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPageInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a browser")
	}
	browser := browsertest.Start(t)
	t.Run("controls", func(t *testing.T) { testControls(t, browser) })
	t.Run("wide tables", func(t *testing.T) { testWideTables(t, browser) })
	t.Run("every outcome", func(t *testing.T) { testEveryOutcome(t, browser) })
	t.Run("hostile", func(t *testing.T) { testHostilePage(t, browser) })
	t.Run("large", func(t *testing.T) { testLargePage(t, browser) })
	t.Run("shapes", func(t *testing.T) {
		for _, name := range []string{"one-cell", "all-failed", "empty", "unfinished", "twins"} {
			_, s := nights()[name].read(t)
			p := browsertest.Open(t, browser, writePage(t, s), "")
			p.Quiet()
			if name != "empty" {
				p.SameCells(s.Night.Dir)
			}
		}
	})
}

func testControls(t *testing.T, browser context.Context) {
	spec := kimi(2)
	spec.raw = true
	n, s := spec.read(t)
	path := writePage(t, s)
	p := browsertest.Open(t, browser, path, "")
	p.SameCells(n.Dir)
	for _, want := range []string{"Candidate: 1,347 tok/s", "No other config ties with it"} {
		if !strings.Contains(p.Text("#decision"), want) {
			t.Errorf("the decision does not say %q: %s", want, p.Text("#decision"))
		}
	}
	p.Shoot("light")

	// The map: each control changes what it shows.
	was := p.Text("#map-view")
	change := func(id, value string) {
		t.Helper()
		p.Choose(id, value)
		now := p.Text("#map-view")
		if now == was {
			t.Errorf("%s = %s changes nothing on the map", id, value)
		}
		was = now
	}
	change("c-w", "synth")
	if p.Count("#map-view td.failed") != 4 || p.Count("#map-view td.best") != 1 {
		t.Errorf("%d failed and %d framed squares on the map of synth, want the 2 that were skipped, the 2 that died, and 1", p.Count("#map-view td.failed"), p.Count("#map-view td.best"))
	}
	if p.Count("#map-view td.failed.left") != 2 || p.Count("#configs tr.soft") != 4 || p.Count("#configs tr.alarm") != 2 || p.Count("#cells tr.soft") != 16 {
		t.Errorf("grey are %d squares, %d configs and %d runs, and %d configs are red; want the skipped 2, 4 and 16, and the 2 that died",
			p.Count("#map-view td.failed.left"), p.Count("#configs tr.soft"), p.Count("#cells tr.soft"), p.Count("#configs tr.alarm"))
	}
	change("c-m", "kv_tokens")
	change("c-r", "hicache-size")
	change("c-c", "concurrency")
	change("c-c", "mem-fraction-static")
	change("c-l", "synth,short=150,long=32")
	p.Choose("c-m", "output_throughput")
	if n := p.Count("#map-view td.failed"); n != 4 {
		t.Errorf("%d failed squares at 182, want 4", n)
	}

	// Curves and frontier.
	if title := browsertest.Eval[string](p, `__sweep.charts.curves.root.querySelector(".u-title").textContent`); !strings.Contains(title, "tok/s") {
		t.Errorf("the chart is titled %q", title)
	}
	p.Choose("c-cm", "queued")
	if !strings.Contains(browsertest.Eval[string](p, `__sweep.charts.curves.root.querySelector(".u-title").textContent`), "queued") {
		t.Error("the metric of the curves does not change")
	}
	shown := browsertest.Eval[bool](p, `(() => { const u = __sweep.charts.curves; u.root.querySelectorAll(".u-legend .u-series th")[1].click(); return u.series[1].show; })()`)
	if shown {
		t.Error("a click on the legend does not hide a line")
	}
	if p.Count("#curves-table tbody tr") != 9 || p.Count("#frontier-table tbody tr") == 0 {
		t.Error("curves or frontier have no table")
	}
	if on := browsertest.Eval[int](p, `__sweep.data.sheets[1].frontier.filter((q) => q.on).length`); on == 0 {
		t.Error("nothing is on the frontier")
	}

	// Runs: filter, sort, one more column, open.
	all := p.Count("#cells tbody tr")
	browsertest.Eval[int](p, `(() => { const q = document.getElementById("c-q"); q.value = "oom prefill"; q.dispatchEvent(new Event("input")); return 0; })()`)
	if n := p.Count("#cells tbody tr"); n != 4 || p.Text("#runs-count") != fmt.Sprintf("4 of %d records.", all) {
		t.Errorf("%d rows hold the words; the count says %q", n, p.Text("#runs-count"))
	}
	browsertest.Eval[int](p, `(() => { const q = document.getElementById("c-q"); q.value = ""; q.dispatchEvent(new Event("input")); return 0; })()`)
	p.Choose("c-f.hicache-size", "48")
	if n := p.Count("#cells tbody tr"); n != 24 {
		t.Errorf("%d rows with hicache-size 48, want 24", n)
	}
	p.Choose("c-f.hicache-size", "")
	p.Choose("c-x", "client_server_ratio")
	sort := func() []float64 {
		browsertest.Eval[int](p, `(() => { [...document.querySelectorAll("#cells thead button")].find((b) => b.textContent.startsWith("tok/s")).click(); return 0; })()`)
		return browsertest.Eval[[]float64](p, `[...document.querySelectorAll('#cells td[data-key="output_throughput"][data-value]')].map((td) => Number(td.dataset.value))`)
	}
	if up := sort(); !slices.IsSorted(up) || len(up) < 30 {
		t.Errorf("%d values are not in rising order", len(up))
	}
	if down := sort(); down[0] < down[len(down)-1] {
		t.Error("a second click does not turn the order round")
	}
	if p.Count(`#cells th[aria-sort="descending"]`) != 1 {
		t.Error("the order is not told to a screen reader")
	}
	browsertest.Eval[int](p, `(() => { const tr = [...document.querySelectorAll("#cells tbody tr")].find((x) => x.dataset.cell.includes("mem-fraction-static=0.88,hicache-size=48/synth,short=150")); tr.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter"})); return 0; })()`)
	if n := browsertest.Eval[int](p, `Object.keys(__sweep.charts).filter((k) => k.startsWith("run.")).length`); n != 4 {
		t.Errorf("an open run has %d charts, want 4", n)
	}
	if !strings.Contains(p.Text("#run"), "ten batch means") || !strings.Contains(p.Text("#run"), "retraction") {
		t.Errorf("an open run does not tell its mean and its retractions: %s", p.Text("#run"))
	}
	p.Shoot("run")
	if p.Count("#figures-view img") < 6 || p.Count("#figures-view details") < 4 {
		t.Errorf("%d figures, %d of them as tables", p.Count("#figures-view img"), p.Count("#figures-view details"))
	}
	if broken := browsertest.Eval[int](p, `[...document.images].filter((i) => i.naturalWidth === 0).length`); broken > 0 {
		t.Errorf("%d figures are broken", broken)
	}
	browsertest.Eval[int](p, `(document.querySelector("button.copy").click(), 0)`)
	if sel := browsertest.Eval[string](p, `String(getSelection())`); !strings.Contains(sel, "sglang.launch_server") {
		t.Errorf("the copy button selects %q", sel)
	}
	hash := browsertest.Eval[string](p, `location.hash`)
	p.Quiet()

	// The view is in the address: opened anew, it is the same.
	p = browsertest.Open(t, browser, path, hash)
	if got := browsertest.Eval[string](p, `document.getElementById("c-w").value + document.getElementById("c-r").value`); got != "synthhicache-size" {
		t.Errorf("the view of the address is not taken up: %q", got)
	}
	if p.Count("#run:not([hidden])") != 1 {
		t.Error("the open run of the address is not taken up")
	}
	p.Media("", "dark")
	p.Shoot("dark")
	p.Media("print", "light")
	browsertest.Eval[int](p, `(dispatchEvent(new Event("beforeprint")), 0)`)
	if browsertest.Eval[string](p, `getComputedStyle(document.querySelector("nav")).display`) != "none" {
		t.Error("the navigation is printed")
	}
	const paper = 1047 // CSS pixels of A4 across without its margins
	p.Resize(paper, 740)
	browsertest.Eval[int](p, `(dispatchEvent(new Event("beforeprint")), 0)`)
	if wide := browsertest.Eval[int](p, `document.documentElement.scrollWidth`); wide > paper {
		t.Errorf("what is printed is %d wide, the paper %d: %s", wide, paper, browsertest.Eval[string](p,
			`[...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > 1047).map((e) => e.tagName + "#" + e.id + "." + e.className + " " + Math.round(e.getBoundingClientRect().right) + " " + e.textContent.slice(0, 40)).slice(0, 12).join("; ")`))
	}
	p.Shoot("print")
	p.Quiet()
}

// testWideTables: a table that is wider than the page scrolls in its own box, and the box shows it; heads stay low, and what is
// said between tables stands off from the one above.
func testWideTables(t *testing.T, browser context.Context) {
	_, s := kimi(2).read(t)
	p := browsertest.Open(t, browser, writePage(t, s), "")
	p.Resize(1280, 900)
	const heads = `[...document.querySelectorAll("#configs thead th")].map((th) => { const r = document.createRange(); r.selectNodeContents(th); return new Set([...r.getClientRects()].map((x) => Math.round(x.top))).size; })`
	if lines := browsertest.Eval[[]int](p, heads); len(lines) < 20 || slices.Max(lines) > 4 {
		t.Errorf("heads of up to %d lines", slices.Max(lines))
	}
	if gaps := browsertest.Eval[[]float64](p, `[...document.querySelectorAll("#configs .scroll + p")].map((e) => e.getBoundingClientRect().top - e.previousElementSibling.getBoundingClientRect().bottom)`); len(gaps) < 3 || slices.Min(gaps) < 16 {
		t.Errorf("between a table and the next title there are %v pixels", gaps)
	}
	p.Resize(600, 900)
	const box = `[...document.querySelectorAll("#configs .scroll")].filter((e) => e.scrollWidth > e.clientWidth)`
	wide := browsertest.Eval[int](p, box+`.length`)
	marked := browsertest.Eval[int](p, box+`.filter((e) => getComputedStyle(e).backgroundAttachment.includes("scroll") && getComputedStyle(e).backgroundImage.split("gradient").length > 4).length`)
	if wide < 4 || marked != wide {
		t.Errorf("%d tables are wider than a narrow page, %d of them show it", wide, marked)
	}
	p.Shoot("narrow")
	p.Quiet()
}

// testLargePage: 500 runs with timelines are one file below 2 MB.
func testLargePage(t *testing.T, browser context.Context) {
	var mems []string
	for i := range 25 {
		mems = append(mems, fmt.Sprintf("0.%02d", 70+i))
	}
	spec := nightSpec{
		name: "large", repeats: 2, plan: true, raw: true, loads: ladder(16, 32, 64, 128, 256),
		axes: []sweep.Axis{axis("mem-fraction-static", mems...), axis("hicache-size", "off", "48")},
	}
	n, s := spec.read(t)
	if len(n.Records) != 500 {
		t.Fatalf("%d records", len(n.Records))
	}
	path := writePage(t, s)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("page of 500 runs: %d KB", info.Size()>>10)
	if info.Size() > 2<<20 {
		t.Errorf("the page is %d bytes", info.Size())
	}
	p := browsertest.Open(t, browser, path, "")
	if rows := p.Count("#cells tbody tr"); rows != 500 {
		t.Errorf("%d rows", rows)
	}
	if runs := browsertest.Eval[int](p, `Object.keys(__sweep.data.timelines).length`); runs != 500 {
		t.Errorf("%d timelines", runs)
	}
	p.SameCells(n.Dir)
	p.Choose("c-f.mem-fraction-static", "0.80")
	p.Choose("c-f.hicache-size", "48")
	if rows := p.Count("#cells tbody tr"); rows != 10 {
		t.Errorf("%d rows with mem-fraction-static 0.80 and hicache-size 48, want 10", rows)
	}
	p.Quiet()
	p.Shoot("large")
}

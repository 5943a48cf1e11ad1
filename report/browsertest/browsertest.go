// Package browsertest opens a report's page in a headless Chromium, for tests: what the page asked for, what it said, what stands in it.
//
// The steps to use it:
//
//	browser := browsertest.Start(t)                        // skips the test where there is no Chromium
//	p := browsertest.Open(t, browser, "/tmp/index.html", "") // waits until the page is drawn
//	p.SameCells(night)                                     // its table of runs is the night's cells.jsonl
//	p.EveryControl()                                       // all that can be chosen is chosen once
//	p.Quiet()                                              // it asked for itself only, and nothing went wrong
package browsertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"sweep/sweep"
)

const cellsFile = "cells.jsonl"

// Start starts a headless Chromium, or skips the test where none is installed and SWEEP_BROWSER is not set.
func Start(t *testing.T) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil && path == "" {
			path = p
		}
	}
	if path == "" {
		if os.Getenv("SWEEP_BROWSER") != "" {
			t.Fatal("SWEEP_BROWSER is set, and there is no Chromium")
		}
		t.Skip("no Chromium on this machine")
	}
	opts := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(path), chromedp.Flag("no-sandbox", true), chromedp.Flag("disable-gpu", true), chromedp.Flag("user-data-dir", t.TempDir()),
		chromedp.Flag("disable-component-update", true))
	allocated, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, cancel := chromedp.NewContext(allocated)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits until the browser has ended
		cancel()
		stop()
	})
	return ctx
}

// Tab is one page that is open, with all that a page should not do.
type Tab struct {
	t    *testing.T
	ctx  context.Context
	mu   sync.Mutex
	asks []string // requests that left the page
	bad  []string // console errors, exceptions, dialogs
}

// Open opens a file and waits until its script has drawn everything.
func Open(t *testing.T, browser context.Context, path, hash string) *Tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	ctx, stop := context.WithTimeout(ctx, 5*time.Minute)
	p := &Tab{t: t, ctx: ctx}
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx)
		stop()
		cancel()
	})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(chromedp.Listen(ctx, p.note))
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	must(err)
	_, err = chromedp.Call(ctx, cdplog.Enable, cdp.Empty{})
	must(err)
	must(chromedp.Do(ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate("file://"+path+hash)))
	p.ready()
	return p
}

func (p *Tab) note(ev any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := ev.(type) {
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, "data:") {
			p.asks = append(p.asks, e.Request.URL)
		}
	case *runtime.EventExceptionThrown:
		p.bad = append(p.bad, "exception: "+e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		p.bad = append(p.bad, fmt.Sprintf("console.%s", e.Type))
	case *cdplog.EventEntryAdded:
		p.bad = append(p.bad, "log: "+e.Entry.Text)
	case *page.EventJavascriptDialogOpening:
		p.bad = append(p.bad, "dialog: "+e.Message)
	}
}

func (p *Tab) ready() {
	p.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		state := Eval[string](p, `document.body ? (document.body.dataset.ready || document.body.dataset.failed || "") : ""`)
		if state == "1" {
			return
		}
		if state != "" || time.Now().After(deadline) {
			p.t.Fatalf("the page is not ready: %q, %q", state, p.bad)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Eval runs a script in the page and gives its value.
func Eval[T any](p *Tab, js string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](js))
	if err != nil {
		p.t.Fatalf("%s: %v", js, err)
	}
	return v
}

// Quiet checks that the page asked for itself only and said nothing bad.
func (p *Tab) Quiet() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.asks) != 1 {
		p.t.Errorf("%d requests: %q, want one", len(p.asks), p.asks)
	}
	if len(p.bad) > 0 {
		p.t.Errorf("the page said: %q", p.bad)
	}
}

// Choose sets a select as a user does.
func (p *Tab) Choose(id, value string) {
	p.t.Helper()
	got := Eval[string](p, fmt.Sprintf(`(() => { const s = document.getElementById(%q); if (!s) return "no such control"; s.value = %q; s.dispatchEvent(new Event("change")); return s.value; })()`, id, value))
	if got != value {
		p.t.Errorf("control %s is %q, want %q", id, got, value)
	}
}

// Text is the text of the first element that a selector finds.
func (p *Tab) Text(selector string) string {
	p.t.Helper()
	return Eval[string](p, fmt.Sprintf(`(document.querySelector(%q) || {textContent: "(none)"}).textContent`, selector))
}

// Count is how many elements a selector finds.
func (p *Tab) Count(selector string) int {
	p.t.Helper()
	return Eval[int](p, fmt.Sprintf(`document.querySelectorAll(%q).length`, selector))
}

// Shoot takes a picture of the whole page, checks that it is no blank one, and keeps it under SWEEP_PICTURES.
func (p *Tab) Shoot(name string) {
	p.t.Helper()
	folder := os.Getenv("SWEEP_PICTURES")
	shot := chromedp.CaptureScreenshot()
	if folder != "" { // the whole page takes its time
		shot = chromedp.FullScreenshot(100)
	}
	data, err := chromedp.Run(p.ctx, shot)
	if err != nil {
		p.t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		p.t.Fatal(err)
	}
	colours := map[[3]uint32]bool{}
	for y := 0; y < img.Bounds().Dy(); y += 7 {
		for x := 0; x < img.Bounds().Dx(); x += 7 {
			r, g, b, _ := img.At(x, y).RGBA()
			colours[[3]uint32{r >> 8, g >> 8, b >> 8}] = true
		}
	}
	if len(colours) < 20 {
		p.t.Errorf("%s: a picture of %d colours is nearly blank", name, len(colours))
	}
	if folder != "" {
		if err := os.WriteFile(filepath.Join(folder, "page-"+name+".png"), data, 0o666); err != nil {
			p.t.Fatal(err)
		}
	}
}

// Resize gives the page another size, in CSS pixels.
func (p *Tab) Resize(width, height int64) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, chromedp.EmulateViewport(width, height)); err != nil {
		p.t.Fatal(err)
	}
}

// Media shows the page as in the dark, or as printed.
func (p *Tab) Media(kind, scheme string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Media: kind, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// SameCells checks the table of runs against cells.jsonl, line by line and value by value.
func (p *Tab) SameCells(dir string) {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, cellsFile))
	if err != nil {
		p.t.Fatal(err)
	}
	type row struct {
		Cell   string            `json:"cell"`
		Repeat string            `json:"repeat"`
		Values map[string]string `json:"values"`
	}
	rows := Eval[[]row](p, `[...document.querySelectorAll("#cells tbody tr")].map((tr) => ({cell: tr.dataset.cell, repeat: tr.dataset.repeat,
		values: Object.fromEntries([...tr.querySelectorAll("td[data-key]")].map((td) => [td.dataset.key, td.dataset.value || ""]))}))`)
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	if len(rows) != len(lines) {
		p.t.Fatalf("%d rows for %d lines of %s", len(rows), len(lines), cellsFile)
	}
	checked := 0
	for i, line := range lines {
		var want map[string]any
		if err := json.Unmarshal(line, &want); err != nil {
			p.t.Fatal(err)
		}
		if rows[i].Cell != sweep.Printable(want["cell"].(string)) || rows[i].Repeat != fmt.Sprint(want["repeat"]) {
			p.t.Errorf("row %d is %s, repeat %s; the line is %v, repeat %v", i, rows[i].Cell, rows[i].Repeat, want["cell"], want["repeat"])
		}
		for key, got := range rows[i].Values {
			text := ""
			v, ok := want[key].(float64)
			if ok {
				text = numberText(v)
				checked++
			}
			if shown, err := strconv.ParseFloat(got, 64); ok != (err == nil) || ok && shown != v {
				p.t.Errorf("%s, repeat %s: %s is %q, the line has %q", rows[i].Cell, rows[i].Repeat, key, got, text)
			}
		}
	}
	if checked == 0 {
		p.t.Error("no value was compared")
	}
}

// numberText writes a number as JSON does.
func numberText(v float64) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// EveryControl chooses every option of every list, sorts by every column both ways, filters, opens runs, hides lines, unfolds
// every table and presses every button. Each must leave the page with as many rows as before once it is taken back.
func (p *Tab) EveryControl() {
	p.t.Helper()
	rows := p.Count("#cells tbody tr")
	did := Eval[map[string]int](p, `(() => {
		const n = {options: 0, sorts: 0, runs: 0, lines: 0, details: 0, buttons: 0, links: 0};
		for (const id of [...document.querySelectorAll("select")].map((s) => s.id)) {
			const was = document.getElementById(id).value;
			for (const o of [...document.getElementById(id).options].map((o) => o.value).concat(was)) {
				const s = document.getElementById(id);
				if (!s || ![...s.options].some((x) => x.value === o)) continue; // another choice has changed the list
				s.value = o; s.dispatchEvent(new Event("change")); n.options++;
			}
		}
		const q = document.getElementById("c-q");
		for (const text of ["no such words anywhere", ""]) { q.value = text; q.dispatchEvent(new Event("input")); if (text && document.querySelectorAll("#cells tbody tr").length) throw new Error("the filter keeps what does not match"); }
		const heads = document.querySelectorAll("#cells thead button").length;
		for (let i = 0; i < heads; i++) for (let k = 0; k < 2; k++) { document.querySelectorAll("#cells thead button")[i].click(); n.sorts++; }
		for (const tr of [...document.querySelectorAll("#cells tbody tr")].slice(0, 40)) { tr.click(); n.runs++; if (document.getElementById("run").hidden) throw new Error("a run does not open"); }
		for (const th of document.querySelectorAll(".u-legend .u-series th")) { th.click(); th.click(); n.lines++; }
		for (const d of document.querySelectorAll("details")) { d.open = true; n.details++; }
		for (const b of document.querySelectorAll("button.copy")) { b.click(); n.buttons++; if (!String(getSelection())) throw new Error("a copy button selects nothing"); }
		for (const a of document.querySelectorAll("nav a")) { if (!document.querySelector(a.getAttribute("href"))) throw new Error("a link leads nowhere: " + a.getAttribute("href")); n.links++; }
		return n; })()`)
	for _, kind := range []string{"options", "sorts", "runs", "lines", "details", "links"} {
		if did[kind] == 0 {
			p.t.Errorf("the page has no %s", kind)
		}
	}
	if now := p.Count("#cells tbody tr"); now != rows {
		p.t.Errorf("%d rows after every control was tried, %d before", now, rows)
	}
}

package report

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sweep/report/browsertest"
	"sweep/sweep"
)

// attacks are texts that a careless page runs, a careless terminal obeys, or a careless spreadsheet computes.
var attacks = []string{
	`<script>alert(1)</script>`,
	`"><img src=x onerror=alert(2)>`,
	`'-alert(3)-'`,
	`</script><script>alert(4)</script>`,
	`javascript:alert(5)`,
	`<svg/onload=alert(6)>`,
	"{{.Name}}{{template \"block\" .}}${alert(7)}`",
	`<!--<script>`,
	`]]></style><style>*{display:none}`,
	"\x1b]0;owned\x07\x1b[31mred",
	"\u202egpj.exe \u2028 \x00 \x7f",
	`=HYPERLINK("http://evil.example","x")`,
	`+cmd|' /C calc'!A0`,
	`@SUM(1)`,
	`__proto__`,
	`constructor`,
	"| a | b |\n|---|---|\n[x](http://evil.example) `code` # head",
}

// hostileNight puts each attack into each field that comes from outside. Every other config dies by it, where some are to die.
func hostileNight(t testing.TB, someDie bool) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "hostile \x1b[2J")
	log := "launches/x/server.log"
	if err := os.MkdirAll(filepath.Join(dir, "launches", "x"), 0o777); err != nil {
		t.Fatal(err)
	}
	var lines, logText bytes.Buffer
	confirmed := Confirmation{Nights: attacks}
	for i, a := range attacks {
		l := load("w "+a, "c "+a, 8)
		r := cell(fmt.Sprintf("%d %s", i, a), "0.80", l, 1, 100+float64(i))
		r.Axes = sweep.Params{{Name: "mem-fraction-static", Value: a}, {Name: "flag " + a, Value: "1"}}
		r.Config, r.Cell = fmt.Sprintf("config %d %s", i, a), fmt.Sprintf("cell %d %s", i, a)
		r.Host, r.GPU, r.Engine, r.EngineVersion, r.Model, r.Command = "host "+a, "gpu "+a, "engine "+a, a, "model "+a, "serve "+a
		r.Notes, r.Verdict = []string{"note " + a}, a
		r.Values["median_tpot_ms"], r.Values[a] = 20, 5
		if someDie && i%2 == 1 {
			offset := int64(logText.Len())
			text := strings.ReplaceAll(a, "\n", " ")
			logText.WriteString(text + "\n")
			r.Ending = sweep.Ending{
				Outcome: sweep.CrashLoad, Phase: sweep.PhaseLoad, Cause: a, Detail: "detail " + a, ImpliedBy: a,
				Evidence: &sweep.Evidence{File: log, Line: i, Offset: offset, Text: text}, Exit: &sweep.Exit{Code: 1, By: a},
			}
		}
		if i%5 == 0 {
			r.Unacceptable = a
		}
		r.Dir = fmt.Sprintf("launches/%d/attempt=1", i)
		hostileRequests(t, dir, r, a)
		confirmed.Workloads = append(confirmed.Workloads, ConfirmedVerdict{Workload: l.Workload, Config: r.Config, Load: l.String(), Confirmed: i%3 == 0, Why: []string{"because " + a}})
		lines.WriteString(lineOf(t, r))
	}
	if err := confirmed.Write(dir); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{CellsFile: lines.String(), GridFile: "name: x\n# " + strings.Join(attacks, "\n# "), log: logText.String()} {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), []byte(data), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// hostileRequests writes requests that say nothing else, where a folder can have the load's name.
func hostileRequests(t testing.TB, dir string, r sweep.Record, attack string) {
	t.Helper()
	folder := filepath.Join(dir, filepath.FromSlash(r.Dir), "load="+r.Load.String())
	if strings.ContainsRune(folder, 0) {
		return
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	var lines []any
	for k := range 8 {
		lines = append(lines, map[string]any{
			"id": attack, "class": "c " + attack, "phase": "window", "outcome": "ok", "kind": attack, "sent_s": k, "end_s": k + 2,
			"ttft_ms": 100 + k, "tpot_ms": 20, "e2e_ms": 1900, "prompt_tokens": 10, "output_tokens": 90, "chunks": 90,
		})
	}
	jsonLines(t, filepath.Join(folder, "requests.jsonl"), lines...)
}

func testHostilePage(t *testing.T, browser context.Context) {
	dir := hostileNight(t, true)
	n, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(n.Records) != len(attacks) {
		t.Fatalf("%d records, problems %q", len(n.Records), n.Problems)
	}
	p := browsertest.Open(t, browser, writePage(t, Summarize(n)), "")
	p.SameCells(dir)
	if scripts := p.Count("script"); scripts != 3 {
		t.Errorf("%d scripts in the page, want its own three", scripts)
	}
	if p.Count("main style, main img:not([src^='data:image/svg'])") != 0 {
		t.Error("markup came through")
	}
	// Every run opened, every control turned: what is drawn later must be as harmless.
	browsertest.Eval[int](p, `(() => {
		for (const tr of document.querySelectorAll("#cells tbody tr")) tr.click();
		for (const s of document.querySelectorAll("select")) for (const o of [...s.options]) { s.value = o.value; s.dispatchEvent(new Event("change")); }
		for (const d of document.querySelectorAll("details")) d.open = true;
		return 0; })()`)
	if body := browsertest.Eval[string](p, `document.body.innerText`); !strings.Contains(body, `<script>alert(1)</script>`) || !strings.Contains(body, `onerror=alert(2)`) {
		t.Error("the texts are not shown as they are")
	}
	if strings.ContainsAny(browsertest.Eval[string](p, `document.body.textContent.replace(/[\n\t]/g, " ")`), "\x1b\x07\u202e\u2028") {
		t.Error("control characters are in the page")
	}
	p.Quiet()
}

// hostileOutputs is all that is written of a night, and of two beside each other, by the name of its format.
func hostileOutputs(t *testing.T, n, other *Night) map[string]string {
	t.Helper()
	s := Summarize(n)
	d := Compare([]*Night{n, other}, throughput())
	pivot := View{Rows: "mem-fraction-static", Cols: "concurrency", Metrics: []string{"output_throughput"}}
	out := map[string]string{"regressions": strings.Join(d.Regressions(0.01), " "), "confirmation": strings.Join(n.Confirmation.Words(), " ")}
	for name, f := range map[string]func(io.Writer) error{
		"table":               func(w io.Writer) error { return WriteTable(w, s, Options{}) },
		"narrow table":        func(w io.Writer) error { return WriteTable(w, s, Options{Width: 80}) },
		"markdown":            func(w io.Writer) error { return WriteMarkdown(w, s, nil, View{}) },
		"page":                func(w io.Writer) error { return WritePage(w, s, PageOptions{}) },
		"json":                func(w io.Writer) error { return WriteJSON(w, s) },
		"csv":                 func(w io.Writer) error { return WriteCSV(w, n) },
		"pivot table":         func(w io.Writer) error { return WriteTable(w, s, Options{View: pivot}) },
		"pivot markdown":      func(w io.Writer) error { return WriteMarkdown(w, s, nil, pivot) },
		"pivot csv":           func(w io.Writer) error { return WriteCrosstabCSV(w, s, pivot) },
		"pivot json":          func(w io.Writer) error { return WriteCrosstabJSON(w, s, pivot) },
		"comparison table":    func(w io.Writer) error { return WriteDiff(w, d, Options{}) },
		"comparison markdown": func(w io.Writer) error { return WriteDiffMarkdown(w, d) },
		"comparison csv":      func(w io.Writer) error { return WriteDiffCSV(w, d) },
		"comparison json":     func(w io.Writer) error { return WriteDiffJSON(w, d) },
		"jsonl":               func(w io.Writer) error { return WriteJSONL(w, n) },
		"gobench":             func(w io.Writer) error { return WriteGoBench(w, n) },
		"bench-serving":       func(w io.Writer) error { return WriteBenchServing(w, n) },
	} {
		var b bytes.Buffer
		if err := f(&b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = b.String()
	}
	runs, err := VLLMRuns(n)
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		out["vllm"] += string(run.Data)
		if !filepath.IsLocal(filepath.FromSlash(run.Path)) || strings.Count(run.Path, "/") != 1 || strings.ContainsAny(run.Path, controls) {
			t.Errorf("vllm: a file is to be named %q", run.Path)
		}
	}
	return out
}

// controls are characters that no output may hold as they are.
const controls = "\x1b\x07\x00\x7f\u009b\u202e\u2028"

var fenced = regexp.MustCompile("(?s)\n(```+)sh\n[^\n]*\n```+\n")

// No attack reaches a terminal, a Markdown file or a spreadsheet, in whatever format.
func TestHostileEverywhere(t *testing.T) {
	var nights [2]*Night
	for i := range nights {
		var err error
		if nights[i], err = Read(hostileNight(t, i == 1)); err != nil {
			t.Fatal(err)
		}
		if nights[i].Confirmation == nil {
			t.Fatal("the confirmation was not read")
		}
	}
	for name, text := range hostileOutputs(t, nights[0], nights[1]) {
		if text == "" {
			t.Errorf("%s: nothing was written", name)
		}
		if i := strings.IndexAny(text, controls); i >= 0 {
			t.Errorf("%s: a control character came through: %q", name, text[max(0, i-60):min(len(text), i+20)])
		}
		switch {
		case strings.HasSuffix(name, "markdown"):
			text = fenced.ReplaceAllString(text, "") // a command is code, and shown as it is
			if strings.Contains(text, "<script>") || strings.Contains(text, "<img") || strings.Contains(text, "\n|---|---|\n") || strings.Contains(text, "[x](http") {
				t.Errorf("%s: markup came through", name)
			}
		case strings.HasSuffix(name, "csv"):
			noFormula(t, name, text)
		case name == "page":
			if i := strings.Count(text, "<script"); i != 3 {
				t.Errorf("page: %d script elements, want 3", i)
			}
		case name == "json" || strings.HasSuffix(name, " json"):
			if !json.Valid([]byte(text)) {
				t.Errorf("%s is no JSON", name)
			}
		case name == "jsonl", name == "bench-serving", name == "vllm":
			sameWords(t, name, text)
		}
	}
	s := Summarize(nights[1])
	for _, d := range s.drawings() {
		if d.skip != "" {
			continue
		}
		svg, err := renderSVG(d)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(svg, []byte("<script")) || bytes.Contains(svg, []byte("<img")) || bytes.ContainsAny(svg, "\x1b\x07") {
			t.Errorf("%s.svg: markup came through", d.Name)
		}
	}
}

// noFormula: a spreadsheet would compute no field.
func noFormula(t *testing.T, name, text string) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, row := range rows {
		for _, field := range row {
			if field != "" && strings.ContainsRune("=+@", rune(strings.TrimLeft(field, " ")[0])) {
				t.Errorf("%s: %q would be run", name, field)
			}
		}
	}
}

// sameWords: each line is an object, and what a program reads of it is what the server said: only how it is written may differ.
func sameWords(t *testing.T, name, text string) {
	t.Helper()
	found := false
	for line := range strings.Lines(text) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, v := range r {
			said, _ := v.(string)
			found = found || strings.Contains(said, "\x1b]0;owned\x07")
		}
	}
	if !found {
		t.Errorf("%s: a value is not what the server said", name)
	}
}

// every outcome that a cell can have, one config each.
func everyOutcome(t testing.TB) (string, []sweep.Outcome) {
	t.Helper()
	all := []sweep.Outcome{
		sweep.OK, sweep.OOMWeights, sweep.OOMKV, sweep.OOMGraph, sweep.OOMWarmup, sweep.OOMPrefill, sweep.OOMDecode, sweep.KVTooSmall, sweep.KVExhausted,
		sweep.HostShort, sweep.HostKilled, sweep.BadFlag, sweep.BadModel, sweep.BadGPU, sweep.BusyGPU, sweep.BusyPort, sweep.HangStart, sweep.HangLoad,
		sweep.SlowStart, sweep.CrashStart, sweep.CrashLoad, sweep.LoadFailed, sweep.LoadRejected, sweep.ClientBound, sweep.InfraSSH, sweep.InfraDisk,
		sweep.InfraLost, sweep.InfraGPU, sweep.SkippedPreflight, sweep.SkippedImplied, sweep.SkippedDeadline, sweep.SkippedBreaker, sweep.Aborted, "", "new.word",
	}
	var b bytes.Buffer
	for i, o := range all {
		r := cell(fmt.Sprintf("v%d", i), fmt.Sprintf("0.%02d", 10+i), load("w", "c", 8), 1, 100+float64(i))
		r.Ending = sweep.Ending{Outcome: o, Phase: sweep.PhaseLoad, Detail: "it ended as " + string(o)}
		if o != sweep.OK {
			r.Values = sweep.Values{"kv_tokens": 1000 + float64(i)}
		}
		b.WriteString(lineOf(t, r))
	}
	return put(t, map[string]string{CellsFile: b.String()}), all
}

func testEveryOutcome(t *testing.T, browser context.Context) {
	dir, all := everyOutcome(t)
	n, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := browsertest.Open(t, browser, writePage(t, Summarize(n)), "")
	p.SameCells(dir)
	text := p.Text("#failures")
	for _, o := range all {
		if o != sweep.OK && o != "" && !strings.Contains(text, "it ended as "+string(o)) {
			t.Errorf("%s is not among the failures or what was skipped", o)
		}
	}
	p.EveryControl()
	p.Quiet()
	p.Shoot("outcomes")
}

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"sweep/sweep"
)

// heartbeat is how long a log stays silent at most, so that whoever watches it knows that we live.
const heartbeat = 60 * time.Second

// lineView shows a story as lines with a time, for a log file or a pipe.
type lineView struct {
	w   io.Writer
	now func() time.Time

	mu     sync.Mutex
	status string // what a heartbeat says
	timer  *time.Timer
	ended  bool
}

func newLineView(w io.Writer, now func() time.Time) *lineView {
	v := &lineView{w: w, now: now}
	v.timer = time.AfterFunc(heartbeat, v.beat)
	return v
}

func (v *lineView) line(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.print(text)
}

func (v *lineView) step(text string) { v.line(text) }

func (v *lineView) alert(text string) { v.line(text) }

func (v *lineView) print(text string) {
	fmt.Fprintf(v.w, "%s %s\n", v.now().Format(time.TimeOnly), text)
	v.timer.Reset(heartbeat)
}

func (v *lineView) state(overall string, _, _ int, hosts map[string]*hostState) {
	v.mu.Lock()
	defer v.mu.Unlock()
	parts := []string{overall}
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		if text := hosts[name].String(); text != "" {
			parts = append(parts, text)
		}
	}
	v.status = strings.Join(parts, " · ")
}

func (v *lineView) beat() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.ended {
		v.print("still at work: " + v.status)
	}
}

func (v *lineView) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ended = true
	v.timer.Stop()
}

// String is one line: what the host does and how far it is.
func (h *hostState) String() string {
	text := h.what + " · " + h.text
	if h.what == "" || h.text == "" {
		text = h.what + h.text
	}
	return sweep.Printable(text)
}

// barView shows a story on a terminal: lines that stay, below them one bar for the night and one for
// each host.
type barView struct {
	w        io.Writer
	progress *mpb.Progress
	overall  *mpb.Bar
	hosts    map[string]*mpb.Bar

	mu    sync.Mutex // guards what the bars show: they are drawn by another goroutine
	texts map[string]string
}

// barSteps is the length of a bar whose share is a fraction.
const barSteps = 1000

func newBarView(w io.Writer) *barView {
	v := &barView{w: w, hosts: map[string]*mpb.Bar{}, texts: map[string]string{}}
	v.progress = mpb.New(mpb.WithOutput(w), mpb.WithWidth(30), mpb.WithRefreshRate(200*time.Millisecond))
	return v
}

func (v *barView) bar(name string, total int64) *mpb.Bar {
	return v.progress.New(total, mpb.BarStyle().Lbound("▕").Filler("█").Tip("█").Padding("░").Rbound("▏"),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
			v.mu.Lock()
			defer v.mu.Unlock()
			return v.texts[name]
		})))
}

// overallText is the key of the night's text; no host is named so.
const overallText = ""

func (v *barView) step(string) {}

func (v *barView) alert(text string) {
	fmt.Fprint(v.w, "\r") // a terminal that echoes ^C has moved the cursor, and the bars are redrawn from where it stands
	v.line(text)
}

func (v *barView) line(text string) { fmt.Fprintln(v.progress, text) }

func (v *barView) state(overall string, recorded, planned int, hosts map[string]*hostState) {
	v.mu.Lock()
	v.texts[overallText] = overall
	for name, h := range hosts {
		v.texts[name] = h.String()
	}
	v.mu.Unlock()
	if v.overall == nil {
		v.overall = v.bar(overallText, int64(planned)+1) // one more: a bar that is full is drawn no more
	}
	v.overall.SetCurrent(int64(recorded))
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		if v.hosts[name] == nil {
			v.hosts[name] = v.bar(name, barSteps+1)
		}
		v.hosts[name].SetCurrent(int64(barSteps * min(1, max(0, hosts[name].share))))
	}
}

func (v *barView) end() {
	if v.overall != nil {
		v.overall.Abort(true)
	}
	for _, b := range v.hosts {
		b.Abort(true)
	}
	v.progress.Wait()
}

// quietView shows nothing but what is wrong.
type quietView struct{ w io.Writer }

func (quietView) line(string)                                   {}
func (quietView) step(string)                                   {}
func (v quietView) alert(text string)                           { fmt.Fprintln(v.w, text) }
func (quietView) state(string, int, int, map[string]*hostState) {}
func (quietView) end()                                          {}

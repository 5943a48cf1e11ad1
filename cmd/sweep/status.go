package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sweep/sweep"
)

func newStatusCmd(env *environ) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [NIGHT]",
		Short: "Say how a night stands: what runs, how far it is, when it will be done",
		Long: `status reads a night's folder and says whether a process works on it, what each host does, how many cells have their
result, when the rest will be done by the clock, and what the last failure was. It changes nothing and can be asked from any
terminal. Without NIGHT it takes the newest in results.`,
		Example: `  sweep status
  sweep status results/kimi-20261129T180000Z
  sweep status --format json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeNights,
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := aNight(args)
			if err != nil {
				return err
			}
			s, err := standing(dir, time.Now)
			if err != nil {
				return err
			}
			return s.write(env.Stdout, env.Format)
		},
	}
	enumFlag(cmd, &env.Format, "format", "table", []string{"table", "json"}, "how to write it")
	return cmd
}

func completeNights(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// aNight is the night that is named, or the newest in a folder of nights; without a name in results.
func aNight(args []string) (string, error) {
	path := "results"
	if len(args) > 0 {
		path = args[0]
	}
	if _, err := sweep.ReadManifest(path); err == nil {
		return filepath.Clean(path), nil
	}
	nights, err := sweep.Nights(path)
	if err == nil && len(nights) > 0 {
		return nights[0], nil
	}
	if errors.Is(err, fs.ErrNotExist) || err == nil {
		err = fmt.Errorf("%s is neither a night nor a folder of nights", path)
	}
	return "", exitWith(exitUsage, err)
}

// nightStatus is how a night stands.
type nightStatus struct {
	Night    string         `json:"night"`
	Owner    *sweep.Owner   `json:"process,omitempty"` // that works on it; absent: none
	Planned  int            `json:"cells_planned"`
	Recorded int            `json:"cells_recorded"`
	Outcomes map[string]int `json:"outcomes"`
	Done     string         `json:"done_at,omitempty"` // by the clock, as far as it can be told
	Hosts    []hostStatus   `json:"hosts"`
	Evidence string         `json:"last_evidence,omitempty"` // of the last cell that was not measured
	Log      string         `json:"log,omitempty"`           // of a detached controller
}

type hostStatus struct {
	Host string    `json:"host"`
	Does string    `json:"does"` // what and how far
	Said time.Time `json:"heard_at,omitzero"`
	Link string    `json:"link,omitempty"` // what the journal last said of the link to it
}

// standing reads how a night stands.
func standing(dir string, now func() time.Time) (nightStatus, error) {
	w, err := newWatch(dir, discardView{}, now)
	if err != nil {
		return nightStatus{}, err
	}
	if err := w.read(); err != nil {
		return nightStatus{}, err
	}
	s := nightStatus{Night: dir, Planned: w.story.planned, Recorded: w.story.recorded, Outcomes: map[string]int{}, Done: strings.TrimSpace(w.story.eta(""))}
	if s.Owner, err = sweep.NightOwner(dir); err != nil {
		return s, err
	}
	for _, r := range w.records {
		s.Outcomes[string(r.Outcome)]++
		if r.Outcome != sweep.OK && r.Evidence != nil {
			s.Evidence = fmt.Sprintf("%s %s: %s", r.Cell, r.Outcome, r.Evidence.Text)
		} else if r.Outcome != sweep.OK && r.Detail != "" {
			s.Evidence = fmt.Sprintf("%s %s: %s", r.Cell, r.Outcome, r.Detail)
		}
	}
	links := lastLinks(dir)
	for _, h := range w.night.Manifest.Hosts {
		one := hostStatus{Host: h.Name, Does: "nothing yet", Said: w.heard[h.Name], Link: links[h.Name]}
		if state := w.story.hosts[h.Name]; state != nil {
			one.Does = state.String()
		}
		s.Hosts = append(s.Hosts, one)
	}
	if _, err := os.Stat(filepath.Join(dir, controllerLog)); err == nil {
		s.Log = filepath.Join(dir, controllerLog)
	}
	return s, nil
}

// lastLinks is what the journal last said of each host's link.
func lastLinks(dir string) map[string]string {
	links := map[string]string{}
	data, err := os.ReadFile(filepath.Join(dir, "journal.jsonl"))
	if err != nil {
		return links
	}
	entries, _, _ := sweep.ReadJournal(data) // damaged or half written: what is whole counts
	for _, e := range entries {
		if e.Kind == sweep.JournalLink {
			links[e.Host] = e.Text
		}
	}
	return links
}

func (s nightStatus) write(w io.Writer, format string) error {
	if format == "json" {
		return writeJSON(w, s)
	}
	var b strings.Builder
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "%-9s %s\n", what, sweep.Printable(fmt.Sprintf(format, args...)))
	}
	line("night", "%s", s.Night)
	switch {
	case s.Owner != nil:
		line("runs", "in process %d on %s since %s", s.Owner.PID, s.Owner.Host, s.Owner.Start.Local().Format(time.DateTime))
	case s.Recorded < s.Planned:
		line("runs", "nowhere on this machine; agents on hosts may go on. Take over with: %s", sweep.ShellLine([]string{"sweep", "attach", s.Night}))
	default:
		line("runs", "no more: it is complete")
	}
	done := ""
	if s.Done != "" && s.Owner != nil {
		done = ", " + s.Done
	}
	line("cells", "%d of %d%s", s.Recorded, s.Planned, done)
	var outcomes []string
	for _, o := range slices.Sorted(maps.Keys(s.Outcomes)) {
		outcomes = append(outcomes, fmt.Sprintf("%s %d", o, s.Outcomes[o]))
	}
	if len(outcomes) > 0 {
		line("outcomes", "%s", strings.Join(outcomes, " · "))
	}
	for _, h := range s.Hosts {
		text := h.Does
		if !h.Said.IsZero() {
			text += ", heard at " + h.Said.Local().Format(time.TimeOnly)
		}
		if h.Link != "" {
			text += "; link " + h.Link
		}
		line("host", "%s: %s", h.Host, text)
	}
	if s.Evidence != "" {
		line("evidence", "%s", s.Evidence)
	}
	if s.Log != "" {
		line("log", "%s", s.Log)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// watch tells the story of a night from its files alone, while another process writes them.
type watch struct {
	dir     string
	night   *sweep.Night
	story   *story
	records []sweep.Record
	events  map[string]int64     // host → how much of its events was read
	heard   map[string]time.Time // host → its last event
	begun   bool
}

func newWatch(dir string, v view, now func() time.Time) (*watch, error) {
	m, err := sweep.ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	return &watch{dir: dir, night: &sweep.Night{Dir: dir, Manifest: m}, story: newStory(v, now), events: map[string]int64{}, heard: map[string]time.Time{}}, nil
}

// read tells what is new.
func (w *watch) read() error {
	records, err := sweep.ReadRecords(w.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !w.begun {
		w.begun = true
		w.story.Begin(w.night, w.night.Manifest.Cells, nil)
	}
	for _, h := range w.night.Manifest.Hosts {
		if err := w.readEvents(h.Name); err != nil {
			return err
		}
	}
	if len(records) < len(w.records) { // some were taken out to run again
		w.records = nil
	}
	for _, r := range records[len(w.records):] {
		w.story.Record(r)
	}
	w.records = records
	return nil
}

func (w *watch) readEvents(name string) error {
	f, err := os.Open(filepath.Join(w.dir, "agents", name, "events.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, w.events[name], 1<<62))
	if err != nil {
		return err
	}
	for line := range bytes.Lines(data) {
		if line[len(line)-1] != '\n' {
			break
		}
		w.events[name] += int64(len(line))
		var e sweep.Event
		if json.Unmarshal(line, &e) == nil {
			w.heard[name] = e.At
			w.story.Event(name, e)
		}
	}
	return nil
}

// discardView shows nothing.
type discardView struct{}

func (discardView) line(string)                                   {}
func (discardView) step(string)                                   {}
func (discardView) alert(string)                                  {}
func (discardView) state(string, int, int, map[string]*hostState) {}
func (discardView) end()                                          {}

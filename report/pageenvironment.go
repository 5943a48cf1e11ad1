package report

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sweep/sweep"
)

// environment lists what was measured with what, and the hashes by which it can be known again.
func (s *Summary) environment() (facts []pageFact, grid string) {
	put := func(name, value string, code bool) {
		if value != "" {
			facts = append(facts, pageFact{name, sweep.Printable(value), code})
		}
	}
	collect := func(f func(sweep.Record) string) string {
		var list []string
		for _, r := range s.Night.Records {
			if v := f(r); v != "" {
				list = add(list, v)
			}
		}
		return strings.Join(list, ", ")
	}
	put("engine", strings.Join(s.Night.engines(), ", "), false)
	put("model", collect(func(r sweep.Record) string { return r.Model }), true)
	put("devices", collect(func(r sweep.Record) string {
		if r.GPU == "" {
			return ""
		}
		return fmt.Sprintf("%d × %s", r.GPUCount, r.GPU)
	}), false)
	put("hosts", collect(func(r sweep.Record) string { return r.Host }), false)
	put("error floor of the client", strings.Join(s.Night.floors(), "; "), false)
	put("notes", strings.Join(s.Notes, ", "), false)
	put("sweep", s.Night.Version, false)
	put("repeats", fmt.Sprint(s.Night.Repeats), false)
	if s.Night.Price > 0 {
		put("price", fmt.Sprintf("$%g an hour for one host", s.Night.Price), false)
	}
	for _, w := range s.Night.Workloads {
		put("workload "+w.Name, workloadWords(w), false)
	}
	for _, sheet := range s.Sheets {
		if sheet.Baseline != nil {
			put("baseline", sheet.Baseline.Config.Key, true)
			break
		}
	}
	if first, last := s.Night.span(); !first.IsZero() {
		put("measured", first.UTC().Format(time.DateTime)+" to "+last.UTC().Format(time.DateTime)+" UTC", false)
	}
	for _, name := range []string{GridFile, ManifestFile, CellsFile} {
		data, err := os.ReadFile(filepath.Join(s.Night.Dir, name))
		if err != nil {
			continue
		}
		sum := sha256.Sum256(data)
		put("sha256 of "+name, hex.EncodeToString(sum[:]), true)
		if name == GridFile {
			grid = printableText(string(data))
		}
	}
	return facts, grid
}

// engines are the engines that served, with their versions; where none was started, what was to serve.
func (n *Night) engines() []string {
	var known, named []string
	for _, r := range n.Records {
		if r.EngineVersion != "" {
			known = add(known, sweep.Printable(strings.TrimSpace(r.Engine+" "+r.EngineVersion)))
		}
		named = add(named, sweep.Printable(r.Engine))
	}
	if len(known) > 0 {
		return known
	}
	return slices.DeleteFunc(named, func(e string) bool { return e == "" })
}

// printableText makes text of several lines safe, keeping the lines.
func printableText(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, l := range lines {
		lines[i] = sweep.Printable(strings.ReplaceAll(l, "\t", "    "))
	}
	return strings.Join(lines, "\n")
}

func workloadWords(w sweep.Workload) string {
	var parts []string
	for _, c := range w.Classes {
		var text strings.Builder
		text.WriteString(fmt.Sprintf("%s: %s tokens in, %s out", c.Name, rangeWords(c.Input), rangeWords(c.Output)))
		if p := c.SharedPrefix; p != nil {
			text.WriteString(fmt.Sprintf(", %d shared prefixes of %d", p.Groups, p.Tokens))
		}
		for _, o := range c.SLO {
			text.WriteString(", " + o.String())
		}
		parts = append(parts, text.String())
	}
	for _, o := range w.SLO {
		parts = append(parts, "each "+o.String())
	}
	return strings.Join(parts, "; ")
}

func rangeWords(r sweep.Range) string {
	if r.Min == r.Max {
		return fmt.Sprint(r.Min)
	}
	return fmt.Sprintf("%d–%d", r.Min, r.Max)
}

// span is the time of the first and the last measurement.
func (n *Night) span() (first, last time.Time) {
	for _, r := range n.Records {
		if !r.StartedAt.IsZero() && (first.IsZero() || r.StartedAt.Before(first)) {
			first = r.StartedAt
		}
		if r.EndedAt.After(last) {
			last = r.EndedAt
		}
	}
	return first, last
}

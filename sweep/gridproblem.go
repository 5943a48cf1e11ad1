package sweep

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A Problem is one thing that is wrong with a grid file, at its place.
type Problem struct {
	File    string // as the user gave it
	Line    int    // from 1; 0: the file as a whole
	Col     int    // from 1, in characters
	Text    string // what is wrong, one sentence without a full stop
	Remedy  string // what would be right; may be empty
	Source  string // the file's line
	Warning bool   // the grid can run as it is
}

// String gives the problem as "grid.yaml:4:3: unknown key "nmae" (did you mean "name"?)", then the
// source line and a caret below the place. It is safe for a terminal.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(Printable(p.File))
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Col)
	}
	b.WriteString(": ")
	if p.Warning {
		b.WriteString("warning: ")
	}
	b.WriteString(Printable(p.Text))
	if p.Remedy != "" {
		b.WriteString(" (" + Printable(p.Remedy) + ")")
	}
	if p.Line > 0 && strings.TrimSpace(p.Source) != "" {
		source, before := excerpt(p.Source, p.Col)
		fmt.Fprintf(&b, "\n    %s\n    %s^", source, strings.Repeat(" ", before))
	}
	return b.String()
}

// excerptWidth is how many characters of a source line are shown.
const excerptWidth = 110

// excerpt makes a source line printable, cuts it to what surrounds the column, and says how many
// characters stand before that column.
func excerpt(line string, col int) (text string, before int) {
	runes := []rune(line)
	at := min(max(col-1, 0), len(runes))
	left, right := "", ""
	if len(runes) > excerptWidth {
		from := max(0, min(at-excerptWidth/2, len(runes)-excerptWidth))
		to := min(len(runes), from+excerptWidth)
		if from > 0 {
			left = "…"
		}
		if to < len(runes) {
			right = "…"
		}
		runes, at = runes[from:to], at-from
	}
	head := left + Printable(string(runes[:at]))
	return head + Printable(string(runes[at:])) + right, utf8.RuneCountInString(head)
}

// Nearest returns the known name that is most like the given one, or else one whose beginning is;
// "" when none is alike.
func Nearest(name string, known []string) string {
	if len(name) > 64 {
		return ""
	}
	best, bestDistance := "", 1+max(1, len(name)/3)
	for _, k := range known {
		if d := distance(FlatName(strings.ToLower(name)), FlatName(k)); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	if best != "" || len(name) < 3 {
		return best
	}
	bestDistance = 1 + len(name)/4
	for _, k := range known {
		if len(k) <= len(name) {
			continue
		}
		if d := distance(FlatName(strings.ToLower(name)), FlatName(k)[:len(name)]); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// maxKnown is how many names a remedy lists: all keys of a grid, and not all values of a long axis.
const maxKnown = 30

// didYouMean is the remedy for a name that nobody knows.
func didYouMean(name string, known []string) string {
	if k := Nearest(name, known); k != "" {
		return fmt.Sprintf("did you mean %q?", k)
	}
	if len(known) == 0 {
		return ""
	}
	if len(known) > maxKnown {
		return "known are " + strings.Join(known[:maxKnown], ", ") + ", …"
	}
	return "known are " + strings.Join(known, ", ")
}

// distance counts the edits between two names; swapping two neighbours is one edit.
func distance(a, b string) int {
	older, old, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		older, old, row = old, row, older
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(old[j+1]+1, row[j]+1, old[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], older[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

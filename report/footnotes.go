package report

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// footnotes numbers the reasons that do not fit a table's cell.
type footnotes struct{ list []footnote }

// footnote is one of them: its text, and where it stands for several that differ in numbers alone, the least and the greatest of each.
type footnote struct {
	text    string
	between []string // the text without its numbers; nil: one that stands for itself
	lo, hi  []string // the numbers, as they were written
}

// mark returns the number of a note, "[2]"; the same text has the same number.
func (f *footnotes) mark(text string) string {
	i := slices.IndexFunc(f.list, func(n footnote) bool { return n.between == nil && n.text == text })
	if i < 0 {
		i = len(f.list)
		f.list = append(f.list, footnote{text: text})
	}
	return fmt.Sprintf("[%d]", i+1)
}

var measure = regexp.MustCompile(`\d+(?:\.\d+)?`)

// alike is mark for notes of which each cell has its own numbers: those that say the same share one line, "1.4 to 5.4 ms late".
func (f *footnotes) alike(text string) string {
	between, numbers := measure.Split(text, -1), measure.FindAllString(text, -1)
	i := slices.IndexFunc(f.list, func(n footnote) bool { return n.between != nil && slices.Equal(n.between, between) })
	if i < 0 {
		f.list = append(f.list, footnote{between: between, lo: numbers, hi: slices.Clone(numbers)})
		return fmt.Sprintf("[%d]", len(f.list))
	}
	for k, text := range numbers {
		v, _ := number(text) // the pattern takes numbers only
		if lo, _ := number(f.list[i].lo[k]); v < lo {
			f.list[i].lo[k] = text
		}
		if hi, _ := number(f.list[i].hi[k]); v > hi {
			f.list[i].hi[k] = text
		}
	}
	return fmt.Sprintf("[%d]", i+1)
}

// texts are the notes in order, without their numbers.
func (f *footnotes) texts() []string {
	var out []string
	for _, n := range f.list {
		if n.between == nil {
			out = append(out, n.text)
			continue
		}
		var b strings.Builder
		for k, part := range n.between {
			b.WriteString(part)
			if k < len(n.lo) {
				b.WriteString(n.lo[k])
				if n.hi[k] != n.lo[k] {
					b.WriteString(" to " + n.hi[k])
				}
			}
		}
		out = append(out, b.String())
	}
	return out
}

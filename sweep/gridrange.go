package sweep

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// maxCells bounds what one grid may ask for: the values of an axis, and configs × loads.
const maxCells = 10_000

var (
	number      = regexp.MustCompile(`^[-+]?[0-9]+(\.[0-9]+)?$`)
	leadingZero = regexp.MustCompile(`^[-+]?0[0-9]+(\.[0-9]*)?$`)
	// twoNumbers is how a range or a ladder begins, so that a mistake in one is not taken for a plain value.
	twoNumbers = regexp.MustCompile(`^[-+]?[0-9]+(\.[0-9]+)?k?:[-+]?[0-9]+(\.[0-9]+)?k?(:|$)`)
	count      = regexp.MustCompile(`^([0-9]{1,15})(?:\.([0-9]{1,3}))?(k?)$`)
)

// decimal is an exact decimal number: digits × 10^−scale.
type decimal struct {
	digits *big.Int
	scale  int
}

func parseDecimal(s string) (decimal, bool) {
	if !number.MatchString(s) || len(s) > 40 {
		return decimal{}, false
	}
	whole, fraction, _ := strings.Cut(s, ".")
	n, ok := new(big.Int).SetString(strings.TrimPrefix(whole, "+")+fraction, 10)
	return decimal{n, len(fraction)}, ok
}

// at gives the digits at a scale that is no smaller than the number's own.
func (d decimal) at(scale int) *big.Int {
	factor := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale-d.scale)), nil)
	return factor.Mul(factor, d.digits)
}

// formatDecimal writes digits × 10^−scale with exactly scale decimals.
func formatDecimal(digits *big.Int, scale int) string {
	s := new(big.Int).Abs(digits).String()
	if len(s) <= scale {
		s = strings.Repeat("0", scale-len(s)+1) + s
	}
	if scale > 0 {
		s = s[:len(s)-scale] + "." + s[len(s)-scale:]
	}
	if digits.Sign() < 0 {
		s = "-" + s
	}
	return s
}

// sameText reports whether two values of an axis mean the same: the same text, the same number
// written in two ways, or two words for "no flag". It is asked for every config, so it copies nothing.
func sameText(a, b string) bool {
	if a == b {
		return true
	}
	if a == "off" || a == "false" {
		return b == "off" || b == "false"
	}
	negA, wholeA, fractionA, okA := bareNumber(a)
	negB, wholeB, fractionB, okB := bareNumber(b)
	return okA && okB && negA == negB && wholeA == wholeB && fractionA == fractionB
}

// canonical gives values that are the same by [sameText] the same text.
func canonical(s string) string {
	if s == "false" {
		return "off"
	}
	negative, whole, fraction, ok := bareNumber(s)
	switch {
	case !ok:
		return s
	case negative:
		whole = "-" + whole
	}
	return whole + "." + fraction
}

// bareNumber takes a plain decimal number apart, without the zeros that say nothing.
func bareNumber(s string) (negative bool, whole, fraction string, ok bool) {
	digits := strings.TrimPrefix(s, "+")
	if len(digits) == len(s) {
		digits = strings.TrimPrefix(s, "-")
		negative = len(digits) < len(s)
	}
	whole, fraction, point := strings.Cut(digits, ".")
	if !allDigits(whole) || point && !allDigits(fraction) {
		return false, "", "", false
	}
	whole, fraction = strings.TrimLeft(whole, "0"), strings.TrimRight(fraction, "0")
	return negative && (whole != "" || fraction != ""), whole, fraction, true
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// A series is a range "0.80:0.94:0.02" or a ladder "1:256:x2", parsed and counted but not expanded.
type series struct {
	start, stop, step *big.Int
	scale             int // of start, stop and step
	decimals          int // to write: the larger of what start and step have
	factor            int64
	count             int    // values, at most maxCells+1
	last              string // text of the last value
	exact             bool   // the last value is the stop that the user wrote
}

// parseSeries reads a range or a ladder. ok is false when the text is neither; err says what is
// wrong with one, as a sentence, and a remedy.
func parseSeries(text string) (s series, ok bool, err *seriesError) {
	if !twoNumbers.MatchString(text) {
		return s, false, nil
	}
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return s, true, &seriesError{
			fmt.Sprintf("range %q has %d parts instead of 3", text, len(parts)),
			fmt.Sprintf("write start:stop:step as in %s:%s:1, a ladder as in 1:256:x2, or quote plain text", parts[0], parts[1]),
		}
	}
	for i, part := range parts {
		if part = strings.TrimPrefix(part, "x"); leadingZero.MatchString(part) {
			return s, true, &seriesError{fmt.Sprintf("%q in range %q begins with a zero", part, text), "write it without the zero"}
		} else if !number.MatchString(part) || len(part) > 24 {
			return s, true, &seriesError{
				fmt.Sprintf("%q is no number in range %q", parts[i], text),
				"write plain decimal numbers as in 0.80:0.94:0.02, or a ladder as in 1:256:x2",
			}
		}
	}
	if step, ladder := strings.CutPrefix(parts[2], "x"); ladder {
		s, err = parseLadder(text, parts[0], parts[1], step)
	} else {
		s, err = parseRange(text, parts[0], parts[1], parts[2])
	}
	return s, true, err
}

type seriesError struct{ text, remedy string }

func parseRange(text, from, to, by string) (series, *seriesError) {
	a, _ := parseDecimal(from)
	b, _ := parseDecimal(to)
	c, _ := parseDecimal(by)
	s := series{scale: max(a.scale, b.scale, c.scale), decimals: max(a.scale, c.scale)}
	s.start, s.stop, s.step = a.at(s.scale), b.at(s.scale), c.at(s.scale)
	distance := new(big.Int).Sub(s.stop, s.start)
	switch {
	case s.step.Sign() == 0:
		return s, &seriesError{fmt.Sprintf("range %q has a step of zero", text), "write a step above zero as in 0.80:0.94:0.02"}
	case distance.Sign() != 0 && distance.Sign() != s.step.Sign():
		return s, &seriesError{fmt.Sprintf("range %q never gets from %s to %s in steps of %s", text, from, to, by), "swap the ends, or turn the sign of the step"}
	}
	steps := new(big.Int).Quo(distance, s.step)
	if !steps.IsInt64() || steps.Int64() >= maxCells {
		return s, &seriesError{fmt.Sprintf("range %q has more than %d values", text, maxCells), "use a larger step"}
	}
	s.count = int(steps.Int64()) + 1
	last := steps.Mul(steps, s.step)
	last.Add(last, s.start)
	s.exact = last.Cmp(s.stop) == 0
	s.last = s.format(last)
	return s, nil
}

func parseLadder(text, from, to, by string) (series, *seriesError) {
	a, errA := strconv.ParseInt(from, 10, 40)
	b, errB := strconv.ParseInt(to, 10, 40)
	c, errC := strconv.ParseInt(by, 10, 20)
	s := series{start: big.NewInt(a), stop: big.NewInt(b), factor: c}
	switch {
	case errA != nil || errB != nil || errC != nil:
		return s, &seriesError{fmt.Sprintf("ladder %q needs whole numbers of at most 12 digits", text), "write it as in 1:256:x2"}
	case a < 1:
		return s, &seriesError{fmt.Sprintf("ladder %q must start at 1 or above", text), "write it as in 1:256:x2"}
	case c < 2:
		return s, &seriesError{fmt.Sprintf("ladder %q multiplies by %d and never climbs", text, c), "multiply by 2 or more as in 1:256:x2"}
	case b < a:
		return s, &seriesError{fmt.Sprintf("ladder %q goes down from %d to %d", text, a, b), "swap the ends"}
	}
	last := a
	for s.count = 1; last <= b/c; s.count++ {
		last *= c
	}
	s.exact = last == b
	s.last = strconv.FormatInt(last, 10)
	return s, nil
}

func (s series) format(v *big.Int) string {
	v = new(big.Int).Set(v)
	for range s.scale - s.decimals { // the stop has more decimals than the values
		v.Quo(v, big.NewInt(10))
	}
	return formatDecimal(v, s.decimals)
}

// values expands the series; the caller has looked at count.
func (s series) values() []string {
	out := make([]string, 0, s.count)
	v := new(big.Int).Set(s.start)
	for range s.count {
		out = append(out, s.format(v))
		if s.factor > 0 {
			v.Mul(v, big.NewInt(s.factor))
		} else {
			v.Add(v, s.step)
		}
	}
	return out
}

// parseCount reads a whole number that may end in k for a thousand: 6k is 6000, 1.5k is 1500.
func parseCount(s string) (int, bool) {
	m := count.FindStringSubmatch(s)
	if m == nil || m[2] != "" && m[3] == "" {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return 0, false
	}
	if m[3] == "" {
		return n, true
	}
	fraction, err := strconv.Atoi((m[2] + "000")[:3])
	return n*1000 + fraction, err == nil
}

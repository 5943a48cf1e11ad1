package engine

import "strings"

// lead is what a server puts in front of a message, and the message.
type lead struct {
	rank    string  // "TP0", "DP1 TP1 EP1", "EngineCore_DP0"; empty when the line names none
	process string  // set when every line of that process carries its name: stack traces of such processes do not mix
	stamped bool    // a time, a level or a process stands there: the server wrote this line
	bracket bool    // the time stands in brackets: the lines of a stack trace carry none then
	info    bool    // of level INFO, WARNING or DEBUG
	clock   float64 // seconds; 0: no time
	message string
}

// pythonLead takes off "[2026-11-29 13:32:45 DP0 TP1] " of SGLang, "(EngineCore_DP0 pid=20417) ERROR 12-24 09:12:24
// [core.py:866] " of vLLM, "INFO:     " of their HTTP server, and the older and C++ forms.
func pythonLead(line string) lead {
	l := lead{message: line}
	for {
		switch {
		case strings.HasPrefix(l.message, "["):
			if !l.inBrackets() {
				return l
			}
		case strings.HasPrefix(l.message, "("):
			if !l.inParentheses() {
				return l
			}
		default:
			l.level()
			return l
		}
	}
}

func (l *lead) inBrackets() bool {
	end := strings.IndexByte(l.message[:min(len(l.message), 120)], ']')
	if end < 0 || end+1 < len(l.message) && l.message[end+1] != ' ' && l.message[end+1] != ':' {
		return false
	}
	tags, clock, ok := prefixTags(l.message[1:end])
	if !ok {
		return false
	}
	if tags != "" && l.rank == "" {
		l.rank = tags
	}
	if clock != 0 && l.clock == 0 {
		l.clock = clock
	}
	l.stamped = true
	if strings.HasPrefix(tags, "rank") { // PyTorch names the rank on every line of a stack trace
		l.process = tags
	} else {
		l.bracket = true
	}
	l.message = strings.TrimPrefix(strings.TrimPrefix(l.message[end+1:], ":"), " ")
	return true
}

// prefixTags returns the ranks in a bracket, which is all but the time. ok is false when it is no prefix.
func prefixTags(inside string) (tags string, clock float64, ok bool) {
	if rest, found := strings.CutPrefix(inside, "gpu_id="); found {
		return "gpu" + rest, 0, true
	}
	for _, old := range []string{"rank=", "gpu=", "rank"} {
		if rest, found := strings.CutPrefix(inside, old); found && rest != "" && isDigit(rest[0]) {
			return strings.TrimSuffix(old, "=") + rest, 0, true
		}
	}
	if strings.HasPrefix(inside, "PG ID ") || strings.HasPrefix(inside, "PG GUID ") {
		return "", 0, true
	}
	if len(inside) > 3 && strings.IndexByte("EWIF", inside[0]) >= 0 && isDigit(inside[1]) { // [E724 05:02:13.1 file.cpp:1]
		return "", 0, true
	}
	if rankWords(inside) { // a log whose times were taken off
		return inside, 0, true
	}
	if clock, ok := fullStamp(inside); ok {
		return strings.TrimPrefix(inside[19:], " "), clock, true
	}
	var date, clockText string
	rest := inside
	for rest != "" {
		word, behind, _ := strings.Cut(rest, " ")
		if !isTime(word) {
			break
		}
		ok = true
		if strings.IndexByte(word, ':') >= 0 {
			clockText = word
		} else {
			date = word
		}
		rest = behind
	}
	return rest, clockSeconds(date, clockText), ok
}

// rankWords reports names of ranks and nothing else: "DP0 TP1", "TP3".
func rankWords(s string) bool {
	if len(s) < 3 || s[0] < 'A' || s[0] > 'Z' || !isDigit(s[len(s)-1]) {
		return false
	}
	for word := range strings.SplitSeq(s, " ") {
		name := strings.TrimRight(word, "0123456789")
		switch name {
		case "TP", "DP", "PP", "EP", "ATTN_CP", "MOE_DP", "CP":
		default:
			return false
		}
		if name == word {
			return false
		}
	}
	return true
}

// isTime reports a date or a clock time: digits with "-" or ":" between.
func isTime(word string) bool {
	if len(word) < 5 {
		return false
	}
	mark := false
	for i := range len(word) {
		switch c := word[i]; {
		case isDigit(c), c == '.', c == ',':
		case c == '-', c == ':':
			mark = true
		default:
			return false
		}
	}
	return mark
}

// inParentheses takes off vLLM's "(VllmWorker rank=1 pid=611) " and Ray's "(RayWorker pid=7, ip=10.0.0.1) ".
func (l *lead) inParentheses() bool {
	head := l.message[:min(len(l.message), 120)]
	end := strings.IndexByte(head, ')')
	at := strings.Index(head, "pid=")
	if end < 0 || at < 0 || at > end || at+4 >= end || !isDigit(head[at+4]) {
		return false
	}
	name := strings.TrimSpace(head[1:at])
	if l.rank == "" {
		l.rank = strings.Replace(name, " rank=", " ", 1)
	}
	l.process, l.stamped = name, true
	if l.process == "" {
		l.process = head[at:end]
	}
	l.message = strings.TrimPrefix(l.message[end+1:], " ")
	return true
}

var levels = []string{"INFO", "WARNING", "ERROR", "DEBUG", "CRITICAL"}

// level takes off "ERROR 12-24 09:12:24 [core.py:866] ", the same without brackets as until 2024, and "INFO:     ".
func (l *lead) level() {
	for _, level := range levels {
		rest, ok := strings.CutPrefix(l.message, level)
		if !ok || rest == "" {
			continue
		}
		if rest[0] == ':' && strings.HasPrefix(rest, ": ") {
			l.stamped = true
			l.message = strings.TrimLeft(rest[1:], " ")
			return
		}
		if len(rest) < 16 || rest[0] != ' ' || !isTime(rest[1:6]) || rest[6] != ' ' || !isTime(rest[7:15]) || rest[15] != ' ' {
			return
		}
		l.stamped = true
		l.info = level == "INFO" || level == "WARNING" || level == "DEBUG"
		l.clock = clockSeconds(rest[1:6], rest[7:15])
		rest = rest[16:]
		if file := strings.IndexByte(rest[:min(len(rest), 80)], ']'); file > 0 && strings.Contains(rest[:file], ":") {
			rest = strings.TrimPrefix(rest[file+1:], " ")
		}
		l.message = rest
		return
	}
}

// clockSeconds reads "2026-11-29" or "11-29" and "13:32:45.123" as seconds. Without a date a day begins at one day, so
// that no time is 0.
func clockSeconds(date, clock string) float64 {
	const day = 86400
	if clock == "" {
		return 0
	}
	var part [3]float64
	n := 0
	for text := range strings.SplitSeq(clock, ":") {
		if v, ok := decimal(strings.Replace(text, ",", ".", 1)); ok && n < 3 {
			part[n] = v
			n++
		}
	}
	seconds := part[0]*3600 + part[1]*60 + part[2] + day
	var ymd [3]int
	n = 0
	for text := range strings.SplitSeq(date, "-") {
		if v, ok := decimal(text); ok && n < 3 {
			ymd[n] = int(v)
			n++
		}
	}
	switch n {
	case 2:
		seconds += day * float64(dayNumber(2001, ymd[0], ymd[1]))
	case 3:
		seconds += day * float64(dayNumber(ymd[0], ymd[1], ymd[2]))
	}
	return seconds
}

// fullStamp reads "2026-11-29 13:32:45" at the beginning, which is how nearly all lines begin.
func fullStamp(s string) (float64, bool) {
	if len(s) < 19 || s[4] != '-' || s[7] != '-' || s[10] != ' ' || s[13] != ':' || s[16] != ':' || len(s) > 19 && s[19] != ' ' {
		return 0, false
	}
	two := func(i int) int { return int(s[i]-'0')*10 + int(s[i+1]-'0') }
	for i := range 19 {
		if i != 4 && i != 7 && i != 10 && i != 13 && i != 16 && !isDigit(s[i]) {
			return 0, false
		}
	}
	days := dayNumber(two(0)*100+two(2), two(5), two(8))
	return float64(days+1)*86400 + float64(two(11)*3600+two(14)*60+two(17)), true
}

// dayNumber counts days of the Gregorian calendar.
func dayNumber(y, m, d int) int {
	if m <= 2 {
		y--
		m += 12
	}
	return 365*y + y/4 - y/100 + y/400 + (153*(m-3)+2)/5 + d
}

// between is the time from one clock value to a later one. Clocks without a date start again at midnight.
func between(from, to float64) float64 {
	d := to - from
	if d < 0 && d > -86400 && from < 2*86400+1 {
		d += 86400
	}
	return d
}

// decimal reads digits with at most one point, exactly as a general reader would, and nothing else.
func decimal(s string) (float64, bool) {
	mantissa, scale, seen := uint64(0), -1, 0
	for i := range len(s) {
		switch c := s[i]; {
		case isDigit(c):
			if seen++; seen > 15 {
				return 0, false
			}
			mantissa = mantissa*10 + uint64(c-'0')
			if scale >= 0 {
				scale++
			}
		case c == '.' && scale < 0:
			scale = 0
		default:
			return 0, false
		}
	}
	if seen == 0 {
		return 0, false
	}
	if scale > 0 {
		return float64(mantissa) / powers[scale], true
	}
	return float64(mantissa), true
}

var powers = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

package engine

import (
	"strconv"
	"strings"
)

// fieldNames holds what is read again and again: names of fields, in the form in which they are given out.
type fieldNames struct {
	fields map[string]string
}

const maxNames = 256

func (n *fieldNames) field(raw string, form func(string) string) string {
	if name, ok := n.fields[raw]; ok {
		return name
	}
	name := form(raw)
	if n.fields == nil {
		n.fields = map[string]string{}
	}
	if len(n.fields) < maxNames {
		n.fields[strings.Clone(raw)] = name
	}
	return name
}

// pidKeys stand before the number of a process of the server; after is what has to stand behind the number.
var pidKeys = []struct {
	key, after string
	word       bool // key begins a word
}{
	{key: "pid=", word: true}, {key: "parent_pid=", word: true}, {key: "pid ", word: true}, {key: "PID ", word: true}, {key: "server process ["}, {key: "Process ", after: ": "},
}

const maxPIDDigits = 9

// pids notes the processes that a line of the server names as its own.
func (n *fieldNames) pids(line string, into map[int]bool) {
	if len(into) >= maxPIDs || kernelLine(line) {
		return
	}
	line = line[:min(len(line), maxScan)]
	for _, k := range pidKeys {
		for rest, from := line, 0; len(into) < maxPIDs; {
			i := strings.Index(rest, k.key)
			if i < 0 {
				break
			}
			begins := from+i == 0 || !isWord(line[from+i-1])
			rest = rest[i+len(k.key):]
			from += i + len(k.key)
			digits := 0
			for digits < min(len(rest), maxPIDDigits) && isDigit(rest[digits]) {
				digits++
			}
			if pid, err := strconv.Atoi(rest[:digits]); err == nil && pid > 1 && (begins || !k.word) && strings.HasPrefix(rest[digits:], k.after) {
				into[pid] = true
			}
		}
	}
}

func isWord(c byte) bool { return c == '_' || isDigit(c) || isLetter(c) }

func kernelLine(line string) bool {
	return strings.Contains(line, "oom") || strings.Contains(line, "ut of memory:") || strings.Contains(line, "kernel:")
}

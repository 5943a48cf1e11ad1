package engine

import (
	"regexp"
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

var pidText = regexp.MustCompile(`(?:\bpid[= ]|\bPID |server process \[|parent_pid=)(\d{1,9})|Process (\d{1,9}): `)

// pids notes the processes that a line of the server names as its own.
func (n *fieldNames) pids(line string, into map[int]bool) {
	if len(into) >= maxPIDs || !strings.Contains(line, "pid") && !strings.Contains(line, "PID") && !strings.Contains(line, "rocess") {
		return
	}
	if kernelLine(line) {
		return
	}
	for _, m := range pidText.FindAllStringSubmatch(line[:min(len(line), maxScan)], 8) {
		if pid, err := strconv.Atoi(m[1] + m[2]); err == nil && pid > 1 && len(into) < maxPIDs {
			into[pid] = true
		}
	}
}

func kernelLine(line string) bool {
	return strings.Contains(line, "oom") || strings.Contains(line, "ut of memory:") || strings.Contains(line, "kernel:")
}

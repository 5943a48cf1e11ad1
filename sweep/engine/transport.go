package engine

import (
	"bytes"
	"encoding/json"
)

// transport takes off what carriers of logs put in front of each line: docker compose, Kubernetes, journald,
// srun and mpirun, a router's port. What they put there depends on the carrier only, so the forms are fixed;
// a prefix of another form is learned from lines on which a server's own time stamp follows it.
type transport struct {
	learned [][]byte
}

// maxLearned bounds the memory for learned prefixes: a pod or a container gives one each.
const maxLearned = 8

// strip returns the line as the server wrote it. It may be a part of the line that was given.
func (t *transport) strip(line []byte) []byte {
	for range 4 { // carriers are put into one another: compose below journald
		rest := stripOne(line)
		if len(rest) == len(line) {
			break
		}
		line = rest
	}
	for _, p := range t.learned {
		if rest, ok := bytes.CutPrefix(line, p); ok {
			return rest
		}
	}
	if i := ownStamp(line); i > 0 && len(t.learned) < maxLearned && learnable(line[:i]) {
		t.learned = append(t.learned, bytes.Clone(line[:i]))
		return line[i:]
	}
	return line
}

// maxPrefix is how far into a line a carrier's prefix may reach, in bytes.
const maxPrefix = 120

func stripOne(line []byte) []byte {
	if len(line) < 3 {
		return line
	}
	switch c := line[0]; {
	case c == '{':
		return dockerJSON(line)
	case c == '[':
		return bracketed(line)
	case isDigit(c):
		return timeOrTask(line)
	case isLetter(c):
		if rest, ok := journald(line); ok {
			return rest
		}
		return composed(line)
	}
	return line
}

// composed takes off "sglang-1  | ", as docker compose and others write it.
func composed(line []byte) []byte {
	i := 0
	for i < len(line) && i < maxPrefix && (isLetter(line[i]) || isDigit(line[i]) || line[i] == '-' || line[i] == '_' || line[i] == '.') {
		i++
	}
	for i < len(line) && line[i] == ' ' {
		i++
	}
	if i >= len(line) || line[i] != '|' || line[i-1] != ' ' {
		return line
	}
	return afterSpace(line[i+1:])
}

// bracketed takes off "[pod/name/container] ", "[39711] " of a router and "[1,0]<stderr>:" of mpirun.
func bracketed(line []byte) []byte {
	end := bytes.IndexByte(line[:min(len(line), maxPrefix)], ']')
	if end < 2 {
		return line
	}
	inside, rest := line[1:end], line[end+1:]
	switch {
	case bytes.HasPrefix(inside, []byte("pod/")):
		return afterSpace(rest)
	case all(inside, isDigit) && len(inside) > 1 && len(rest) > 0 && rest[0] == ' ':
		return rest[1:]
	case bytes.HasPrefix(rest, []byte("<stdout>:")), bytes.HasPrefix(rest, []byte("<stderr>:")):
		return rest[len("<stdout>:"):]
	}
	return line
}

// timeOrTask takes off "2025-10-29T11:45:58.123456789Z stderr F " and srun's "3: ".
func timeOrTask(line []byte) []byte {
	i := 0
	for i < len(line) && isDigit(line[i]) {
		i++
	}
	if i <= 4 && i+1 < len(line) && line[i] == ':' && line[i+1] == ' ' {
		return line[i+2:]
	}
	if i != 4 || len(line) < 20 || line[4] != '-' || line[7] != '-' || line[10] != 'T' || line[13] != ':' {
		return line
	}
	space := bytes.IndexByte(line[:min(len(line), 48)], ' ')
	if space < 19 {
		return line
	}
	rest := line[space+1:]
	for _, stream := range []string{"stdout F ", "stderr F ", "stdout P ", "stderr P "} {
		if cut, ok := bytes.CutPrefix(rest, []byte(stream)); ok {
			return cut
		}
	}
	return rest
}

// journald takes off "Nov 29 11:45:58 host unit[123]: ". Lines of systemd and of the kernel keep their names:
// they speak of the server.
func journald(line []byte) ([]byte, bool) {
	if len(line) < 18 || line[3] != ' ' || line[6] != ' ' || line[9] != ':' || line[12] != ':' || line[15] != ' ' {
		return nil, false
	}
	head := line[:min(len(line), maxPrefix+16)]
	host := bytes.IndexByte(head[16:], ' ')
	if host < 0 {
		return nil, false
	}
	unit := 16 + host + 1
	colon := bytes.Index(head[unit:], []byte(": "))
	if colon < 0 || bytes.IndexByte(head[unit:unit+colon], ' ') >= 0 {
		return nil, false
	}
	name := head[unit : unit+colon]
	if bytes.HasPrefix(name, []byte("systemd")) || bytes.Equal(name, []byte("kernel")) {
		return line[unit:], true
	}
	return line[unit+colon+2:], true
}

// dockerJSON reads a line of docker's own log files: {"log":"text\n","stream":"stderr","time":"…"}.
func dockerJSON(line []byte) []byte {
	if !bytes.HasPrefix(line, []byte(`{"log":"`)) {
		return line
	}
	var record struct {
		Log string `json:"log"`
	}
	if json.Unmarshal(line, &record) != nil {
		return line
	}
	return bytes.TrimRight(plain([]byte(record.Log)), "\r\n \t")
}

// ownStamp finds a server's own time stamp behind a prefix: "[2025-10-29 11:45:58" or " INFO 10-29 11:45:58".
func ownStamp(line []byte) int {
	head := line[:min(len(line), maxPrefix)]
	if len(head) > 0 && (head[0] == '[' || head[0] == '(' || head[0] == ' ') {
		return -1
	}
	if i := bytes.Index(head, []byte(" [20")); i >= 0 && isStamp(head[i+1:]) {
		return i + 1
	}
	return -1
}

// isStamp reports "[2025-10-29 11:45:58" at the beginning.
func isStamp(b []byte) bool {
	return len(b) >= 20 && b[0] == '[' && b[1] == '2' && b[2] == '0' && b[5] == '-' && b[8] == '-' && b[11] == ' ' && b[14] == ':' && b[17] == ':'
}

// learnable reports text that may be a carrier's: words of names, no message.
func learnable(prefix []byte) bool {
	return !bytes.ContainsAny(prefix, `%"'=`) && bytes.Count(bytes.TrimSpace(prefix), []byte{' '}) <= 2 && !bytes.Contains(prefix, []byte(": "))
}

func afterSpace(b []byte) []byte {
	if len(b) > 0 && b[0] == ' ' {
		return b[1:]
	}
	return b
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func all(b []byte, is func(byte) bool) bool {
	for _, c := range b {
		if !is(c) {
			return false
		}
	}
	return true
}

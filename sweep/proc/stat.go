package proc

import (
	"bytes"
	"errors"
	"strconv"
	"time"
)

// tick is one clock tick of /proc. The kernel shows times to programs in hundredths of a second on
// every architecture that we build for, whatever its own timer does.
const tick = 10 * time.Millisecond

// stat is what we use of /proc/PID/stat.
type stat struct {
	pid, ppid, session int
	comm               string
	state              byte
	ticks              uint64 // user and system time
	threads            int
	start              uint64
	rssPages           int64
}

// alive is false for a process that is dead but not waited for. One whose first thread alone is dead
// shows as a zombie and has further threads.
func (s stat) alive() bool {
	return s.state != 'Z' && s.state != 'X' && s.state != 'x' || s.threads > 1
}

var errStat = errors.New("not the form of /proc/PID/stat")

// parseStat reads one line of /proc/PID/stat. The name may hold spaces and brackets, so the fields
// are counted from the last closing bracket.
func parseStat(line []byte) (stat, error) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return stat{}, errStat
	}
	f := bytes.Fields(line[end+1:])
	if len(f) < 22 || len(f[0]) != 1 {
		return stat{}, errStat
	}
	s := stat{comm: string(line[open+1 : end]), state: f[0][0]}
	var err error
	number := func(b []byte) int64 {
		n, e := strconv.ParseInt(string(b), 10, 64)
		err = errors.Join(err, e)
		return n
	}
	// f[0] is field 3 of the manual page.
	s.pid = int(number(bytes.TrimSpace(line[:open])))
	s.ppid = int(number(f[1]))
	s.session = int(number(f[3]))
	s.ticks = uint64(number(f[11])) + uint64(number(f[12]))
	s.threads = int(number(f[17]))
	s.start = uint64(number(f[19]))
	s.rssPages = number(f[21])
	if err != nil || s.pid <= 0 {
		return stat{}, errStat
	}
	return s, nil
}

package engine

import (
	"regexp"
	"strings"

	"sweep/sweep"
)

// pressure reads lines that tell of a full KV pool and of standing still.
func (r *reader) pressure(s said, at sweep.Evidence) {
	for _, t := range r.grammar.retracts {
		if strings.Contains(s.message, t) {
			r.emit(sweep.LogEvent{Kind: sweep.LogRetraction, Rank: s.rank, Clock: s.clock}, at)
			return
		}
	}
	for _, t := range r.grammar.silences {
		if strings.HasPrefix(s.message, t) {
			r.emit(sweep.LogEvent{Kind: sweep.LogSilence, Value: silence(s.message), Rank: s.rank, Clock: s.clock}, at)
			return
		}
	}
}

var (
	heartbeat = regexp.MustCompile(`tic start time: (\S+?)\. last_heartbeat time: (\S+)`)
	seconds   = regexp.MustCompile(`in (\d+) seconds?`)
)

// silence is for how long the server says that nothing moved.
func silence(message string) float64 {
	if m := heartbeat.FindStringSubmatch(message); m != nil {
		return between(clockSeconds("", m[2]), clockSeconds("", m[1]))
	}
	if m := seconds.FindStringSubmatch(message); m != nil {
		v, _ := decimal(m[1])
		return v
	}
	return 0
}

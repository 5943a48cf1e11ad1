package simulate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// fault is one misbehaviour that was asked for. The forms:
//
//	hang@PHASE          no progress any more once PHASE has begun
//	die@PHASE           scheduler 0 is killed once PHASE has begun
//	slow@PHASE:FACTOR   PHASE takes FACTOR times as long
//	refuse:FLAG         FLAG is not known to this server
//	stream-error@N      the N-th generation ends in an error event
//	mute@N              nothing answers any more once N generations have begun
//	crash@N             scheduler 0 is killed when the N-th generation begins
//	leave-child         a process in a session of its own survives the server
//	ignore-term         SIGTERM is ignored while serving
//
// The phases: import, args, dist, weights, kv, graph, host_cache, warmup.
type fault struct {
	kind  string
	phase string
	n     int64   // of mute, crash, stream-error
	value float64 // of slow
	flag  string  // of refuse
}

var faultPhases = []string{"import", "args", "dist", "weights", "kv", "graph", "host_cache", "warmup"}

func parseFault(text string) (fault, error) {
	kind, rest, _ := strings.Cut(text, "@")
	switch kind {
	case "hang", "die", "slow":
		phase, factor, has := strings.Cut(rest, ":")
		f := fault{kind: kind, phase: phase}
		if !slices.Contains(faultPhases, phase) {
			return f, fmt.Errorf("fault %q: no phase %q: there are %s", text, phase, strings.Join(faultPhases, ", "))
		}
		if (kind == "slow") != has {
			return f, fmt.Errorf("fault %q: want hang@PHASE, die@PHASE or slow@PHASE:FACTOR", text)
		}
		if has {
			v, err := strconv.ParseFloat(factor, 64)
			if err != nil || v <= 0 {
				return f, fmt.Errorf("fault %q: %q is no factor", text, factor)
			}
			f.value = v
		}
		return f, nil
	case "mute", "crash", "stream-error":
		n, err := strconv.ParseInt(rest, 10, 64)
		if err != nil || n < 1 {
			return fault{}, fmt.Errorf("fault %q: want %s@N with a whole number from 1", text, kind)
		}
		return fault{kind: kind, n: n}, nil
	case "leave-child", "ignore-term":
		if rest == "" {
			return fault{kind: kind}, nil
		}
	}
	if flag, ok := strings.CutPrefix(text, "refuse:"); ok && flag != "" {
		return fault{kind: "refuse", flag: strings.TrimPrefix(flag, "--")}, nil
	}
	return fault{}, fmt.Errorf("no fault %q: there are hang@PHASE, die@PHASE, slow@PHASE:FACTOR, refuse:FLAG, stream-error@N, mute@N, crash@N, leave-child, ignore-term", text)
}

type faults []fault

func (fs faults) has(kind string) bool {
	return slices.ContainsFunc(fs, func(f fault) bool { return f.kind == kind })
}

func (fs faults) at(kind, phase string) bool {
	return slices.ContainsFunc(fs, func(f fault) bool { return f.kind == kind && f.phase == phase })
}

// factor is how much longer a phase takes.
func (fs faults) factor(phase string) float64 {
	x := 1.0
	for _, f := range fs {
		if f.kind == "slow" && f.phase == phase {
			x *= f.value
		}
	}
	return x
}

// count is N of a counted fault; 0: not asked for.
func (fs faults) count(kind string) int64 {
	for _, f := range fs {
		if f.kind == kind {
			return f.n
		}
	}
	return 0
}

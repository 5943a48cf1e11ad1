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
//	keep-alive@N        the same, with a comment on each open stream each second
//	empty@N             from the N-th generation on answers are streams without a token
//	crash@N             scheduler 0 is killed when the N-th generation begins
//	exhaust@N           the scheduler dies of its own count of the KV pool when the N-th generation begins
//	oom-kill@WHEN       the kernel's OOM killer ends scheduler 0
//	stranger@WHEN:GIB   another process takes so much memory of the first GPU
//	crowd@WHEN:GIB      another process takes so much of the host's memory
//	garbage             each answer is one token again and again
//	babble              answers are not those of a healthy server
//	no-model            the model cannot be read
//	force:FLAG          FLAG, a switch, is on whatever was asked
//	leave-child         a process in a session of its own survives the server
//	ignore-term         SIGTERM is ignored while serving
//	escape:WAY          a process tries to outlive the server: setsid (in a session of its own), fork (the child of a child that
//	                    is gone), rename (with another name, arguments and environment), deaf (to SIGTERM, SIGINT and SIGHUP),
//	                    orphan (on SIGTERM the launched process kills itself at once and leaves it behind)
//	hoard@WHEN:GIB      the launched process really takes so much memory of this machine
//	keep-memory:GIB     so much of each GPU's memory stays in use after the server's end, until the GPU is reset
//	wedge:GIB           the same, and no reset helps
//
// The phases: import, args, dist, weights, kv, graph, host_cache, warmup. WHEN is a phase that begins, or N: a generation.
type fault struct {
	kind  string
	phase string
	n     int64   // a generation
	value float64 // the factor of slow, the size of what others take in GiB
	flag  string  // of refuse and force
}

var faultPhases = []string{"import", "args", "dist", "weights", "kv", "graph", "host_cache", "warmup"}

// faultForms are the forms for a person.
const faultForms = "hang@PHASE, die@PHASE, slow@PHASE:FACTOR, refuse:FLAG, stream-error@N, mute@N, keep-alive@N, empty@N, crash@N, exhaust@N, " +
	"oom-kill@WHEN, stranger@WHEN:GIB, crowd@WHEN:GIB, garbage, babble, no-model, force:FLAG, leave-child, ignore-term, escape:WAY, hoard@WHEN:GIB, keep-memory:GIB, wedge:GIB"

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
	case "mute", "keep-alive", "empty", "crash", "exhaust", "stream-error":
		n, err := strconv.ParseInt(rest, 10, 64)
		if err != nil || n < 1 {
			return fault{}, fmt.Errorf("fault %q: want %s@N with a whole number from 1", text, kind)
		}
		return fault{kind: kind, n: n}, nil
	case "oom-kill", "stranger", "crowd", "hoard":
		return parseWhen(text, kind, rest)
	case "leave-child", "ignore-term", "garbage", "babble", "no-model":
		if rest == "" {
			return fault{kind: kind}, nil
		}
	}
	if way, ok := strings.CutPrefix(text, "escape:"); ok && slices.Contains(escapeWays, way) {
		return fault{kind: "escape", flag: way}, nil
	}
	if kind, size, ok := strings.Cut(text, ":"); ok && (kind == "keep-memory" || kind == "wedge") {
		v, err := strconv.ParseFloat(size, 64)
		if err != nil || v <= 0 {
			return fault{}, fmt.Errorf("fault %q: %q is no size in GiB", text, size)
		}
		return fault{kind: kind, value: v}, nil
	}
	if kind, flag, ok := strings.Cut(text, ":"); ok && flag != "" && (kind == "refuse" || kind == "force") {
		return fault{kind: kind, flag: strings.TrimPrefix(flag, "--")}, nil
	}
	return fault{}, fmt.Errorf("no fault %q: there are %s", text, faultForms)
}

// parseWhen reads KIND@PHASE or KIND@N, with a size for what others take.
func parseWhen(text, kind, rest string) (fault, error) {
	when, size, has := strings.Cut(rest, ":")
	f := fault{kind: kind, phase: when}
	if n, err := strconv.ParseInt(when, 10, 64); err == nil && n > 0 {
		f.n, f.phase = n, ""
	} else if !slices.Contains(faultPhases, when) {
		return f, fmt.Errorf("fault %q: %q is neither a number from 1 nor a phase: there are %s", text, when, strings.Join(faultPhases, ", "))
	}
	if (kind == "oom-kill") == has {
		return f, fmt.Errorf("fault %q: want oom-kill@WHEN, stranger@WHEN:GIB, crowd@WHEN:GIB or hoard@WHEN:GIB", text)
	}
	if has {
		v, err := strconv.ParseFloat(size, 64)
		if err != nil || v <= 0 {
			return f, fmt.Errorf("fault %q: %q is no size in GiB", text, size)
		}
		f.value = v
	}
	return f, nil
}

// escapeWays are the ways of the fault escape.
var escapeWays = []string{"setsid", "fork", "rename", "deaf", "orphan"}

type faults []fault

func (fs faults) has(kind string) bool {
	return slices.ContainsFunc(fs, func(f fault) bool { return f.kind == kind })
}

func (fs faults) at(kind, phase string) bool {
	return slices.ContainsFunc(fs, func(f fault) bool { return f.kind == kind && f.phase == phase })
}

// due lists what strikes when a phase (or, with an empty one, a generation) begins.
func (fs faults) due(phase string, n int64) faults {
	return slices.DeleteFunc(slices.Clone(fs), func(f fault) bool { return f.phase != phase || f.n != n })
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

package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sweep/sweep"
)

// The classes of causes, the strongest first: what stands higher explains what stands lower. An
// argument that was refused explains everything after it; the death of a child explains only that the
// parent went too.
const (
	classFlag       = iota + 1 // flags, model or device refused
	classConfig                // a check of the flags failed, and a line near it may say more
	classHost                  // host memory refused
	classKilled                // the kernel's OOM killer, proved
	classPort                  // the port is somebody else's
	classTooSmall              // no room for a KV pool, or the device is in use by others
	classOOM                   // device memory ran out, and the line says of what
	classOOMAny                // device memory ran out
	classAccounting            // the engine's own KV pool or request slots
	classCUDA                  // a kernel failed
	classNCCLMemory            // NCCL could not allocate on the device: its memory ran out, unless a kernel failed before
	classRuntime               // a collective, a watchdog, an exception of a scheduler: the earliest counts
	classPeer                  // another rank went away
	classWarmup                // the engine's own warm-up request failed
	classCore                  // the C runtime says that a process died
	classDeath                 // a child died and nobody said why
	classGone                  // the same from one that knows less
	classShell                 // the shell says that the server died
	classStray                 // an exception that may have been handled
	classStopped               // a signal from outside
	classShutdown              // the HTTP part was told to end
)

// verdict names the end of a server. Effects (notices that another process died, wrappers around the
// true failure) are never a cause; of causes in the same class the earliest line counts. The exit code
// alone proves nothing: SGLang ends itself with SIGKILL after almost every failure and after a clean stop.
func verdict(a sweep.Autopsy) sweep.Ending {
	signs := living(a)
	cause := strongest(signs)
	e := sweep.Ending{Exit: exit(a, signs)}
	switch {
	case a.Slow && (cause == nil || cause.Sign.Outcome != sweep.BusyPort):
		e.Outcome, e.Phase = sweep.SlowStart, silentPhase(a)
		e.Detail = fmt.Sprintf("the hard limit for the start passed in phase %s, and it still made progress", e.Phase)
		e.Evidence = a.Last
		return e
	case killedByKernel(a) != nil && (cause == nil || cause.Sign.Priority > classKilled):
		k := killedByKernel(a)
		e.Outcome, e.Phase, e.Detail = sweep.HostKilled, silentPhase(a), killDetail(*k)
		evidence := k.Evidence
		e.Evidence = &evidence
		return e
	case a.OOMKills > 0 && (cause == nil || cause.Sign.Priority > classKilled):
		e.Outcome, e.Phase = sweep.HostKilled, silentPhase(a)
		e.Detail = fmt.Sprintf("the kernel's OOM killer ended %d of the server's processes: host memory ran out", a.OOMKills)
		e.Evidence = notice(signs, a.Last)
		return e
	case a.Hang && (cause == nil || cause.Sign.Priority >= classStray):
		e.Outcome, e.Phase = sweep.HangStart, silentPhase(a)
		if a.Ready {
			e.Outcome = sweep.HangLoad
		}
		e.Detail = fmt.Sprintf("no progress for the limit of phase %s", e.Phase)
		e.Evidence = a.Last
		return e
	case cause == nil || stopped(e.Exit) && cause.Sign.Priority >= classDeath:
		return unexplained(a, signs, e)
	}
	return explained(a, signs, *cause, e)
}

// killedByKernel is the kernel's word that it killed a process of the server.
func killedByKernel(a sweep.Autopsy) *sweep.OOMKill {
	for i, k := range a.Kernel {
		if k.Ours {
			return &a.Kernel[i]
		}
	}
	return nil
}

// living leaves out the signs of before the server was ready, as it survived them, and what broke only
// because it was being stopped. Lines of the kernel in the server's log are nobody's until their process is known.
func living(a sweep.Autopsy) []sweep.LogEvent {
	var ready, stop int64 = -1, -1
	for _, p := range a.Phases {
		if a.Ready && p.Kind == sweep.LogReady {
			ready = max(ready, p.Offset)
		}
	}
	for _, s := range a.Signs {
		if s.Sign.Outcome == sweep.Aborted && s.Sign.Priority == classStopped && s.Offset >= ready {
			stop = s.Offset
			break
		}
	}
	return slices.DeleteFunc(slices.Clone(a.Signs), func(s sweep.LogEvent) bool {
		return s.Offset < ready || s.Sign.Outcome == sweep.HostKilled ||
			stop >= 0 && s.Offset > stop && s.Sign.Priority >= classCUDA && s.Sign.Priority < classStopped
	})
}

func strongest(signs []sweep.LogEvent) *sweep.LogEvent {
	var best *sweep.LogEvent
	for i, s := range signs {
		if !s.Sign.Effect && (best == nil || s.Sign.Priority < best.Sign.Priority) {
			best = &signs[i]
		}
	}
	return best
}

// explained is the ending that a sign gives.
func explained(a sweep.Autopsy, signs []sweep.LogEvent, cause sweep.LogEvent, e sweep.Ending) sweep.Ending {
	e.Outcome, e.Cause, e.Detail = cause.Sign.Outcome, cause.Sign.Cause, cause.Sign.Detail
	e.Phase = phaseOf(a, signs, cause)
	evidence := cause.Evidence
	e.Evidence = &evidence
	switch {
	case e.Outcome == "" && pinning(e.Phase, cause.Sign):
		e.Outcome, e.Detail = sweep.HostShort, "host memory could not be pinned: "+e.Detail
	case e.Outcome == "":
		e.Outcome = oomAt(e.Phase, cause.Sign.Step, a.LastBatch)
		e.Detail = "device memory ran out " + doing[e.Outcome] + ": " + e.Detail
	case e.Outcome == sweep.CrashStart && a.Ready:
		e.Outcome = sweep.CrashLoad
	}
	if cause.Sign.Priority == classShell && slices.ContainsFunc(signs, endsItself) {
		e.Cause, e.Detail = "unknown", "the server ended itself and said nothing of a reason"
		e.Evidence = notice(signs, a.Last)
	}
	if a.Foreign && (e.Outcome.Family() == "oom" || e.Outcome == sweep.KVTooSmall) {
		e.Detail = fmt.Sprintf("a process that is not ours used the device meanwhile, so this is no result of the config (%s: %s)", e.Outcome, e.Detail)
		e.Outcome = sweep.BusyGPU
	}
	return e
}

// pinning reports that it was host memory that the driver refused: it uses the same words for both. The allocator of
// device memory always says how much it tried to get.
func pinning(phase sweep.Phase, s sweep.Sign) bool {
	return s.Step == stepHost || phase == sweep.PhaseHostCache && !strings.Contains(strings.ToLower(s.Detail), "tried to allocate")
}

// phaseOf is the phase in which a sign fell: under load, by the line itself or the stack above it, by
// a later line of the same failure, or by the last mark of its rank before it.
func phaseOf(a sweep.Autopsy, signs []sweep.LogEvent, cause sweep.LogEvent) sweep.Phase {
	if a.Ready {
		if a.Loading {
			return sweep.PhaseLoad
		}
		return sweep.PhaseReady
	}
	marked := markedPhase(a, cause)
	if cause.Phase != "" && marked.Before(cause.Phase) {
		return cause.Phase
	}
	if cause.Sign.Outcome != "" || cause.Sign.Priority == classOOMAny {
		for _, s := range signs {
			if s.Offset >= cause.Offset && s.Rank == cause.Rank && s.Phase != "" && marked.Before(s.Phase) {
				return s.Phase
			}
		}
	}
	return marked
}

// markedPhase is the last phase that began before the sign on its rank; on any rank when that one has no marks.
func markedPhase(a sweep.Autopsy, cause sweep.LogEvent) sweep.Phase {
	own, all := sweep.Phase(""), sweep.PhaseLaunch
	for _, p := range a.Phases {
		if p.Offset > cause.Offset || p.Phase == "" {
			continue
		}
		phase := p.Phase
		if p.Kind == sweep.LogReady { // it said so, and our own request was the end of it
			phase = sweep.PhaseWarmup
		}
		if p.Rank == cause.Rank || p.Rank == "" && phase == sweep.PhaseWarmup { // the HTTP server starts when all ranks are ready
			own = phase
		}
		if all.Before(phase) || p.Rank == cause.Rank {
			all = phase
		}
	}
	if own != "" {
		return own
	}
	return all
}

// silentPhase is the phase when no line explains the end.
func silentPhase(a sweep.Autopsy) sweep.Phase {
	if a.Phase != "" {
		return a.Phase
	}
	last := sweep.LogEvent{Evidence: sweep.Evidence{Offset: 1<<63 - 1}}
	return phaseOf(a, nil, last)
}

// oomAt says which allocation failed, from the phase before ready and from the stack after it.
func oomAt(phase sweep.Phase, step, lastBatch string) sweep.Outcome {
	switch phase {
	case sweep.PhaseGate, sweep.PhaseLaunch, sweep.PhaseDist, sweep.PhaseWeights:
		return sweep.OOMWeights
	case sweep.PhaseKV:
		return sweep.OOMKV
	case sweep.PhaseGraph:
		return sweep.OOMGraph
	case sweep.PhaseHostCache, sweep.PhaseWarmup:
		return sweep.OOMWarmup
	}
	if step == "" {
		step = lastBatch
	}
	if step == "decode" {
		return sweep.OOMDecode
	}
	return sweep.OOMPrefill
}

// doing completes "device memory ran out …".
var doing = map[sweep.Outcome]string{
	sweep.OOMWeights: "while the weights were loaded",
	sweep.OOMKV:      "while the KV pool was allocated",
	sweep.OOMGraph:   "while graphs were captured",
	sweep.OOMWarmup:  "while the server warmed up",
	sweep.OOMPrefill: "in a prefill",
	sweep.OOMDecode:  "in a decode step",
}

// unexplained is the ending when the log says nothing of a cause.
func unexplained(a sweep.Autopsy, signs []sweep.LogEvent, e sweep.Ending) sweep.Ending {
	e.Phase = silentPhase(a)
	e.Evidence = notice(signs, a.Last)
	if e.Exit == nil { // it lives
		return e
	}
	e.Outcome, e.Cause = sweep.CrashStart, "unknown"
	if a.Ready {
		e.Outcome = sweep.CrashLoad
	}
	switch sig := e.Exit.Signal; {
	case stopped(e.Exit):
		e.Outcome, e.Cause = sweep.Aborted, ""
		e.Detail = "stopped by " + cmp.Or(e.Exit.By, "outside")
	case sig == 0:
		e.Detail = fmt.Sprintf("the server ended with exit code %d and said nothing of a reason", e.Exit.Code)
	case sig == sigKill && e.Exit.By != "server":
		e.Cause = "killed"
		e.Detail = "somebody sent SIGKILL to the server; nothing proves who"
	case sig == sigKill:
		e.Detail = "the server ended itself and said nothing of a reason"
	default:
		e.Detail = fmt.Sprintf("the server died by signal %d (%s) and said nothing of a reason", sig, signalMeaning(sig))
	}
	return e
}

// stopped reports an end that somebody asked for.
func stopped(x *sweep.Exit) bool {
	return x != nil && (x.By == "sweep" || x.Signal == sigTerm || x.Signal == sigInt)
}

// notice is the first line that says at least that something died, else the last line of the log.
func notice(signs []sweep.LogEvent, last *sweep.Evidence) *sweep.Evidence {
	for _, s := range signs {
		if s.Sign.Priority >= classDeath || s.Sign.Effect {
			evidence := s.Evidence
			return &evidence
		}
	}
	return last
}

// exit completes who sent the last signal: a server that announced the end of its own tree did it itself.
func exit(a sweep.Autopsy, signs []sweep.LogEvent) *sweep.Exit {
	if a.Exit == nil {
		return nil
	}
	x := *a.Exit
	if x.By == "" && x.Signal == sigKill && slices.ContainsFunc(signs, endsItself) {
		x.By = "server"
	}
	return &x
}

// endsItself reports a line in which the server announces that it ends its own processes.
func endsItself(s sweep.LogEvent) bool {
	line := strings.ToLower(s.Evidence.Text)
	return s.Sign.Effect && (strings.Contains(line, "sigquit") || strings.Contains(line, "kill_process_tree"))
}

// The numbers of the signals that say something, the same on all systems where servers run.
const (
	sigInt  = 2
	sigKill = 9
	sigTerm = 15
)

func signalMeaning(sig int) string {
	switch sig {
	case 4:
		return "illegal instruction: the binary was built for another processor"
	case 6:
		return "abort"
	case 7:
		return "bus error: often a full /dev/shm"
	case 8:
		return "arithmetic error"
	case 11:
		return "segmentation fault"
	}
	return "see signal(7)"
}

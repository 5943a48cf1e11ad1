package engine

import (
	"fmt"
	"slices"
	"strings"

	"sweep/sweep"
)

// share is the flag with which an engine is told how much of the device it may use.
func share(engine string) string {
	switch engine {
	case "vllm":
		return "gpu-memory-utilization"
	case "llama.cpp":
		return "n-gpu-layers or ctx-size"
	}
	return "mem-fraction-static"
}

// advice is what to try next, in one sentence. What helps after one kind of failure is what causes another, so it
// goes by the outcome and never by the server's own standing advice.
func advice(e Explanation, c *chapter) string {
	if e.Outcome == nil {
		return undecided(e)
	}
	flag := share(e.Engine)
	switch o := *e.Outcome; o {
	case sweep.OK:
		return healthy(e)
	case sweep.OOMWeights:
		return "Give the weights more devices (tensor parallel), a smaller data type or another model: no share of memory helps, and every config with the same weights on the same devices ends so."
	case sweep.OOMKV:
		return fmt.Sprintf("Lower %s: the pool that it asks for does not fit beside the weights.", flag)
	case sweep.OOMGraph:
		return fmt.Sprintf("Capture graphs for fewer and smaller batches first, then lower %s a little.", flag)
	case sweep.OOMWarmup:
		return fmt.Sprintf("Lower the number of running requests or %s: nothing is left for the warm-up.", flag)
	case sweep.OOMPrefill:
		return fmt.Sprintf("Lower %s or the chunk of a prefill: the server starts, and the first large prompts do not fit.%s", flag, headroom(c))
	case sweep.OOMDecode:
		return fmt.Sprintf("Lower %s or the number of running requests: a large batch needs more room for its logits.%s", flag, headroom(c))
	case sweep.KVTooSmall:
		if hint, ok := c.facts["max_len_hint"]; ok {
			return fmt.Sprintf("Raise %s, or lower the context to at most %.0f tokens, which is what the engine says would fit.", flag, hint)
		}
		return fmt.Sprintf("Raise %s, or give the weights more devices: this is the opposite of an out-of-memory error.", flag)
	case sweep.KVExhausted:
		return fmt.Sprintf("Try the same once more; then lower the concurrency or raise %s. Less memory would make it worse.", flag)
	case sweep.HostShort:
		return "Ask less of the host's memory: a host cache is counted for each rank, so multiply it by the ranks on this host."
	case sweep.HostKilled:
		return "Ask less of the host's memory, or give the container more of it: the kernel ended the server, the device had nothing to do with it."
	case sweep.BadFlag:
		if f := refusedFlag(c.signs); f != "" {
			return fmt.Sprintf("Correct or drop %s: the same command line fails each time.", f)
		}
		return "Correct the command line: the same one fails each time."
	case sweep.BadModel:
		return "See that the model's name, its files and the right to read them are as they should be; nothing else is worth trying before."
	case sweep.BadGPU:
		return "Use a build of the server for this device, or another device: no setting helps."
	case sweep.BusyGPU:
		return "Find out what holds the device (nvidia-smi), end it, and try the same again: this says nothing of the settings."
	case sweep.BusyPort:
		return "Use another port, or end what listens there, and try the same again."
	case sweep.Aborted:
		return "Nothing: it was stopped from outside. See who sent the signal, and why."
	case sweep.HangStart, sweep.HangLoad:
		return "Keep a stack dump of each rank before it is ended (py-spy dump), then try once more on another port."
	case sweep.InfraDisk:
		return "Free space on that disk and try the same again."
	case sweep.InfraGPU:
		return "Have the device looked at, or reset it: the settings are not the cause."
	default:
		return crashed(e)
	}
}

func headroom(c *chapter) string {
	if v, ok := c.facts["headroom_gib"]; ok {
		return fmt.Sprintf(" It had %.2f GiB left when it became ready.", v)
	}
	return ""
}

func undecided(e Explanation) string {
	if slices.Contains(e.Notes, noteCompanion) {
		return "Look at whether tokens still come: the kernel killed a process beside the server, and requests that need it may wait for ever."
	}
	if e.Phase == sweep.PhaseLoad || e.Phase == sweep.PhaseReady {
		return "Send one small request with a deadline: the log does not show whether the engine still works."
	}
	return fmt.Sprintf("Say how it ended (--exit), or look whether the log still grows: it stops in phase %s.", e.Phase)
}

func healthy(e Explanation) string {
	for _, n := range e.Notes {
		switch n {
		case notePressure:
			return "The server lives, and its KV pool is full: lower the concurrency or make the pool larger before trusting the latency."
		case noteDegraded:
			return "The server lives in a slower mode than others may run in: compare its numbers with care."
		}
	}
	return "Nothing: the server lives."
}

func crashed(e Explanation) string {
	when := "Try the same once more"
	switch e.Cause {
	case "nccl":
		return when + " with NCCL_DEBUG=INFO; if it comes again, look at /dev/shm, at the links between the devices and at the other ranks' logs."
	case "watchdog":
		return when + "; if it comes again, a step hangs: keep the stack dump that the server wrote, and leave out what is new in this config."
	case "cuda":
		return when + "; if it comes again, a kernel is at fault: leave out what is new in this config (speculative decoding, an attention backend)."
	case "detokenizer":
		return "Lower the number of running requests: configs with fewer stay valid."
	case "killed":
		return "Look into the kernel's log or the container's memory events (--kernel-log): SIGKILL alone does not say who sent it."
	}
	if strings.Contains(e.Detail, "another rank or node") {
		return "Look into the logs of the other ranks and nodes: the cause stands there."
	}
	return when + "; if it comes again, the line shown is where to look."
}

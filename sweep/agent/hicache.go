package agent

import (
	"fmt"

	"sweep/sweep"
)

// inertMark begins the note of a load on which the cache in host memory did nothing.
const inertMark = "hicache_inert: "

// hostTier reports whether a server has a prefix cache in host memory, by what it says of itself and, where it
// says nothing, by its flags.
func hostTier(in sweep.Inspection, facts sweep.Values, settings []sweep.Setting) bool {
	if facts["host_pool_tokens"] > 0 || facts["host_pool_gb"] > 0 || in.Effective["enable-hierarchical-cache"] == "true" {
		return true
	}
	size, ok := sweep.SettingValue(settings, "kv-offloading-size") // vLLM
	return ok && size != "off" && size != "0"
}

// hostProof says in a note that the host's cache was not used in a window, and why; "" when it was. Without that
// proof the number is that of a server without one, which a person must know.
func hostProof(lj sweep.LoadJob, facts, window sweep.Values) string {
	hits, counted := window["cached_tokens_host"]
	loads, loaded := window["load_back_tokens"]
	switch {
	case hits > 0 || loads > 0:
		return ""
	case !counted && !loaded:
		return "the cache in host memory is not proved to be used: this server does not count what it finds there"
	}
	return inertMark + "no prompt token came from the host's cache: " + inertReason(lj, facts)
}

// inertReason compares what the load could find again with where there is room for it.
func inertReason(lj sweep.LoadJob, facts sweep.Values) string {
	shared, running := workingSet(lj)
	device, known := facts["kv_tokens"]
	host, sized := facts["host_pool_tokens"]
	switch {
	case shared == 0:
		return "the workload's prompts share nothing, so there is nothing to find again"
	case known && shared+running <= device:
		return fmt.Sprintf("the working set, %.0f tokens of shared prefixes and %.0f of running requests, fits the device's pool of %.0f", shared, running, device)
	case known && sized && host < device:
		return fmt.Sprintf("the host's pool of %.0f tokens is smaller than the device's of %.0f", host, device)
	case known:
		return fmt.Sprintf("the shared prefixes of %.0f tokens do not fit beside %.0f of running requests in the device's pool of %.0f, and still none was read back in this window", shared, running, device)
	}
	return "the size of the device's pool is not known"
}

// workingSet is how many tokens of prefixes a load's prompts share, and how many its running requests hold at
// the most, prefixes left out.
func workingSet(lj sweep.LoadJob) (shared, running float64) {
	for _, pool := range lj.Load.Pools {
		for _, c := range lj.Workload.Classes {
			if c.Name != pool.Class {
				continue
			}
			own := c.Input.Mean() + c.Output.Mean()
			if p := c.SharedPrefix; p != nil {
				prefix := min(float64(p.Tokens), c.Input.Mean())
				shared += float64(p.Groups) * prefix
				own -= prefix
			}
			running += float64(pool.Concurrency) * own
		}
	}
	return shared, running
}

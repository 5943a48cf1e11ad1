package engine

import (
	"math"
	"strconv"
	"strings"

	"sweep/sweep"
)

// sglangMemory: the KV pool is what the fraction of the free memory leaves after the weights.
func sglangMemory() *sweep.MemoryRule {
	return &sweep.MemoryRule{
		Fraction:  "mem-fraction-static",
		Cap:       "max-total-tokens",
		HostCache: sglangHostCache,
		OfHostCache: func(name string) bool {
			return strings.HasPrefix(name, "hicache-") || name == "enable-hierarchical-cache"
		},
		GraphGate:  sglangGraphGate,
		RequestGiB: sglangRequests,
		CellBytes:  cellBytes,
	}
}

// vllmMemory: the KV pool is what the share of the whole memory leaves after weights and activations. vLLM
// does not tell what is left beside it.
func vllmMemory() *sweep.MemoryRule {
	return &sweep.MemoryRule{Fraction: "gpu-memory-utilization"}
}

// sglangRequests: the table that says where each token of a running request lies has a row of 4 bytes a token
// for each request that may run. How many may run is SGLang's own rule (0.5.17): 512 for each time that the
// pool holds the context, at least 2,048 and at most 4,096, and never more than half the pool's tokens.
func sglangRequests(settings []sweep.Setting, tokens, context float64) float64 {
	running := min(max(math.Floor(tokens/context*512), 2048), 4096)
	if text, ok := sweep.SettingValue(settings, "max-running-requests"); ok {
		asked, err := strconv.ParseFloat(text, 64)
		if err != nil || asked <= 0 {
			return 0
		}
		running = asked
	}
	return min(running, math.Floor(tokens/2)) * context * 4 / gib
}

// sglangHostCache reports whether a launch with these settings has a cache in host memory.
func sglangHostCache(settings []sweep.Setting) bool {
	if size, ok := sweep.SettingValue(settings, "hicache-size"); ok {
		if isOff(size) {
			return false
		}
		if _, set := sweep.SettingValue(settings, "enable-hierarchical-cache"); !set {
			return size != "0"
		}
	}
	on, set := sweep.SettingValue(settings, "enable-hierarchical-cache")
	return set && !isOff(on)
}

// prefillGraphGate must be free, in GiB, for SGLang to capture prefill graphs without being told to (0.5.17).
const prefillGraphGate = 4

// sglangGraphGate: settings that turn prefill graphs off, or ask for them, leave nothing to decide.
func sglangGraphGate(settings []sweep.Setting) float64 {
	for _, name := range []string{"disable-cuda-graph", "disable-prefill-cuda-graph", "disable-piecewise-cuda-graph"} {
		if v, ok := sweep.SettingValue(settings, name); ok && !isOff(v) {
			return 0
		}
	}
	for _, name := range []string{"cuda-graph-backend-prefill", "cuda-graph-config"} {
		if _, ok := sweep.SettingValue(settings, name); ok {
			return 0
		}
	}
	if device, _ := sweep.SettingValue(settings, "device"); device == "cpu" {
		return 0
	}
	return prefillGraphGate
}

// vllmDeviceCount: each rank has a device of its own.
func vllmDeviceCount(settings []sweep.Setting) int {
	if device, _ := sweep.SettingValue(settings, "device"); device == "cpu" {
		return 0
	}
	count := countOf(settings)
	return count("tensor-parallel-size", "tp") * count("pipeline-parallel-size", "pp") * count("data-parallel-size", "dp")
}

package engine

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"sweep/sweep"
)

const gib = 1 << 30

// hostMargin is what SGLang itself leaves of the host's memory when it sizes a host cache.
const hostMargin = 10 * gib

// refused is the ending of a launch that is not worth a start.
func refused(rule, format string, args ...any) *sweep.Ending {
	return &sweep.Ending{Outcome: sweep.SkippedPreflight, Phase: sweep.PhaseGate, ImpliedBy: rule, Detail: fmt.Sprintf(format, args...)}
}

// sglangPreflight does what SGLang does too late or not at all: it finds settings that refuse each other,
// ranks without a device, weights larger than the share that they are given, and host caches that together
// are larger than the host, although each rank on its own finds room.
func sglangPreflight(settings []sweep.Setting, m sweep.Machine) *sweep.Ending {
	for _, check := range []func([]sweep.Setting, sweep.Machine) *sweep.Ending{sglangCombinations, sglangDevices, sglangWeights, sglangHostSize, sglangHostRatio} {
		if e := check(settings, m); e != nil {
			return e
		}
	}
	return nil
}

// sglangDeviceCount: each rank has a device of its own.
func sglangDeviceCount(settings []sweep.Setting) int {
	if device, _ := sweep.SettingValue(settings, "device"); device == "cpu" {
		return 0
	}
	return sglangRanks(settings)
}

func sglangDevices(settings []sweep.Setting, m sweep.Machine) *sweep.Ending {
	ranks := sglangDeviceCount(settings)
	if m.GPUCount <= 0 || ranks <= m.GPUCount {
		return nil
	}
	of := "tp-size × pp-size"
	if sglangReplicas(settings) > 1 {
		of += " × dp-size"
	}
	return refused("ranks against devices", "%s = %d ranks need a GPU each, and %s has %d: make them fewer", of, ranks, nameOf(m), m.GPUCount)
}

// sglangWeights: the share of the device that a rank may take must hold its weights. What is free at the
// start is less than the whole device, so that what is refused here cannot work.
func sglangWeights(settings []sweep.Setting, m sweep.Machine) *sweep.Ending {
	fraction, ok := sglangMemory().FractionOf(settings)
	if !ok {
		return nil
	}
	if fraction <= 0 {
		return refused("mem-fraction-static is a share", "mem-fraction-static %v is no share of the device: write a number above 0 and below 1", fraction)
	}
	if m.WeightBytes <= 0 || m.GPUMemoryBytes <= 0 || !asStored(settings) {
		return nil
	}
	count := countOf(settings)
	shards := count("tp-size", "tensor-parallel-size", "tp") * count("pp-size", "pipeline-parallel-size", "pp")
	weights := float64(m.WeightBytes) / float64(shards)
	whole := float64(m.GPUMemoryBytes)
	const slack = 0.95 // files hold a little that is not loaded
	if fraction*whole >= slack*weights {
		return nil
	}
	return refused("weights against mem-fraction-static", "mem-fraction-static %v of %.1f GiB is %.1f GiB, less than the weights of one rank, %.1f GiB: raise it above %.2f, or use more ranks",
		fraction, whole/gib, fraction*whole/gib, weights/gib, math.Ceil(100*weights/whole)/100)
}

// asStored reports that the weights take in memory what they take on disk.
func asStored(settings []sweep.Setting) bool {
	for _, name := range []string{"quantization", "dtype", "load-format", "cpu-offload-gb", "torchao-config", "offload-group-size", "quantize-and-serve"} {
		if v, ok := sweep.SettingValue(settings, name); ok && !isOff(v) && v != "auto" && v != "safetensors" && v != "0" {
			return false
		}
	}
	return true
}

// sglangHostSize: hicache-size is in GB for each rank, and each rank looks at the free memory as if it were alone.
func sglangHostSize(settings []sweep.Setting, m sweep.Machine) *sweep.Ending {
	text, ok := sweep.SettingValue(settings, "hicache-size")
	size, err := strconv.ParseFloat(text, 64)
	if !ok || err != nil || size <= 0 || m.MemAvailableBytes <= 0 {
		return nil
	}
	ranks := sglangRanks(settings)
	need := size * 1e9 * float64(ranks)
	free := float64(m.MemAvailableBytes)
	if need <= free-hostMargin {
		return nil
	}
	of := ""
	if m.MemTotalBytes > 0 {
		of = fmt.Sprintf(" of %s GB", thousands(float64(m.MemTotalBytes)/1e9))
	}
	return refused("ranks × hicache-size against host memory", "hicache-size %s is per rank: %s × %s GB = %s GB of host memory, but only %s GB%s are free on %s; at most %d fits",
		text, manyRanks(ranks), text, thousands(need/1e9), thousands(free/1e9), of, nameOf(m), max(0, int((free-hostMargin)/1e9/float64(ranks))))
}

// manyRanks is a number of ranks in words: "1 rank", "8 ranks".
func manyRanks(n int) string {
	if n == 1 {
		return "1 rank"
	}
	return fmt.Sprintf("%d ranks", n)
}

// sglangHostRatio: without a size the host's cache is a multiple of the device's pool, twice as large unless
// told otherwise, for each rank. That alone may be more than the host has.
func sglangHostRatio(settings []sweep.Setting, m sweep.Machine) *sweep.Ending {
	if size, ok := sweep.SettingValue(settings, "hicache-size"); ok && size != "0" || !sglangHostCache(settings) || m.MemAvailableBytes <= 0 {
		return nil
	}
	if mode, ok := sweep.SettingValue(settings, "hicache-host-memory-mode"); ok && mode != "cache" {
		return nil
	}
	ratio, named := 2.0, "the default hicache-ratio 2"
	if text, ok := sweep.SettingValue(settings, "hicache-ratio"); ok {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || v <= 0 {
			return nil
		}
		ratio, named = v, "hicache-ratio "+text
	}
	pool, from := sglangPoolBytes(settings, m)
	ranks := float64(sglangRanks(settings))
	need, free := ratio*pool*ranks, float64(m.MemAvailableBytes)
	if pool <= 0 || need <= free-hostMargin {
		return nil
	}
	return refused("ranks × hicache-ratio × KV pool against host memory", "%s is a multiple of the KV pool of each rank: %.0f × %g × %s GB (%s) = %s GB of host memory, but only %s GB are free on %s; set hicache-size to at most %d",
		named, ranks, ratio, thousands(pool/1e9), from, thousands(need/1e9), thousands(free/1e9), nameOf(m), max(0, int((free-hostMargin)/1e9/ranks)))
}

// startShare is how much of a device is free at the least when the weights are loaded: 98.6 % on an H200, 98.4 % on
// a card of 96 GB, less what graphs of other libraries may take.
const startShare = 0.96

// sglangPoolBytes is how large the KV pool of one rank will be, at the least: from a forecast, or from what
// the fraction leaves beside the weights of the checkpoint. 0: not known.
func sglangPoolBytes(settings []sweep.Setting, m sweep.Machine) (bytes float64, from string) {
	if f := m.Forecast; f != nil && f.PoolGiB > 0 && f.KVTokens != nil {
		return f.PoolGiB * gib * max(0, 1-f.KVTokens.Within/max(1, f.KVTokens.Value)), "forecast"
	}
	if _, capped := sglangMemory().CapOf(settings); capped || m.WeightBytes <= 0 || m.GPUMemoryBytes <= 0 || !asStored(settings) {
		return 0, ""
	}
	fraction, ok := sglangMemory().FractionOf(settings)
	if !ok || fraction >= 1 {
		return 0, ""
	}
	count := countOf(settings)
	weights := float64(m.WeightBytes) / float64(count("tp-size", "tensor-parallel-size", "tp")*count("pp-size", "pipeline-parallel-size", "pp"))
	const more = 1.1 // what is not divided among ranks stands on each of them
	return startShare*float64(m.GPUMemoryBytes)*fraction - more*weights, "at least, beside the weights"
}

// sglangRanks is how many processes build a host cache each. With data-parallel attention the replicas
// live inside the tensor-parallel ranks, else beside them.
func sglangRanks(settings []sweep.Setting) int {
	count := countOf(settings)
	return count("tp-size", "tensor-parallel-size", "tp") * count("pp-size", "pipeline-parallel-size", "pp") * sglangReplicas(settings)
}

// sglangReplicas is how many copies of the tensor-parallel group there are.
func sglangReplicas(settings []sweep.Setting) int {
	if on(settings, "enable-dp-attention") {
		return 1
	}
	return countOf(settings)("dp-size", "data-parallel-size", "dp")
}

// on reports a flag that is given and not turned off.
func on(settings []sweep.Setting, name string) bool {
	v, ok := sweep.SettingValue(settings, name)
	return ok && !isOff(v)
}

// sglangCombinations finds settings that SGLang refuses together, or a value that it refuses, once it has been
// loading for 15 seconds.
func sglangCombinations(settings []sweep.Setting, _ sweep.Machine) *sweep.Ending {
	refuse := func(format string, args ...any) *sweep.Ending {
		return refused("settings that refuse each other", format, args...)
	}
	value := func(name string) string { v, _ := sweep.SettingValue(settings, name); return v }
	number := func(name string) (float64, bool) {
		v, err := strconv.ParseFloat(value(name), 64)
		return v, err == nil
	}
	count := countOf(settings)
	tp, dp := count("tp-size", "tensor-parallel-size", "tp"), count("dp-size", "data-parallel-size", "dp")
	chunk, chunked := number("chunked-prefill-size")
	page, paged := number("page-size")
	policy := value("schedule-policy")
	size, sized := number("hicache-size")
	switch conservative, set := number("schedule-conservativeness"); {
	case sglangHostCache(settings) && on(settings, "disable-radix-cache"):
		return refuse("hicache keeps the radix cache in host memory, and disable-radix-cache turns that off: take one of the two out")
	case sized && size != math.Trunc(size):
		return refuse("hicache-size %s is no whole number of GB: SGLang takes only those", value("hicache-size"))
	case chunked && paged && chunk > 0 && page > 0 && math.Mod(chunk, page) != 0:
		return refuse("chunked-prefill-size %s is no multiple of page-size %s: write %.0f", value("chunked-prefill-size"), value("page-size"), page*max(1, math.Floor(chunk/page)))
	case on(settings, "enable-dp-attention") && tp%dp != 0:
		return refuse("with enable-dp-attention, tp-size %d must be a multiple of dp-size %d", tp, dp)
	case count("pp-size", "pipeline-parallel-size", "pp") > 1 && on(settings, "speculative-algorithm"):
		return refuse("pipeline parallelism does not go together with speculative decoding: take pp-size or speculative-algorithm out")
	case set && conservative < 0:
		return refuse("schedule-conservativeness %s is below zero: write 0 or more", value("schedule-conservativeness"))
	case on(settings, "enable-priority-scheduling") && policy != "" && !slices.Contains([]string{"fcfs", "lof"}, policy):
		return refuse("enable-priority-scheduling needs schedule-policy fcfs or lof, not %s", sweep.Printable(policy))
	case on(settings, "disable-cuda-graph-padding") && on(settings, "enable-torch-compile"):
		return refuse("disable-cuda-graph-padding does not go together with enable-torch-compile: take one of the two out")
	case sglangHostCache(settings) && count("dcp-size") > 1:
		return refuse("hicache does not work with dcp-size above 1: take one of the two out")
	}
	return sglangShares(settings, refuse)
}

// sglangShares finds values that are no shares, and a host memory mode that lacks its storage.
func sglangShares(settings []sweep.Setting, refuse func(string, ...any) *sweep.Ending) *sweep.Ending {
	for _, name := range []string{"swa-full-tokens-ratio", "hicache-host-memory-fraction"} {
		text, ok := sweep.SettingValue(settings, name)
		if v, err := strconv.ParseFloat(text, 64); ok && err == nil && (v <= 0 || v > 1) {
			return refuse("%s %s is no share: write a number above 0 and at most 1", name, text)
		}
	}
	if mode, _ := sweep.SettingValue(settings, "hicache-host-memory-mode"); mode == "buffer_only" {
		if !on(settings, "hicache-storage-backend") {
			return refuse("hicache-host-memory-mode buffer_only needs a hicache-storage-backend to fill it")
		}
		if policy, _ := sweep.SettingValue(settings, "hicache-write-policy"); policy == "write_back" {
			return refuse("hicache-host-memory-mode buffer_only does not go together with hicache-write-policy write_back: write write_through")
		}
	}
	return nil
}

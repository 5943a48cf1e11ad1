package engine

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"sweep/sweep"
)

// vllm is vLLM's HTTP server, from 0.5 (2024) to 0.32.
func vllm() *sweep.Engine {
	return &sweep.Engine{
		Name:    "vllm",
		Command: []string{"vllm", "serve"},
		Argv:    vllmArgv,
		Owned:   vllmOwned(),
		Environ: []string{
			"VLLM_SERVER_DEV_MODE=1",    // without it no request empties the prefix cache
			"VLLM_LOGGING_LEVEL=INFO",   // phases and facts are lines of this level
			"VLLM_LOGGING_CONFIG_PATH=", // it would replace the form of the log lines
			"VLLM_CONFIGURE_LOGGING=1",
			"VLLM_NO_USAGE_STATS=1",
			"PYTHONUNBUFFERED=1",
			"PYTHONDONTWRITEBYTECODE=", // without byte-compiled files each start takes a minute longer
		},
		Preflight: vllmPreflight,
		ModelForm: sweep.ModelFolder,
		Devices:   vllmDeviceCount,
		Help:      [][]string{{"--help=all"}, {"--help"}}, // the first is of 2025 and later, where --help shows groups only
		Memory:    vllmMemory(),
		NewLog:    func() sweep.LogReader { return newReader(vllmLines()) },
		Verdict:   verdict,
		Stall: map[sweep.Phase]time.Duration{
			sweep.PhaseKV:     30 * time.Minute, // torch.compile runs before the pool is sized, for minutes and in silence
			sweep.PhaseGraph:  30 * time.Minute,
			sweep.PhaseWarmup: 30 * time.Minute,
		},
		Health:   "/health",
		Models:   "/v1/models",
		Generate: "/v1/completions",
		Body: map[string]any{"temperature": 0, "ignore_eos": true,
			"stream_options": map[string]any{"include_usage": true, "continuous_usage_stats": true}},
		TokenIDs:   true,
		Flush:      vllmFlush,
		Inspect:    vllmInspect,
		Sample:     vllmSample,
		Vocabulary: vllmVocabulary,
	}
}

func vllmOwned() map[string]string {
	owned := map[string]string{
		"served-model-name":   "sweep names each launch's model, to know its own server when it answers",
		"config":              "a file of flags would hide what a launch was given: write the flags into the grid",
		"skip-tokenizer-init": "requests go through /v1/completions, which needs the tokenizer", "root-path": "sweep asks the server's routes at their usual paths",
		"disable-log-stats": "sweep reads the server's counters and its lines about running requests", "headless": "sweep needs the HTTP server",
		"api-server-count": "each HTTP process would count only its own requests",
	}
	for reason, names := range map[string]string{
		"sweep gives each launch its own address and ports":              "host port uds master-port data-parallel-rpc-port",
		"the model is the grid's key \"model\"":                          "model model-tag",
		"a launch runs on one host":                                      "nnodes node-rank master-addr data-parallel-address data-parallel-start-rank data-parallel-size-local",
		"sweep sends no key":                                             "api-key",
		"sweep speaks plain HTTP to its own server":                      "ssl-keyfile ssl-certfile ssl-ca-certs ssl-cert-reqs enable-ssl-refresh",
		"sweep reads the server's log at level info":                     "uvicorn-log-level disable-uvicorn-access-log log-config-file",
		"sweep measures text generation":                                 "runner task convert",
		"a server that sleeps, or drops its weights, cannot be measured": "enable-sleep-mode",
		"requests beside the measured ones would be counted with them":   "enable-server-load-tracking",
	} {
		for name := range strings.FieldsSeq(names) {
			owned[name] = reason
		}
	}
	return owned
}

// vllmArgv: the model comes first, without a flag; then what we own, then the grid's flags.
func vllmArgv(s sweep.ServerSpec) []string {
	argv := []string{s.Model, "--served-model-name", s.ServedName, "--host", s.Host, "--port", strconv.Itoa(s.Port)}
	return append(argv, dialect{}.render(s.Settings)...)
}

// vllmPreflight refuses what arithmetic refuses: a share of the device that is none, more ranks than devices, and
// a swap space for each rank that host memory cannot hold.
func vllmPreflight(settings []sweep.Setting, m sweep.Machine) *sweep.Ending {
	refuse := func(rule, format string, args ...any) *sweep.Ending {
		return &sweep.Ending{Outcome: sweep.SkippedPreflight, Phase: sweep.PhaseGate, ImpliedBy: rule, Detail: fmt.Sprintf(format, args...)}
	}
	if text, ok := sweep.SettingValue(settings, "gpu-memory-utilization"); ok {
		if share, err := strconv.ParseFloat(text, 64); err == nil && (share <= 0 || share > 1) {
			return refuse("gpu-memory-utilization is a share", "gpu-memory-utilization %s is no share of the device: write a number above 0 and at most 1", text)
		}
	}
	count := countOf(settings)
	ranks := count("tensor-parallel-size", "tp") * count("pipeline-parallel-size", "pp")
	devices := ranks * count("data-parallel-size", "dp")
	if m.GPUCount > 0 && devices > m.GPUCount {
		return refuse("ranks against devices", "%d ranks (tensor × pipeline × data parallel) need as many devices, and %s has %d", devices, nameOf(m), m.GPUCount)
	}
	for _, flag := range []struct{ name, unit string }{{"swap-space", "GiB for each rank"}, {"cpu-offload-gb", "GiB for each rank"}, {"kv-offloading-size", "GiB for all ranks"}} {
		text, ok := sweep.SettingValue(settings, flag.name)
		size, err := strconv.ParseFloat(text, 64)
		if !ok || err != nil || size <= 0 || m.MemAvailableBytes <= 0 {
			continue
		}
		each := float64(devices)
		if flag.name == "kv-offloading-size" {
			each = 1
		}
		if need := size * gib * each; need > float64(m.MemAvailableBytes) {
			return refuse(flag.name+" against host memory", "%s %s is %s: %s GB of host memory, but only %s GB are free on %s",
				flag.name, text, flag.unit, thousands(need/1e9), thousands(float64(m.MemAvailableBytes)/1e9), nameOf(m))
		}
	}
	return nil
}

// countOf reads whole numbers of settings; 1 when a setting is absent.
func countOf(settings []sweep.Setting) func(names ...string) int {
	return func(names ...string) int {
		text, _ := setting(settings, names...)
		if n, err := strconv.Atoi(text); err == nil && n > 0 {
			return n
		}
		return 1
	}
}

func nameOf(m sweep.Machine) string {
	if m.Name == "" {
		return "this machine"
	}
	return m.Name
}

package engine

import (
	"strconv"
	"strings"
	"time"

	"sweep/sweep"
)

// sglang is SGLang's HTTP server, from 0.4 to 0.5.23.
func sglang() *sweep.Engine {
	return &sweep.Engine{
		Name:    "sglang",
		Command: []string{"python3", "-m", "sglang.launch_server"},
		Argv:    sglangArgv,
		Owned:   sglangOwned(),
		Environ: []string{
			"SGLANG_LOGGING_CONFIG_PATH=", // it would replace the form of the log lines
			"PYTHONUNBUFFERED=1",
			"PYTHONDONTWRITEBYTECODE=", // without byte-compiled files each start takes a minute longer
		},
		Preflight: sglangPreflight,
		ModelForm: sweep.ModelFolder,
		Devices:   sglangDeviceCount,
		Help:      [][]string{{"--help"}},
		Memory:    sglangMemory(),
		NewLog:    func() sweep.LogReader { return newReader(sglangLines()) },
		Verdict:   verdict,
		Stall: map[sweep.Phase]time.Duration{
			sweep.PhaseGraph:     30 * time.Minute, // kernels are compiled while graphs are captured; 22 minutes were seen
			sweep.PhaseHostCache: 30 * time.Minute, // pinning 60 GB takes 50 s, in silence; there are hosts with 2 TB
			sweep.PhaseWarmup:    30 * time.Minute, // DeepGEMM compiles for 10 to 20 minutes
		},
		Health:   "/health",
		Models:   "/v1/models",
		Generate: "/v1/completions",
		Body: map[string]any{"temperature": 0, "ignore_eos": true,
			"stream_options": map[string]any{"include_usage": true, "continuous_usage_stats": true}},
		TokenIDs:   true,
		Flush:      sglangFlush,
		Inspect:    sglangInspect,
		Sample:     sglangSample,
		Vocabulary: sglangVocabulary,
	}
}

func sglangOwned() map[string]string {
	owned := map[string]string{
		"host": "sweep gives each launch its own address", "port": "sweep gives each launch its own ports",
		"served-model-name": "sweep names each launch's model, to know its own server when it answers",
		"log-level":         "sweep reads the server's log at level info", "config": "a file of flags would hide what a launch was given: write the flags into the grid",
		"skip-tokenizer-init": "requests go through /v1/completions, which needs the tokenizer", "base-gpu-id": "devices are chosen by the host's key \"gpus\"",
		"gpu-id-step": "devices are chosen by the host's key \"gpus\"", "fastapi-root-path": "sweep asks the server's routes at their usual paths",
	}
	for reason, names := range map[string]string{
		"the model is the grid's key \"model\"":     "model-path model",
		"sweep gives each launch its own ports":     "nccl-port dist-init-addr nccl-init-addr grpc-port",
		"a launch runs on one host":                 "nnodes node-rank",
		"sweep sends no key":                        "api-key admin-api-key",
		"sweep speaks plain HTTP to its own server": "ssl-keyfile ssl-certfile ssl-ca-certs ssl-keyfile-password grpc-mode smg-grpc-mode",
		"sweep measures text generation":            "is-embedding",
	} {
		for name := range strings.FieldsSeq(names) {
			owned[name] = reason
		}
	}
	return owned
}

// sglangArgv: what we own, then the grid's flags, then what they imply. The launch's second port is NCCL's.
// Counters are on unless the grid says off: without them no client's number can be held against the server's.
func sglangArgv(s sweep.ServerSpec) []string {
	argv := []string{"--model-path", s.Model, "--served-model-name", s.ServedName, "--host", s.Host, "--port", strconv.Itoa(s.Port), "--nccl-port", strconv.Itoa(s.Port + 1)}
	settings := s.Settings
	if _, set := sweep.SettingValue(settings, "enable-metrics"); !set {
		argv = append(argv, "--enable-metrics")
	}
	size, sized := sweep.SettingValue(settings, "hicache-size")
	if sized && isOff(size) { // no host cache at all, whatever the flags of every launch say
		settings = append(settings[:len(settings):len(settings)], sweep.Setting{Name: "enable-hierarchical-cache", Values: []string{"off"}})
	}
	argv = append(argv, dialect{}.render(settings)...)
	if _, set := sweep.SettingValue(s.Settings, "enable-hierarchical-cache"); sized && !isOff(size) && size != "0" && !set {
		argv = append(argv, "--enable-hierarchical-cache")
	}
	return argv
}

// thousands writes a number without decimals and with commas.
func thousands(v float64) string {
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

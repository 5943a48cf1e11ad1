package sweep

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// otherWords are what people call a section of a grid who come from other tools, and parts that they
// write at the top, each with the section that it is or belongs to.
var otherWords = map[string]string{
	"args": "server", "extra_args": "server", "flags": "server", "options": "server", "server_args": "server", "server_flags": "server",
	"axes": "sweep", "grid": "sweep", "matrix": "sweep", "parameters": "sweep", "params": "sweep", "search_space": "sweep",
	"environment": "env", "gpus": "hosts", "gpu": "hosts", "devices": "hosts", "simulate": "hosts", "ssh": "hosts",
	"classes": "workloads", "input": "workloads", "output": "workloads", "slo": "workloads", "scenarios": "workloads", "datasets": "workloads",
	"concurrency": "load", "concurrencies": "load", "levels": "load",
	"warmup": "measure", "window": "measure", "duration": "measure",
	"timeout": "limits", "timeouts": "limits", "start": "limits", "stall": "limits", "runs": "repeats", "num_runs": "repeats",
}

// unknownKey says what would be right instead of a key that a section does not know.
func unknownKey(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if word := otherWords[FlatName(strings.ToLower(name))]; slices.Contains(known, word) {
		return fmt.Sprintf("that is %q, or a part of it; 'sweep help grid' shows each key", word)
	}
	return didYouMean(name, known)
}

// needed are the keys that every grid has, each as it would be added.
var needed = []struct{ name, example string }{
	{"engine", "engine: sglang"},
	{"model", "model: a path or a hub id"},
	{"workloads", "workloads: {chat: {classes: {short: {input: 800, output: 200}}}}"},
	{"load", "load: [{workload: chat, concurrency: [16, 64]}]"},
}

// fromTo is a range as people write it who have not seen ours.
var fromTo = regexp.MustCompile(`^([0-9.]+k?) ?(?:-|–|:|,|\.\.|\.\.\.|to) ?([0-9.]+k?)$`)

// lengthRemedy says how a length is written: as the range that was meant where one can be seen.
func lengthRemedy(s string) string {
	if m := fromTo.FindStringSubmatch(s); m != nil {
		return fmt.Sprintf("write %s..%s", m[1], m[2])
	}
	return ""
}

// seriesRemedy says how a range of values is written, where one can be seen in a text that is none.
func seriesRemedy(s string) string {
	if m := fromTo.FindStringSubmatch(s); m != nil {
		return fmt.Sprintf("write a range with its step as in %s:%s:STEP, or a ladder as in 1:256:x2", m[1], m[2])
	}
	return ""
}

// underscored warns of a flag that no server has: all three write their names with dashes.
func (r *reading) underscored(f field) {
	if strings.Contains(f.name, "_") && slices.Contains([]string{"sglang", "vllm", "llama.cpp"}, r.grid.Engine) {
		r.warn(f.key, "write "+strings.ReplaceAll(f.name, "_", "-"), "flag %q is passed on with its _, and %s writes its flags with -", f.name, r.grid.Engine)
	}
}

package main

import (
	"bytes"
	"strings"
	"testing"
)

// Everything after "simulate" belongs to the simulator: its flags are not ours, and its exit codes pass through.
func TestSimulate(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"simulate profiles", 0, "kimi-k2.5-8xrtx6000\t"},
		{"simulate meminfo --profile kimi-k2.5-8xrtx6000", 0, "MemTotal:       438476562 kB\n"},
		{"simulate nvidia-smi --profile llama-8b-24gb --query-gpu=name --format=csv,noheader", 0, "NVIDIA L4\n"},
		{"simulate sglang --profile llama-8b-24gb --help", 0, "--mem-fraction-static"},
		{"simulate sglang --profile llama-8b-24gb --no-such-flag", 2, "error: the following arguments are required: --model-path/--model"},
		{"simulate sglang --profile one-card", 2, `no profile "one-card"`},
		{"simulate vllm", 2, `no "vllm"`},
		{"simulate", 2, "usage: sweep simulate sglang"},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), append([]string{"sweep"}, strings.Fields(c.args)...), strings.NewReader(""), &out, &errs)
		if text := out.String() + errs.String(); code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s: exit %d, want %d and %q in %.300s", c.args, code, c.code, c.want, text)
		}
	}
}

package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sweep/sweep"
)

func set(pairs ...string) []sweep.Setting {
	var out []sweep.Setting
	for _, p := range pairs {
		name, value, _ := strings.Cut(p, "=")
		out = append(out, sweep.Setting{Name: name, Values: strings.Split(value, "|")})
	}
	return out
}

func TestArgv(t *testing.T) {
	spec := sweep.ServerSpec{Model: "/m", ServedName: "night-1", Host: "127.0.0.1", Port: 30000}
	bare := "--model-path /m --served-model-name night-1 --host 127.0.0.1 --port 30000 --nccl-port 30001"
	sglang := bare + " --enable-metrics"
	llama := "-m /m --host 127.0.0.1 --port 30000 --alias night-1 --metrics --slots"
	for _, c := range []struct {
		engine   string
		settings []sweep.Setting
		want     string
	}{
		{"sglang", nil, sglang},
		{"sglang", set("tp-size=8", "trust-remote-code=true", "mem-fraction-static=0.80", "enable-metrics=false"), bare + " --tp-size 8 --trust-remote-code --mem-fraction-static 0.80"},
		{"sglang", set("enable-metrics=true", "tp-size=2"), bare + " --enable-metrics --tp-size 2"},
		{"sglang", set("cuda-graph-bs-decode=1|2|4"), sglang + " --cuda-graph-bs-decode 1 2 4"},
		{"sglang", set("hicache-size=48", "tp-size=8"), sglang + " --hicache-size 48 --tp-size 8 --enable-hierarchical-cache"},
		{"sglang", set("hicache-size=48", "enable-hierarchical-cache=true"), sglang + " --hicache-size 48 --enable-hierarchical-cache"},
		{"sglang", set("hicache-size=48", "enable-hierarchical-cache=false"), sglang + " --hicache-size 48"},
		{"sglang", set("hicache-size=off", "enable-hierarchical-cache=true"), sglang},
		{"sglang", set("hicache-size=off"), sglang},
		{"sglang", set("hicache-size=0"), sglang + " --hicache-size 0"},
		{"sglang", set("mem-fraction-static=0.9", "tp-size=2", "mem-fraction-static=0.85"), sglang + " --tp-size 2 --mem-fraction-static 0.85"},
		{"sglang", set(`json-model-override-args={"a": "$(x) ;"}`), sglang + ` --json-model-override-args|{"a": "$(x) ;"}`},
		{"llama.cpp", nil, llama + " --offline --no-ui"},
		{"llama.cpp", set("c=4096", "np=4", "t=1", "ctk=q8_0", "cache-ram=0", "fa=off", "cont-batching=true"), llama + " --offline --no-ui -c 4096 -np 4 -t 1 -ctk q8_0 --cache-ram 0 -fa off --cont-batching"},
		{"llama.cpp", set("ui=true", "offline=off", "ctx-size=512", "flash-attn=on"), llama + " --ui --ctx-size 512 --flash-attn on"},
	} {
		eng, _ := Lookup(c.engine)
		spec.Settings = c.settings
		settings := fmt.Sprint(c.settings)
		got := eng.Argv(spec)
		want := strings.Fields(c.want)
		if head, word, ok := strings.Cut(c.want, "|"); ok {
			want = append(strings.Fields(head), word)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s %v:\nhave %q\nwant %q", c.engine, c.settings, got, want)
		}
		if again := eng.Argv(spec); !slices.Equal(got, again) || settings != fmt.Sprint(c.settings) {
			t.Errorf("%s: Argv changes its settings", c.engine)
		}
	}
}

func TestOwnedFlagsHaveReasons(t *testing.T) {
	for _, name := range Names() {
		eng, ok := Lookup(name)
		if !ok || eng.Name != name {
			t.Fatalf("Lookup(%q) gives %v", name, eng)
		}
		spec := sweep.ServerSpec{Model: "M", ServedName: "N", Host: "H", Port: 1}
		for _, arg := range eng.Argv(spec) { // what we set, a grid may not; but it may turn these off
			flag := strings.TrimLeft(arg, "-")
			if flag == arg || flag == "offline" || flag == "no-ui" || flag == "enable-metrics" {
				continue
			}
			if eng.Owned[flag] == "" {
				t.Errorf("%s sets --%s and does not own it", name, flag)
			}
		}
		for flag, reason := range eng.Owned {
			if reason == "" || strings.HasPrefix(flag, "-") {
				t.Errorf("%s: owned flag %q has the reason %q", name, flag, reason)
			}
		}
	}
	if _, ok := Lookup("vllmm"); ok {
		t.Error("an unknown engine is found")
	}
}

func TestPreflight(t *testing.T) {
	eng, _ := Lookup("sglang")
	big := sweep.Machine{Name: "gpu1", MemAvailableBytes: 439e9, MemTotalBytes: 449e9}
	for _, c := range []struct {
		settings []sweep.Setting
		machine  sweep.Machine
		want     string
	}{
		{set("tp-size=8", "hicache-size=300"), big, "hicache-size 300 is per rank: 8 ranks × 300 GB = 2,400 GB of host memory, but only 439 GB of 449 GB are free on gpu1; at most 53 fits"},
		{set("tp-size=8", "hicache-size=54"), big, "hicache-size 54 is per rank: 8 ranks × 54 GB = 432 GB of host memory, but only 439 GB of 449 GB are free on gpu1; at most 53 fits"},
		{set("tp-size=8", "hicache-size=53"), big, ""},
		{set("tp-size=8", "hicache-size=48"), big, ""},
		{set("tp-size=4", "pp-size=2", "dp-size=2", "hicache-size=30"), big, "hicache-size 30 is per rank: 16 ranks × 30 GB = 480 GB of host memory, but only 439 GB of 449 GB are free on gpu1; at most 26 fits"},
		{set("tp-size=8", "dp-size=8", "enable-dp-attention=true", "hicache-size=50"), big, ""},
		{set("tp-size=8", "hicache-size=off"), big, ""},
		{set("tp-size=8"), big, ""},
		{set("tp-size=8", "hicache-size=300"), sweep.Machine{}, ""}, // nothing known, nothing claimed
		{set("hicache-size=300"), sweep.Machine{MemAvailableBytes: 5e9}, "hicache-size 300 is per rank: 1 rank × 300 GB = 300 GB of host memory, but only 5 GB are free on this machine; at most 0 fits"},
	} {
		got := eng.Preflight(c.settings, c.machine)
		switch {
		case c.want == "" && got != nil:
			t.Errorf("%v: have %q, want none", c.settings, got.Detail)
		case c.want != "" && (got == nil || got.Detail != c.want || got.Outcome != sweep.SkippedPreflight || got.Phase != sweep.PhaseGate):
			t.Errorf("%v:\nhave %+v\nwant %q", c.settings, got, c.want)
		}
	}
}

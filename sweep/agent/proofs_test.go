package agent

import (
	"maps"
	"strings"
	"testing"

	"sweep/sweep"
)

func TestHostProof(t *testing.T) {
	t.Parallel()
	load := func(groups, prefix int) sweep.LoadJob {
		c := sweep.Class{Name: "short", Input: sweep.Range{Min: 800, Max: 1200}, Output: sweep.Range{Min: 200, Max: 200}}
		if groups > 0 {
			c.SharedPrefix = &sweep.SharedPrefix{Groups: groups, Tokens: prefix}
		}
		return sweep.LoadJob{Load: sweep.Load{Workload: "w", Pools: []sweep.Pool{{Class: "short", Concurrency: 10}}}, Workload: sweep.Workload{Name: "w", Classes: []sweep.Class{c}}}
	}
	facts := sweep.Values{"kv_tokens": 100_000, "host_pool_tokens": 500_000}
	none := sweep.Values{"cached_tokens_host": 0, "load_back_tokens": 0}
	for name, c := range map[string]struct {
		load          sweep.LoadJob
		facts, window sweep.Values
		want          string // part of the note; "": none
	}{
		"used":                         {load(400, 640), facts, sweep.Values{"cached_tokens_host": 5, "load_back_tokens": 0}, ""},
		"read back":                    {load(400, 640), facts, sweep.Values{"load_back_tokens": 9}, ""},
		"nothing is shared":            {load(0, 0), facts, none, "hicache_inert: no prompt token came from the host's cache: the workload's prompts share nothing"},
		"it fits the device":           {load(10, 640), facts, none, "6400 tokens of shared prefixes and 5600 of running requests, fits the device's pool of 100000"},
		"the host has less":            {load(400, 640), sweep.Values{"kv_tokens": 100_000, "host_pool_tokens": 50_000}, none, "the host's pool of 50000 tokens is smaller than the device's of 100000"},
		"nothing explains it":          {load(400, 640), facts, none, "256000 tokens do not fit beside 5600"},
		"a prefix longer than prompts": {load(10, 5000), facts, none, "10000 tokens of shared prefixes and 2000 of running"},
		"nobody counts":                {load(400, 640), facts, sweep.Values{}, "not proved to be used"},
	} {
		got := hostProof(c.load, c.facts, c.window)
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestDegenerate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"": true, "  \n\t ": true, "!!!!!!!!!!!!!!!!": true, strings.Repeat(" the", 16): true, strings.Repeat("\ufffd", 16): true, strings.Repeat(" antidis", 16): true,
		" 121, 122, 123, 124, 125,": false, " Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday, Monday": false, " Paris.\nQuestion: What is the capital of Italy? Answer: Rome.": false,
		strings.Repeat(" ab cd", 8): false,
	} {
		if got := degenerate(answer{Text: text, Tokens: 16}); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if degenerate(answer{Text: "aaa", Tokens: 3}) {
		t.Error("three tokens are too few to tell")
	}
}

func TestRankFacts(t *testing.T) {
	t.Parallel()
	got := rankFacts(map[string]map[string]float64{
		"weights_gib":      {"TP0": 70.5, "TP1": 70.25, "": 1},
		"headroom_gib":     {"TP0": 5.47, "TP1": 5.47},
		"graph_gib":        {"": 1.38},
		"host_pool_gb":     {"TP0": 48, "TP1": 48},
		"host_pool_tokens": {"TP0": 683061, "TP1": 683061},
		"kv_tokens":        {"TP0": 1, "TP1": 2},
	})
	want := sweep.Values{"weights_gib_per_rank": 70.5, "weights_gib_total": 140.75, "host_pool_gb_per_rank": 48, "host_pool_gb_total": 96,
		"host_pool_tokens_per_rank": 683061, "host_pool_tokens_total": 1366122}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

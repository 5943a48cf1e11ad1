package report

import (
	"slices"
	"strings"

	"sweep/sweep"
)

// Better says which direction of a metric is good.
type Better int

// The directions.
const (
	Neither Better = iota
	Higher
	Lower
)

// Metric is one number of a record that tables and pictures can show.
type Metric struct {
	Name     string // key in cells.jsonl
	Title    string // for a column
	Unit     string
	Better   Better
	Decimals int  // at a magnitude of hundreds
	Scales   bool // small numbers get more decimals
}

// Of returns the metric's value in a record. A record that was not measured well has facts of its
// launch, never a measured number.
func (m Metric) Of(r sweep.Record) (float64, bool) {
	if withheld(r) != "" && !isFact(m.Name) {
		return 0, false
	}
	v, ok := r.Values[m.Name]
	return v, ok
}

// ForClass is the metric of one class of requests: "p99_ttft_ms" becomes "short_p99_ttft_ms". An empty
// class is all of them.
func (m Metric) ForClass(class string) Metric {
	if class != "" {
		m.Name = class + "_" + m.Name
	}
	return m
}

// metrics lists the metrics that tables show; every other value is in cells.csv all the same.
func metrics() []Metric {
	return []Metric{
		{"output_throughput", "tok/s", "tokens/s", Higher, 0, true},
		{"request_throughput", "req/s", "requests/s", Higher, 2, false},
		{"request_goodput", "good req/s", "requests/s", Higher, 2, false},
		{"median_ttft_ms", "TTFT p50", "ms", Lower, 0, true},
		{"median_tpot_ms", "TPOT p50", "ms", Lower, 0, true},
		{"p99_itl_ms", "ITL p99", "ms", Lower, 0, true},
		{"median_e2e_latency_ms", "E2E p50", "ms", Lower, 0, true},
		{"kv_tokens", "KV tokens", "tokens", Higher, 0, false},
		{"headroom_gib", "headroom", "GiB", Higher, 2, false},
		{"headroom_min_gib", "least headroom", "GiB", Higher, 2, false},
		{"running", "running", "requests", Higher, 1, false},
		{"queued", "queued", "requests", Lower, 1, false},
		{"token_usage", "usage", "", Neither, 2, false},
		{"token_usage_over_085", "usage > 0.85", "share of time", Lower, 2, false},
		{"retractions", "retractions", "", Lower, 0, false},
		{"cached_share_host", "host hits", "share", Higher, 2, false},
		{"client_server_ratio", "client/server", "", Neither, 3, false},
		{"start_s", "start", "s", Lower, 0, true},
	}
}

// metric finds a metric of the table by its name.
func metric(name string) Metric {
	all := metrics()
	if i := slices.IndexFunc(all, func(m Metric) bool { return m.Name == name }); i >= 0 {
		return all[i]
	}
	m := Metric{Name: name, Title: name, Decimals: 2, Scales: true}
	if strings.HasSuffix(name, "_ms") {
		m.Unit, m.Better, m.Decimals = "ms", Lower, 0
	}
	return m
}

// throughput is the metric that ranks configs.
func throughput() Metric { return metric("output_throughput") }

// isFact reports the values that a launch has whether or not a load could be measured on it.
func isFact(name string) bool {
	switch name {
	case "kv_tokens", "weights_gib", "graph_gib", "headroom_gib", "headroom_min_gib", "host_pool_tokens",
		"host_pool_gb", "avail_after_weights_gib", "max_running_requests", "context_length", "start_s", "stop_s", "harness_s":
		return true
	}
	return false
}

// withheld says why a record's measured numbers may not be shown; "" when they may.
func withheld(r sweep.Record) string {
	switch {
	case r.Outcome != sweep.OK:
		return string(r.Outcome)
	case r.Verdict == "client_bound":
		return "client-bound"
	}
	for _, note := range r.Notes {
		if strings.HasPrefix(note, "withheld") {
			return note
		}
	}
	return ""
}

// doubtful says why a number may not name a winner although it was measured: the server's answers look wrong, or
// it did not run with what its label says. It is "" when nothing speaks against it.
func doubtful(r sweep.Record) string {
	for _, note := range r.Notes {
		if strings.HasPrefix(note, "output_suspect") || strings.HasPrefix(note, "mislabelled") {
			return note
		}
	}
	return ""
}

// inert says that a setting was never exercised, so that the numbers are those of the config without it: a note
// of the record does ("hicache inert: …"), or the server has a cache in host memory and found nothing in it.
// It is "" when nothing is known of it.
func inert(r sweep.Record) string {
	for _, note := range r.Notes {
		for word := range strings.FieldsFuncSeq(note, func(c rune) bool { return c < 'a' || c > 'z' }) {
			if word == "inert" {
				return note
			}
		}
	}
	hits, counted := r.Values["cached_tokens_host"]
	if counted && hits == 0 && r.Values["load_back_tokens"] == 0 && r.Values["host_pool_tokens"] > 0 {
		return "inert: no prompt token was found in the host's cache, so this is the number of a server without one"
	}
	return ""
}

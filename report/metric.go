package report

import (
	"slices"
	"strings"
	"sync"

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

	from func(r sweep.Record) (float64, bool) // of a metric that follows from others
}

// Of returns the metric's value in a record. A record that was not measured well has facts of its
// launch, never a measured number.
func (m Metric) Of(r sweep.Record) (float64, bool) { return m.of(&r) }

func (m Metric) of(r *sweep.Record) (float64, bool) {
	v, ok := 0.0, false
	if m.from != nil {
		v, ok = m.from(*r)
	} else {
		v, ok = r.Values[m.Name]
	}
	if !ok || withheld(*r) != "" && !isFact(m.Name) {
		return 0, false
	}
	return v, true
}

// ForClass is the metric of one class of requests: "p99_ttft_ms" becomes "short_p99_ttft_ms". An empty
// class is all of them.
func (m Metric) ForClass(class string) Metric {
	if class != "" {
		m.Name = class + "_" + m.Name
	}
	return m
}

// metrics lists the metrics that tables show; every other value is in cells.csv all the same. The list is made once and shared: a night
// of thousands of cells asks for it hundreds of thousands of times. Nobody may change it.
var metrics = sync.OnceValue(func() []Metric {
	return []Metric{
		{Name: "output_throughput", Title: "tok/s", Unit: "tokens/s", Better: Higher, Scales: true},
		{Name: "input_throughput", Title: "input tok/s", Unit: "tokens/s", Better: Higher, Scales: true},
		{Name: "total_throughput", Title: "total tok/s", Unit: "tokens/s", Better: Higher, Scales: true},
		{Name: "output_throughput_per_gpu", Title: "tok/s/GPU", Unit: "tokens/s", Better: Higher, Scales: true, from: perGPU("output_throughput")},
		{Name: "input_throughput_per_gpu", Title: "input tok/s/GPU", Unit: "tokens/s", Better: Higher, Scales: true, from: perGPU("input_throughput")},
		{Name: "output_throughput_per_user", Title: "tok/s/user", Unit: "tokens/s", Better: Higher, Decimals: 1, from: perUser},
		{Name: "usd_per_million_output_tokens", Title: "$/M tokens", Unit: "$", Better: Lower, Decimals: 3, from: perMillion},
		{Name: "request_throughput", Title: "req/s", Unit: "requests/s", Better: Higher, Decimals: 2},
		{Name: "request_goodput", Title: "good req/s", Unit: "requests/s", Better: Higher, Decimals: 2},
		{Name: "goodput_share", Title: "good", Unit: "share", Better: Higher, Decimals: 3},
		{Name: "median_ttft_ms", Title: "TTFT p50", Unit: "ms", Better: Lower, Scales: true},
		{Name: "median_tpot_ms", Title: "TPOT p50", Unit: "ms", Better: Lower, Scales: true},
		{Name: "p95_ttft_ms", Title: "TTFT p95", Unit: "ms", Better: Lower, Scales: true},
		{Name: "p95_tpot_ms", Title: "TPOT p95", Unit: "ms", Better: Lower, Scales: true},
		{Name: "p99_ttft_ms", Title: "TTFT p99", Unit: "ms", Better: Lower, Scales: true},
		{Name: "p99_tpot_ms", Title: "TPOT p99", Unit: "ms", Better: Lower, Scales: true},
		{Name: "p99_itl_ms", Title: "ITL p99", Unit: "ms", Better: Lower, Scales: true},
		{Name: "median_e2e_latency_ms", Title: "E2E p50", Unit: "ms", Better: Lower, Scales: true},
		{Name: "kv_tokens", Title: "KV tokens", Unit: "tokens", Better: Higher},
		{Name: "headroom_gib", Title: "headroom", Unit: "GiB", Better: Higher, Decimals: 2},
		{Name: "headroom_min_gib", Title: "least headroom", Unit: "GiB", Better: Higher, Decimals: 2},
		{Name: "forecast_kv_tokens_error", Title: "KV tokens − forecast", Unit: "tokens"},
		{Name: "forecast_headroom_error_gib", Title: "headroom − forecast", Unit: "GiB", Decimals: 2},
		{Name: "host_ram_peak_gib", Title: "host RAM peak", Unit: "GiB", Better: Lower, Decimals: 1},
		{Name: "host_taken_gib", Title: "host RAM taken", Unit: "GiB", Better: Lower, Decimals: 1},
		{Name: "running", Title: "running", Unit: "requests", Better: Higher, Decimals: 1},
		{Name: "queued", Title: "queued", Unit: "requests", Better: Lower, Decimals: 1},
		{Name: "token_usage", Title: "usage", Decimals: 2},
		{Name: "token_usage_over_085", Title: "usage > 0.85", Unit: "share of time", Better: Lower, Decimals: 2},
		{Name: "retractions", Title: "retractions", Better: Lower},
		{Name: "cached_share_host", Title: "host hits", Unit: "share", Better: Higher, Decimals: 2},
		{Name: "decode_graph_share", Title: "graph steps", Unit: "share", Better: Higher, Decimals: 2},
		{Name: "accept_length", Title: "accepted", Unit: "tokens", Better: Higher, Decimals: 2},
		{Name: "client_server_ratio", Title: "client/server", Decimals: 3},
		{Name: "start_s", Title: "start", Unit: "s", Better: Lower, Scales: true},
		{Name: "power_w", Title: "power", Unit: "W", Better: Lower},
	}
})

func perGPU(name string) func(sweep.Record) (float64, bool) {
	return func(r sweep.Record) (float64, bool) {
		v, ok := r.Values[name]
		if !ok || r.GPUCount < 1 {
			return 0, false
		}
		return v / float64(r.GPUCount), true
	}
}

// perUser is what a user sees while an answer streams: one over the median time per output token.
func perUser(r sweep.Record) (float64, bool) {
	v, ok := r.Values["median_tpot_ms"]
	if !ok || v <= 0 {
		return 0, false
	}
	return 1000 / v, true
}

// perMillion is the price of a million output tokens.
func perMillion(r sweep.Record) (float64, bool) {
	v, ok := r.Values["output_throughput"]
	price := r.Values["price_per_hour"]
	if !ok || v <= 0 || price <= 0 {
		return 0, false
	}
	return price / 3600 / v * 1e6, true
}

// MetricByName is the metric of a key of cells.jsonl, or of a number that a report works out.
func MetricByName(name string) Metric { return metric(name) }

// metric finds a metric of the table by its name.
func metric(name string) Metric {
	all := metrics()
	if i := slices.IndexFunc(all, func(m Metric) bool { return m.Name == name }); i >= 0 {
		return all[i]
	}
	for _, m := range all { // of one class
		if class, ok := strings.CutSuffix(name, "_"+m.Name); ok && m.from == nil && class != "" {
			m.Name, m.Title = name, class+" "+m.Title
			return m
		}
	}
	m := Metric{Name: name, Title: name, Decimals: 2, Scales: true}
	if strings.HasSuffix(name, "_ms") {
		m.Unit, m.Better, m.Decimals = "ms", Lower, 0
	}
	return m
}

// throughput is the metric that ranks configs.
func throughput() Metric { return metrics()[0] }

// isFact reports the values that a launch has whether or not a load could be measured on it.
func isFact(name string) bool {
	switch name {
	case "kv_tokens", "weights_gib", "graph_gib", "headroom_gib", "headroom_min_gib", "host_pool_tokens",
		"host_pool_gb", "host_ram_peak_gib", "host_taken_gib", "avail_after_weights_gib", "max_running_requests", "context_length", "start_s", "stop_s", "memory_back_s", "harness_s":
		return true
	}
	return strings.HasPrefix(name, "forecast_")
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

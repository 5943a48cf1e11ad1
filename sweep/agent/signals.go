package agent

import (
	"cmp"
	"slices"
	"time"

	"sweep/sweep"
)

// client is what the load generator had received at one moment.
type client struct {
	Tokens         int64 // completion tokens
	FirstTokens    int64 // requests whose first token has arrived; 0 where the server counts those with the others
	Finished       int64 // requests that ended well
	FinishedTokens int64 // completion tokens of those
}

// scrape is one reading of the server's gauges and counters, with what the client had received just
// before it was asked and just after it had answered.
type scrape struct {
	At            time.Time // the middle between both
	Values        sweep.Values
	Before, After client
}

// usageMark is the share of the KV pool above which the next large prefill is a danger.
const usageMark = 0.85

// windowSignals gives the signals of a load from the scrapes of its window, in order. What the server
// does not say, or said only once where a difference is needed, is absent.
func windowSignals(scrapes []scrape) sweep.Values {
	v := sweep.Values{}
	gauge(v, scrapes, sweep.SignalRunning, "running")
	gauge(v, scrapes, sweep.SignalQueued, "queued")
	gauge(v, scrapes, sweep.SignalTokenUsage, "token_usage")
	if over, ok := shareOver(scrapes, sweep.SignalTokenUsage, usageMark); ok {
		v["token_usage_over_085"] = over
	}
	for from, to := range map[string]string{
		sweep.SignalRetractions:   "retractions",
		sweep.SignalCachedDevice:  "cached_tokens_device",
		sweep.SignalCachedStorage: "cached_tokens_storage",
		sweep.SignalCachedHost:    "cached_tokens_host",
		sweep.SignalLoadBack:      "load_back_tokens",
	} {
		if d, ok := growth(scrapes, from); ok {
			v[to] = d
		}
	}
	host, okHost := growth(scrapes, sweep.SignalCachedHost)
	prompt, okPrompt := growth(scrapes, sweep.SignalPromptTokens)
	if okHost && okPrompt && prompt > 0 {
		v["cached_share_host"] = host / prompt
	}
	if m, ok := compare(scrapes); ok {
		v["client_server_ratio"] = m.ratio
		v["server_output_throughput"] = m.serverRate
	}
	return v
}

// weights gives each scrape that has the named value the time it stands for: half the way to its
// neighbours. A single one stands for the whole window.
func weights(scrapes []scrape, name string) (values, seconds []float64) {
	var at []time.Time
	for _, s := range scrapes {
		if x, ok := s.Values[name]; ok {
			values = append(values, x)
			at = append(at, s.At)
		}
	}
	seconds = make([]float64, len(at))
	for i := 1; i < len(at); i++ {
		half := at[i].Sub(at[i-1]).Seconds() / 2
		seconds[i-1] += half
		seconds[i] += half
	}
	if len(seconds) == 1 {
		seconds[0] = 1
	}
	return values, seconds
}

// gauge adds a gauge's mean over time and its peak.
func gauge(v sweep.Values, scrapes []scrape, name, as string) {
	values, seconds := weights(scrapes, name)
	sum, total := 0.0, 0.0
	for i, x := range values {
		sum += x * seconds[i]
		total += seconds[i]
		if peak, ok := v[as+"_peak"]; !ok || x > peak {
			v[as+"_peak"] = x
		}
	}
	if total > 0 {
		v[as] = sum / total
	}
}

// shareOver is the share of time in which a gauge was over a mark.
func shareOver(scrapes []scrape, name string, mark float64) (float64, bool) {
	values, seconds := weights(scrapes, name)
	over, total := 0.0, 0.0
	for i, x := range values {
		total += seconds[i]
		if x > mark {
			over += seconds[i]
		}
	}
	return over / total, total > 0
}

// growth is how much a counter grew from the first scrape to the last. A series that appears between
// them began at zero, as labelled counters appear with their first use.
func growth(scrapes []scrape, name string) (float64, bool) {
	if len(scrapes) < 2 {
		return 0, false
	}
	last, ok := scrapes[len(scrapes)-1].Values[name]
	if !ok {
		return 0, false
	}
	d := last - scrapes[0].Values[name]
	return d, d >= 0 // a counter that fell belongs to another server
}

// measured is the same work as the client and as the server saw it.
type measured struct {
	ratio      float64 // client ÷ server
	serverRate float64 // tokens/s as the server counted them
}

// compare sets what the client received against what the server counted between the same scrapes, like
// with like: tokens against tokens counted as the work happens, else tokens of ended requests on both sides.
func compare(scrapes []scrape) (measured, bool) {
	// A request's first token comes out of its prefill, so a server's decode counter lacks it.
	if m, ok := between(changed(scrapes, sweep.SignalDecodeTokens), sweep.SignalDecodeTokens, func(c client) int64 { return c.Tokens - c.FirstTokens }); ok {
		return m, true
	}
	ended := func(c client) int64 { return c.FinishedTokens }
	if quiet := quietScrapes(scrapes); len(quiet) >= 2 {
		if m, ok := between([]scrape{quiet[0], quiet[len(quiet)-1]}, sweep.SignalFinishedTokens, ended); ok {
			return m, true
		}
	}
	return between(changed(scrapes, sweep.SignalFinishedTokens), sweep.SignalFinishedTokens, ended)
}

// changed keeps the scrapes that first showed a new value. A server that refreshes its counters every
// few seconds shows a stale value in between, which would make the client look too fast at one end.
func changed(scrapes []scrape, name string) []scrape {
	var kept []scrape
	for i, s := range scrapes {
		v, ok := s.Values[name]
		if !ok || i == 0 {
			continue
		}
		if v != scrapes[i-1].Values[name] {
			kept = append(kept, s)
		}
	}
	return kept
}

// quietScrapes keeps those during which no request ended: there both sides have counted the same requests.
func quietScrapes(scrapes []scrape) []scrape {
	var kept []scrape
	for _, s := range scrapes {
		if _, ok := s.Values[sweep.SignalFinishedTokens]; ok && s.Before.Finished == s.After.Finished {
			kept = append(kept, s)
		}
	}
	return kept
}

// between compares two scrapes, one of each half, at which the client lagged least behind the server's counter. What it had
// received before it asked is no more than what the server counts in its answer, and less by what came meanwhile and by what was
// counted and not yet sent: answers that took long, and a busy HTTP process that was seen to hold back a thousand tokens for a
// third of a second. Neither is a difference of the two; what a client truly misses it lacks at every scrape.
// The server's rate is that of the first scrape to the last.
func between(scrapes []scrape, name string, received func(client) int64) (measured, bool) {
	n := len(scrapes)
	if n < 2 {
		return measured{}, false
	}
	tokens := func(s scrape) float64 { return float64(received(s.Before)) }
	synced := func(part []scrape) scrape {
		return slices.MinFunc(part, func(a, b scrape) int {
			return cmp.Compare(a.Values[name]-tokens(a), b.Values[name]-tokens(b))
		})
	}
	from, to := synced(scrapes[:n/2]), synced(scrapes[n-n/2:])
	first, last := scrapes[0], scrapes[n-1]
	server, seconds := to.Values[name]-from.Values[name], last.At.Sub(first.At).Seconds()
	if server <= 0 || seconds <= 0 || last.Values[name] <= first.Values[name] {
		return measured{}, false
	}
	return measured{ratio: (tokens(to) - tokens(from)) / server, serverRate: (last.Values[name] - first.Values[name]) / seconds}, true
}

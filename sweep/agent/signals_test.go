package agent

import (
	"math"
	"testing"
	"time"

	"sweep/sweep"
)

func at(seconds float64) time.Time {
	return time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

func near(t *testing.T, v sweep.Values, name string, want, tolerance float64) {
	t.Helper()
	got, ok := v[name]
	if !ok || math.Abs(got-want) > tolerance {
		t.Errorf("%s = %v (present: %v), want %v ± %v", name, got, ok, want, tolerance)
	}
}

func TestGaugesAreWeightedByTime(t *testing.T) {
	// One probe was slow: the middle value stands for half of ten seconds and half of one.
	v := windowSignals([]scrape{
		{At: at(0), Values: sweep.Values{"running": 10, "token_usage": 0.5}},
		{At: at(10), Values: sweep.Values{"running": 20, "token_usage": 0.9}},
		{At: at(11), Values: sweep.Values{"running": 40, "token_usage": 0.8}},
	})
	near(t, v, "running", (10*5+20*5.5+40*0.5)/11, 1e-9)
	near(t, v, "running_peak", 40, 0)
	near(t, v, "token_usage_over_085", 5.5/11, 1e-9)
	for _, name := range []string{"queued", "queued_peak", "retractions", "client_server_ratio", "cached_share_host"} {
		if x, ok := v[name]; ok {
			t.Errorf("%s = %v, but the server never said", name, x)
		}
	}
}

func TestCounters(t *testing.T) {
	v := windowSignals([]scrape{
		{At: at(0), Values: sweep.Values{"retractions_total": 5, "prompt_tokens_total": 1000}},
		{At: at(1), Values: sweep.Values{"retractions_total": 5, "prompt_tokens_total": 2000, "cached_tokens_host_total": 100}},
		{At: at(2), Values: sweep.Values{"retractions_total": 9, "prompt_tokens_total": 3000, "cached_tokens_host_total": 500}},
	})
	near(t, v, "retractions", 4, 0)
	near(t, v, "cached_tokens_host", 500, 0) // the series appeared with its first use
	near(t, v, "cached_share_host", 0.25, 0)
	if _, ok := v["load_back_tokens"]; ok {
		t.Error("load_back_tokens was never said")
	}
	if one := windowSignals([]scrape{{At: at(0), Values: sweep.Values{"retractions_total": 5}}}); len(one) != 0 {
		t.Errorf("one scrape gives no differences: %v", one)
	}
}

// play makes the scrapes of a window: the server decodes rate tokens a second and refreshes its counter
// every refresh seconds; the client receives all but lost of them.
func play(seconds, refresh, rate, lost float64) []scrape {
	var s []scrape
	for i := 0.0; i <= seconds; i++ {
		server := math.Floor(i/refresh) * refresh * rate
		first := int64(i * 3)
		tokens := int64(i*rate*(1-lost)) + first
		s = append(s, scrape{At: at(i), Values: sweep.Values{"decode_tokens_total": 7e6 + server},
			Before: client{Tokens: tokens, FirstTokens: first}, After: client{Tokens: tokens, FirstTokens: first}})
	}
	return s
}

func TestRatioOfDecodedTokens(t *testing.T) {
	tests := []struct {
		name             string
		refresh, lost    float64
		ratio, tolerance float64
	}{
		{"counted at once", 0.001, 0, 1, 0.001},
		{"refreshed every 3.6 s", 3.6, 0, 1, 0.01},
		{"refreshed every 7 s", 7, 0, 1, 0.001},
		{"a tenth never arrives", 0.001, 0.1, 0.9, 0.001},
		{"a tenth never arrives, refreshed every 3.6 s", 3.6, 0.1, 0.9, 0.02},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := windowSignals(play(120, tt.refresh, 1000, tt.lost))
			near(t, v, "client_server_ratio", tt.ratio, tt.tolerance)
			near(t, v, "server_output_throughput", 1000, 10)
		})
	}
	t.Run("absent when the counter never moves", func(t *testing.T) {
		if x, ok := windowSignals(play(20, 100, 1000, 0))["client_server_ratio"]; ok {
			t.Errorf("ratio %v out of nothing", x)
		}
	})
}

// As a real server was seen with 128 in flight: its HTTP process was busy for a third of a second at the window's
// end and held back a thousand tokens that were already counted. Earlier ones came in bursts.
func TestRatioOfTokensHeldBack(t *testing.T) {
	var s []scrape
	for i, x := range []struct{ server, client int64 }{
		{15127, 15026}, {15254, 15152}, {15893, 15792}, {16913, 16805}, {17294, 17180}, {18310, 18065}, {19579, 19450}, {20216, 20087},
		{21988, 21840}, {22370, 22217}, {23507, 23341}, {24596, 23407}, {24823, 23718},
	} {
		c := client{Tokens: x.client}
		s = append(s, scrape{At: at(float64(i)), Values: sweep.Values{"decode_tokens_total": float64(x.server)}, Before: c, After: c})
	}
	near(t, windowSignals(s), "client_server_ratio", 1, 0.01)
	near(t, windowSignals(s), "server_output_throughput", (24823.0-15254)/11, 1) // the first scrape may be stale
}

// Some answers take as long as several steps of 32 tokens, which the client receives while it waits, as a busy server on a real card was
// seen to do; the numbers are made up. The counter is right in each answer, so the ratio is 1.
func TestRatioOfSlowAnswers(t *testing.T) {
	var s []scrape
	for i, x := range []struct{ server, before, after int64 }{
		{6171, 0, 32}, {7402, 1200, 1232}, {8570, 2399, 2400}, {9786, 3617, 3650}, {10979, 4817, 5201}, {12161, 6000, 6001},
		{13359, 7200, 7231}, {14570, 8400, 8432}, {15768, 9600, 9633}, {16954, 10800, 10801}, {18151, 12000, 12032},
	} {
		s = append(s, scrape{At: at(float64(i)), Values: sweep.Values{"decode_tokens_total": float64(x.server)}, Before: client{Tokens: x.before}, After: client{Tokens: x.after}})
	}
	near(t, windowSignals(s), "client_server_ratio", 1, 0.005)
}

// A server that counts tokens at a request's end is compared between scrapes during which none ended.
func TestRatioOfEndedRequests(t *testing.T) {
	done := func(seconds float64, server int64, before, after client) scrape {
		return scrape{At: at(seconds), Values: sweep.Values{"finished_tokens_total": float64(server)}, Before: before, After: after}
	}
	c := func(n int64) client { return client{Finished: n, FinishedTokens: n * 100, Tokens: n*100 + 37} }
	v := windowSignals([]scrape{
		done(0, 200, c(1), c(2)), // one ended while the server answered: either side may have counted it
		done(1, 300, c(3), c(3)),
		done(5, 1300, c(13), c(13)),
		done(6, 1300, c(13), c(14)),
	})
	near(t, v, "client_server_ratio", 1, 0)
	near(t, v, "server_output_throughput", 250, 0)
}

package report

// pageNotes explain what the page takes for granted.
func pageNotes() []pageNote {
	return []pageNote{
		{"Words", "A config is one value for each server axis: one server command line. A load is a workload with so many requests in flight, or planned a second. A cell is a config at a load. A failure is a result: it stays in every table, with its evidence."},
		{"Quantities", "tok/s: output tokens a second, of all requests together; tok/s/user: of one answer while it streams. In flight: requests that were sent and are not yet answered in full. TTFT: time to the first token. TPOT: time per output token after it. KV tokens: how many tokens of context the devices hold at once. Headroom: device memory left when the server was ready, and the least under load. OOM: memory ran out, in a prefill (while a prompt was read) or in decode (while an answer was written). Usage: share of the KV pool in use, on average; time > 0.85: share of the window in which it was more than that. Host hits: share of the prompts' tokens found in the cache in host memory."},
		{"Suspect", "A number is suspect where the client that measured it was late or short of a core, though not the limit: its tails may be too high. Where the client was the limit the number is withheld."},
		{"Forecast", "Two launches that were ready forecast pool and headroom of a third. “off forecast” is what came out, against that: the pool in per cent, the headroom in GiB."},
		{"Throughput", "Output tokens that arrived inside the measured window, divided by the window; the window opens after the first cohort of requests has ended, without draining. Latencies are of requests sent and ended well inside it; with a fixed number in flight they hold for that level, not for an arrival rate."},
		{"Repeats", "The unit of repetition is a fresh start of the server (Kalibera and Jones 2013). A number is the median over repeats, and a repeat in which the config died counts as worse than any number, so that no median is one of survivors."},
		{"± and ~", "The spread between fresh starts is pooled over the cells of a workload, on the scale of logarithms. Up to five repeats are compared by Student's t with that spread; a cell that varies more than three times as much is compared by Welch's t; from six repeats on by the exact test of Mann and Whitney. Configs at one load are one family, corrected by Holm. ~ means not told apart: more than 5 % chance of a false alarm, or less than 1 % of difference. With one repeat there is no verdict."},
		{"Candidate", "Of many noisy configs the one on top was also lucky. The winner is a candidate until sweep confirm has measured it again with fresh starts and prompts, a soak and a burst. Those that tie with it are as good as anybody can tell."},
		{"Where a gain comes from", "The best may stand at another load than the baseline's own best. What that load brings is told apart from what the settings bring at equal load; among settings each gets the mean of what it brings over all orders in which they can be changed (Shapley 1953)."},
		{"Within one run", "Steady state is checked by the rule of the load generator, then by MSER-5 and the halves of the window; the interval within a run is by ten batch means. It is of one start of one server and says nothing of the next."},
		{"Tails", "Intervals of percentiles are by order statistics, without any assumption on the shape. “n too small” stands where an end does not exist: p99 needs 368 requests for an upper one."},
		{"Absent", "– means not known or not measured, never zero. Every number with its full name is in cells.csv and cells.jsonl."},
	}
}

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"sweep/sweep"
)

// WriteGoBench writes the measured records in the format of Go benchmarks, so that benchstat compares nights: one line for each record, the
// config's parameters and the load as sub-names.
func WriteGoBench(w io.Writer, n *Night) error {
	type unit struct {
		metric, name, better string
	}
	units := []unit{
		{"output_throughput", "out-tok/s", "higher"}, {"request_throughput", "req/s", "higher"}, {"median_ttft_ms", "p50-ttft-ms", "lower"}, {"p99_ttft_ms", "p99-ttft-ms", "lower"},
		{"median_tpot_ms", "p50-tpot-ms", "lower"}, {"p99_tpot_ms", "p99-tpot-ms", "lower"}, {"kv_tokens", "kv-tokens", "higher"},
	}
	var b strings.Builder
	for _, u := range units {
		fmt.Fprintf(&b, "Unit %s better=%s assume=nothing\n", u.name, u.better)
	}
	// No "night: …" line: benchstat takes that for a setting and puts nights that differ in it into tables of their own.
	fmt.Fprintf(&b, "# night %s\n", benchValue(n.Name))
	for _, r := range n.Records {
		if withheld(r) != "" {
			continue
		}
		var values strings.Builder
		for _, u := range units {
			if v, ok := metric(u.metric).Of(r); ok {
				fmt.Fprintf(&values, " %s %s", strconv.FormatFloat(v, 'g', -1, 64), u.name)
			}
		}
		if values.Len() == 0 {
			continue
		}
		b.WriteString("BenchmarkSweep")
		if r.Config != r.Axes.String() {
			b.WriteString("/config=" + benchName(r.Config))
		}
		for _, p := range r.Axes {
			b.WriteString("/" + benchName(p.Name) + "=" + benchName(p.Value))
		}
		fmt.Fprintf(&b, "/workload=%s/load=%s 1%s\n", benchName(r.Load.Workload), benchLoad(r.Load), values.String())
	}
	return write(w, b.String())
}

// benchLoad is the total, or each pool where there are several.
func benchLoad(l sweep.Load) string {
	if len(l.Pools) == 1 {
		return l.LevelText()
	}
	var parts []string
	for _, p := range l.Pools {
		parts = append(parts, benchName(p.Class)+":"+p.Text())
	}
	return strings.Join(parts, ",")
}

// benchLevel is a load's level as other tools write it: of an open load the rate and no bound, of a closed one the bound and what
// stands for no rate.
func benchLevel(l sweep.Load, noRate any) (rate, most any) {
	if l.Open() {
		return l.Rate(), nil
	}
	return noRate, l.Concurrency()
}

// benchName keeps a text in one part of a benchmark's name: no space, slash or equals sign, and no dash before digits at its end, which
// would be taken for GOMAXPROCS.
func benchName(s string) string {
	out := strings.Map(func(r rune) rune {
		if r <= ' ' || r == '/' || r == '=' || r == 0x7f {
			return '_'
		}
		return r
	}, sweep.Printable(s))
	if i := strings.LastIndexByte(out, '-'); i >= 0 {
		if _, err := strconv.Atoi(out[i+1:]); err == nil {
			out = out[:i] + "_" + out[i+1:]
		}
	}
	return out
}

func benchValue(s string) string { return strings.Join(strings.Fields(sweep.Printable(s)), " ") }

// WriteJSONL writes every record as cells.jsonl has it, what was recorded twice once, with the numbers that a report works out beside.
func WriteJSONL(w io.Writer, n *Night) error {
	var b bytes.Buffer
	for _, r := range n.all() {
		r = withDerived(r)
		line, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("report: %w", err)
		}
		b.Write(append(sweep.PrintableJSON(line), '\n'))
	}
	return write(w, b.String())
}

// withDerived adds the metrics that follow from others.
func withDerived(r sweep.Record) sweep.Record {
	values := sweep.Values{}
	maps.Copy(values, r.Values)
	for _, m := range metrics() {
		if m.from != nil {
			if v, ok := m.Of(r); ok {
				values[m.Name] = v
			}
		}
	}
	r.Values = values
	return r
}

// theirs are a run's requests as other tools count them.
type theirs struct {
	duration       float64 // s, from the first request sent to the last ended
	completed      int
	failed         int
	input, output  float64
	ttft, tpot, e2 []float64 // ms
	meanITL        float64   // ms; NaN when not known
	inputs         []float64
	outputs        []float64
	starts         []float64
}

// rules are in what the tools differ.
type rules struct {
	toStreamEnd bool // a request's latency ends with its stream (SGLang's bench_serving), else with its last token (vLLM's bench serve)
}

// gather counts every request of the run that ended, warm-up included: neither tool has a window.
func (n *Night) gather(r sweep.Record, rule rules) (t theirs, err error) {
	first, last := math.Inf(1), math.Inf(-1)
	gaps, gapTime := 0.0, 0.0
	err = n.EachRequest(r, func(q *Request) {
		if q.Outcome == "cancelled" || math.IsNaN(q.SentS) || math.IsNaN(q.EndS) {
			return // cut at the end of the window: they would have waited for it
		}
		first, last = min(first, q.SentS), max(last, q.EndS)
		if q.Outcome != "ok" {
			t.failed++
			return
		}
		latency := q.E2E
		if rule.toStreamEnd || math.IsNaN(latency) {
			latency = (q.EndS - q.SentS) * 1000
		}
		t.completed++
		t.input, t.output = t.input+q.PromptTokens, t.output+q.OutputTokens
		t.ttft, t.e2 = append(t.ttft, q.TTFT), append(t.e2, latency)
		t.inputs, t.outputs, t.starts = append(t.inputs, q.PromptTokens), append(t.outputs, q.OutputTokens), append(t.starts, q.SentS)
		if q.OutputTokens > 1 {
			t.tpot = append(t.tpot, (latency-q.TTFT)/(q.OutputTokens-1))
		}
		if q.Chunks > 1 {
			gaps, gapTime = gaps+q.Chunks-1, gapTime+q.E2E-q.TTFT
		}
	})
	t.duration, t.meanITL = last-first, math.NaN()
	if gaps > 0 {
		t.meanITL = gapTime / gaps
	}
	return t, err
}

// linear is a percentile with linear interpolation between neighbours, as numpy makes it.
func linearPercentile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// spreadKeys writes mean, median, population deviation and percentiles of a quantity under a tool's names.
func spreadKeys(f *ordered, name string, values []float64, percentiles ...int) {
	if len(values) == 0 {
		return
	}
	v := slices.Sorted(slices.Values(values))
	m, squares := mean(v), 0.0
	for _, x := range v {
		squares += (x - m) * (x - m)
	}
	f.add("mean_"+name+"_ms", m)
	f.add("median_"+name+"_ms", linearPercentile(v, 0.5))
	f.add("std_"+name+"_ms", math.Sqrt(squares/float64(len(v))))
	for _, p := range percentiles {
		f.add(fmt.Sprintf("p%d_%s_ms", p, name), linearPercentile(v, float64(p)/100))
	}
}

// ordered is a JSON object whose keys keep their order.
type ordered struct {
	buf bytes.Buffer
	err error
}

func (o *ordered) add(key string, value any) {
	if v, ok := value.(float64); ok && (math.IsNaN(v) || math.IsInf(v, 0)) {
		return
	}
	k, _ := json.Marshal(key)
	v, err := json.Marshal(value)
	if err != nil {
		o.err = err
		return
	}
	if o.buf.Len() > 0 {
		o.buf.WriteByte(',')
	}
	o.buf.Write(k)
	o.buf.WriteByte(':')
	o.buf.Write(v)
}

func (o *ordered) bytes() ([]byte, error) {
	return sweep.PrintableJSON(append(append([]byte{'{'}, o.buf.Bytes()...), '}')), o.err
}

// ours adds our own numbers under sweep_*, because the definitions differ.
func (o *ordered) ours(r sweep.Record) {
	o.add("sweep_cell", r.Cell)
	o.add("sweep_repeat", r.Repeat)
	o.add("sweep_night", r.Night)
	for _, p := range r.Axes {
		o.add("sweep_"+sweep.FlatName(p.Name), p.Value)
	}
	names := make([]string, 0, len(r.Values))
	for k := range r.Values {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names {
		if v := r.Values[k]; !math.IsNaN(v) && !math.IsInf(v, 0) {
			o.add("sweep_"+k, v)
		}
	}
}

// WriteBenchServing writes the runs as SGLang's bench_serving does, one object a line, by its definitions: every request that ended, tokens over
// the whole duration with warm-up and drain, latency to the end of the stream. Our own numbers stand beside as sweep_*. Keys whose
// definition our records cannot follow (percentiles of inter-token latencies, tokens in the fullest second) are left out.
func WriteBenchServing(w io.Writer, n *Night) error {
	var b bytes.Buffer
	for _, r := range n.Records {
		if withheld(r) != "" {
			continue
		}
		t, err := n.gather(r, rules{toStreamEnd: true})
		if err != nil {
			return err
		}
		if t.completed == 0 || t.duration <= 0 {
			continue
		}
		var o ordered
		o.add("tag", r.Config)
		o.add("backend", r.Engine)
		o.add("dataset_name", r.Load.Workload)
		rate, most := benchLevel(r.Load, nil)
		o.add("request_rate", rate)
		o.add("max_concurrency", most)
		o.add("duration", t.duration)
		o.add("completed", t.completed)
		o.add("total_input_tokens", int64(t.input))
		o.add("total_output_tokens", int64(t.output))
		o.add("request_throughput", float64(t.completed)/t.duration)
		o.add("input_throughput", t.input/t.duration)
		o.add("output_throughput", t.output/t.duration)
		o.add("total_throughput", (t.input+t.output)/t.duration)
		spreadKeys(&o, "e2e_latency", t.e2, 90, 95, 99)
		spreadKeys(&o, "ttft", t.ttft, 90, 95, 99)
		spreadKeys(&o, "tpot", t.tpot, 90, 95, 99)
		o.add("mean_itl_ms", t.meanITL)
		o.add("concurrency", sum(t.e2)/1000/t.duration)
		o.add("accept_length", nil)
		o.ours(r)
		line, err := o.bytes()
		if err != nil {
			return fmt.Errorf("report: %w", err)
		}
		b.Write(append(line, '\n'))
	}
	return write(w, b.String())
}

func sum(values []float64) float64 {
	s := 0.0
	for _, v := range values {
		s += v
	}
	return s
}

// vllmName makes a part of a folder's name as that tool does, and keeps it a name.
func vllmName(s string) string {
	return strings.NewReplacer("/", "_", "\\", "_", "..", "__").Replace(strings.ReplaceAll(sweep.Printable(s), ",", "-"))
}

// VLLMRun is one run as vLLM's "bench serve" saves it: the file's name below the export's folder, in the layout of its "bench sweep",
// and its content.
type VLLMRun struct {
	Path string
	Data []byte
}

// VLLMRuns gives the runs by the definitions of vLLM's bench serve: every request that ended, tokens over the whole duration, latency to the last
// token. Our own numbers stand beside as sweep_*; percentiles of inter-token latencies stand there only, as in [WriteBenchServing].
func VLLMRuns(n *Night) ([]VLLMRun, error) {
	var runs []VLLMRun
	for _, r := range n.Records {
		if withheld(r) != "" {
			continue
		}
		t, err := n.gather(r, rules{})
		if err != nil {
			return nil, err
		}
		if t.completed == 0 || t.duration <= 0 {
			continue
		}
		var o ordered
		o.add("date", r.StartedAt.UTC().Format("20060102-150405"))
		o.add("endpoint_type", r.Engine)
		o.add("backend", r.Engine)
		o.add("label", r.Config)
		o.add("model_id", r.Model)
		o.add("num_prompts", t.completed+t.failed)
		rate, most := benchLevel(r.Load, "inf")
		o.add("request_rate", rate)
		o.add("burstiness", 1.0)
		o.add("max_concurrency", most)
		o.add("duration", t.duration)
		o.add("completed", t.completed)
		o.add("failed", t.failed)
		o.add("total_input_tokens", int64(t.input))
		o.add("total_output_tokens", int64(t.output))
		o.add("request_throughput", float64(t.completed)/t.duration)
		o.add("request_goodput", nil)
		o.add("output_throughput", t.output/t.duration)
		o.add("total_token_throughput", (t.input+t.output)/t.duration)
		spreadKeys(&o, "ttft", t.ttft, 99)
		spreadKeys(&o, "tpot", t.tpot, 99)
		o.add("mean_itl_ms", t.meanITL)
		spreadKeys(&o, "e2el", t.e2, 99)
		o.add("run_number", r.Repeat-1)
		for _, p := range r.Axes {
			o.add(sweep.FlatName(p.Name), p.Value)
		}
		o.ours(r)
		data, err := o.bytes()
		if err != nil {
			return nil, fmt.Errorf("report: %w", err)
		}
		folder := "SERVE--" + vllmName(r.Config) + "-BENCH--" + vllmName(r.Load.String())
		runs = append(runs, VLLMRun{Path: folder + "/" + fmt.Sprintf("run=%d.json", r.Repeat-1), Data: append(data, '\n')})
	}
	return runs, nil
}

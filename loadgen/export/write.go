package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep/loadgen"
)

// Run is what a result does not say of its load.
type Run struct {
	Spec      loadgen.Spec // its headers are written nowhere
	Version   string       // of this program
	Processes int          // that shared it; 0 and 1: one
	Stopped   bool         // by the user
	Err       error        // why it did not come to its end; nil: it did
	At        time.Time    // when it began
}

// object is a JSON object whose keys keep their order.
type object struct {
	b   bytes.Buffer
	err error
}

func (o *object) add(name string, v any) {
	data, err := json.Marshal(v)
	if err != nil && o.err == nil {
		o.err = fmt.Errorf("export: %s: %w", name, err)
	}
	open := byte(',')
	if o.b.Len() == 0 {
		open = '{'
	}
	o.b.WriteByte(open)
	o.b.WriteString(strconv.Quote(name)) // names are plain words
	o.b.WriteByte(':')
	o.b.Write(data)
}

// spread adds mean, median, standard deviation and percentiles, by numpy's definitions, of what there is.
func (o *object) spread(name string, list []float64, percentiles ...float64) {
	if len(list) == 0 {
		return
	}
	slices.Sort(list)
	o.add("mean_"+name+"_ms", mean(list))
	o.add("median_"+name+"_ms", percentile(list, 50))
	o.add("std_"+name+"_ms", deviation(list))
	for _, p := range percentiles {
		o.add(fmt.Sprintf("p%g_%s_ms", p, name), percentile(list, p))
	}
}

// ours adds our own numbers of the window.
func (o *object) ours(r loadgen.Result) {
	for _, name := range slices.Sorted(maps.Keys(r.Values)) {
		o.add("sweep_"+name, r.Values[name])
	}
	o.add("sweep_verdict", r.Verdict)
	o.add("sweep_stamps", r.Stamps)
}

func (o *object) writeTo(w io.Writer) error {
	if o.err != nil {
		return o.err
	}
	o.b.WriteString("}\n")
	_, err := w.Write(o.b.Bytes())
	return err
}

// level is the concurrency and the rate of a load; 0: it has none.
func level(s *loadgen.Spec) (concurrency int, rate float64) {
	for i := range s.Classes {
		c := &s.Classes[i]
		concurrency += c.Concurrency
		if c.Arrivals != nil {
			rate += c.Arrivals.Rate
			concurrency += c.Arrivals.MaxOpen
		}
	}
	return concurrency, rate
}

func orNull[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// BenchServing writes one line as SGLang's bench_serving does, by its definitions: TTFT to the first text, latency to the stream's
// end mark, TPOT with that tail, times between tokens per token on its own route and per event on the others. A request
// rate of a closed loop is null, where that tool writes a bare Infinity, which is no JSON.
func BenchServing(w io.Writer, run Run, result loadgen.Result, record io.Reader) error {
	native := strings.HasSuffix(run.Spec.Route, "/generate")
	t, err := gather(record, benchServing(native))
	if err != nil {
		return err
	}
	backend := "sglang-oai"
	if native {
		backend = "sglang"
	} else if strings.HasSuffix(run.Spec.Route, "/chat/completions") {
		backend = "sglang-oai-chat"
	}
	concurrency, rate := level(&run.Spec)
	var o object
	o.add("tag", nil)
	o.add("backend", backend)
	o.add("dataset_name", dataset(&run.Spec))
	o.add("request_rate", orNull(rate))
	o.add("max_concurrency", orNull(concurrency))
	if c := run.Spec.Classes[0]; len(run.Spec.Classes) == 1 && len(c.Prompts) == 0 {
		o.add("random_input_len", c.Input.Max)
		o.add("random_output_len", c.Output.Max)
	}
	seconds := t.duration()
	o.add("duration", seconds)
	o.add("completed", t.completed)
	o.add("total_input_tokens", t.input)
	o.add("total_output_tokens", t.output)
	if seconds > 0 {
		o.add("request_throughput", float64(t.completed)/seconds)
		o.add("input_throughput", float64(t.input)/seconds)
		o.add("output_throughput", float64(t.output)/seconds)
		o.add("total_throughput", float64(t.input+t.output)/seconds)
	}
	o.spread("e2e_latency", t.e2e, 90, 95, 99)
	o.spread("ttft", t.ttft, 90, 95, 99)
	o.spread("tpot", t.tpot, 90, 95, 99)
	o.spread("itl", t.itl, 90, 95, 99)
	if seconds > 0 && len(t.e2e) > 0 {
		o.add("concurrency", mean(t.e2e)*float64(len(t.e2e))/1000/seconds)
	}
	o.add("accept_length", nil)
	o.add("max_output_tokens_per_s", float64(t.peakTokens))
	o.add("max_concurrent_requests", t.peakSpread)
	o.ours(result)
	return o.writeTo(w)
}

func dataset(s *loadgen.Spec) string {
	c := &s.Classes[0]
	switch {
	case len(c.Prompts) > 0:
		return "custom"
	case c.Arrivals != nil && c.Arrivals.Law == loadgen.Trace:
		return "trace"
	case len(s.Vocabulary) > 0:
		return "random-ids"
	}
	return "random"
}

// VLLM writes one object as vLLM's bench serve saves it, by its definitions: latency from the first event with a choice, be it empty,
// to the last, and times between events. It is as that tool writes it with --percentile-metrics ttft,tpot,itl,e2el and
// --metric-percentiles 50,90,95,99.
func VLLM(w io.Writer, run Run, result loadgen.Result, record io.Reader) error {
	t, err := gather(record, vllm())
	if err != nil {
		return err
	}
	backend := "openai"
	if strings.HasSuffix(run.Spec.Route, "/chat/completions") {
		backend = "openai-chat"
	}
	concurrency, rate := level(&run.Spec)
	var o object
	o.add("date", run.At.UTC().Format("20060102-150405"))
	o.add("endpoint_type", backend)
	o.add("backend", backend)
	o.add("label", nil)
	o.add("model_id", run.Spec.Model)
	o.add("tokenizer_id", nil)
	o.add("num_prompts", t.completed+t.failed)
	burstiness := 1.0
	if rate > 0 {
		o.add("request_rate", rate)
		switch a := run.Spec.Classes[0].Arrivals; {
		case a == nil:
		case a.Law == loadgen.Gamma:
			burstiness = a.Shape
		}
	} else {
		o.add("request_rate", "inf")
	}
	o.add("burstiness", burstiness)
	o.add("max_concurrency", orNull(concurrency))
	seconds := t.duration()
	o.add("duration", seconds)
	o.add("completed", t.completed)
	o.add("failed", t.failed)
	o.add("total_input_tokens", t.input)
	o.add("total_output_tokens", t.output)
	if seconds > 0 {
		o.add("request_throughput", float64(t.completed)/seconds)
		o.add("request_goodput", nil)
		o.add("output_throughput", float64(t.output)/seconds)
		o.add("total_token_throughput", float64(t.input+t.output)/seconds)
	}
	o.add("max_output_tokens_per_s", float64(t.peakTokens))
	o.add("max_concurrent_requests", t.peakExact)
	o.spread("ttft", t.ttft, 50, 90, 95, 99)
	o.spread("tpot", t.tpot, 50, 90, 95, 99)
	o.spread("itl", t.itl, 50, 90, 95, 99)
	o.spread("e2el", t.e2e, 50, 90, 95, 99)
	o.ours(result)
	return o.writeTo(w)
}

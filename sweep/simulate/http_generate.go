package simulate

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// generate is SGLang's own route.
func (w *web) generate(rw http.ResponseWriter, r *http.Request) {
	var body nativeBody
	if e := readBody(r, false, &body); e != nil {
		writeError(rw, e)
		return
	}
	a, e := body.ask()
	if e != nil {
		if a.maxNew < 0 || e.kind != "BadRequestError" {
			writeError(rw, e)
		} else {
			writeNativeError(rw, e)
		}
		return
	}
	list, e := w.admitAll(a)
	switch {
	case e != nil && a.stream:
		writeNativeStreamError(rw, e)
		return
	case e != nil:
		writeNativeError(rw, e)
		return
	}
	for _, q := range list {
		w.begin(q)
		defer w.finishRequest(q)
	}
	if a.stream {
		w.streamNative(rw, r, list[0])
		return
	}
	answers := make([]object, len(list))
	for i, q := range list {
		if !w.await(r, q) {
			w.clientGone(q)
			return
		}
		p := q.snapshot()
		if p.done.Type == "abort" && p.done.Status >= 400 {
			writeAbort(rw, p.done, true)
			return
		}
		answers[i] = w.nativeAnswer(q, p)
	}
	if a.batch {
		writeJSON(rw, http.StatusOK, answers)
		return
	}
	writeJSON(rw, http.StatusOK, answers[0])
}

func (w *web) clientGone(q *request) {
	w.l.log.main("Request is disconnected from the client side (type 1). Abort request rid='%s'", q.id)
}

func (w *web) nativeAnswer(q *request, p progress) object {
	var o object
	text := make([]byte, 0, p.tokens*3)
	ids := make([]int32, p.tokens)
	for i := range ids {
		ids[i] = q.token(i)
		text = append(text, tokenText(ids[i])...)
	}
	o.set("text", string(text))
	o.set("output_ids", ids)
	o.set("meta_info", w.metaInfo(q, p))
	return o
}

// finishJSON is a finish reason as meta_info has it.
func finishJSON(c *reason, tokens int) any {
	if c == nil {
		return nil
	}
	var o object
	o.set("type", c.Type)
	switch c.Type {
	case "length":
		o.set("length", tokens)
	case "stop":
		o.set("matched", 1)
	case "abort":
		o.set("message", c.Message)
		if c.Status == http.StatusServiceUnavailable {
			o = o[:1]
			o.set("status_code", c.Status)
			o.set("message", c.Message)
			break
		}
		if c.Status == 0 {
			o.set("message", "Aborted")
			o.set("status_code", nil)
			o.set("err_type", nil)
			break
		}
		o.set("status_code", c.Status)
		o.set("err_type", "BadRequestError")
	}
	return o
}

// metaInfo is what /generate says of a request.
func (w *web) metaInfo(q *request, p progress) object {
	var o object
	o.set("id", q.id)
	o.set("finish_reason", finishJSON(p.done, p.tokens))
	if p.done != nil && p.done.Status == http.StatusServiceUnavailable {
		o.set("weight_version", "default")
		o.set("e2e_latency", time.Since(q.received).Seconds())
		o.set("completion_tokens", 0)
		return o
	}
	prompt, tokens := len(q.prompt), p.tokens
	if p.done != nil && p.done.Status == http.StatusBadRequest {
		prompt, tokens = 1, 1 // so SGLang counts a refused prompt
	}
	o.set("prompt_tokens", prompt)
	o.set("weight_version", "default")
	o.set("num_retractions", p.retractions)
	if w.l.set.metrics && !p.forwarded.IsZero() {
		o.set("forward_entry_time", unixSeconds(p.forwarded))
		o.set("prefill_finished_time", unixSeconds(p.first))
		o.set("queue_time", p.queued.Seconds())
	}
	o.set("reasoning_tokens", 0)
	o.set("completion_tokens", tokens)
	o.set("cached_tokens", p.cached)
	if p.cached > 0 {
		o.set("cached_tokens_details", cachedDetails(p))
	} else {
		o.set("cached_tokens_details", nil)
	}
	o.set("dp_rank", nil)
	if p.done != nil {
		o.set("e2e_latency", p.ended.Sub(q.received).Seconds())
		if w.l.set.metrics {
			o.set("request_received_ts", unixSeconds(q.received))
			o.set("request_finished_ts", unixSeconds(p.ended))
			if d := p.ended.Sub(p.first).Seconds(); d > 0 && tokens > 1 {
				o.set("decode_throughput", float64(tokens-1)/d)
			}
		}
		o.set("response_sent_to_client_ts", unixSeconds(time.Now()))
	}
	return o
}

func cachedDetails(p progress) object {
	var o object
	o.set("device", p.cached-p.cachedHost)
	o.set("host", p.cachedHost)
	return o
}

// streamNative sends cumulative text and ids, or only what is new with --incremental-streaming-output.
func (w *web) streamNative(rw http.ResponseWriter, r *http.Request, q *request) {
	out := startStream(rw)
	var text, ids, event []byte
	sent := 0
	for {
		p := q.snapshot()
		if p.tokens > sent || p.done != nil {
			if w.l.set.incremental {
				text, ids = text[:0], ids[:0]
			}
			for i := sent; i < p.tokens; i++ {
				id := q.token(i)
				if len(ids) > 0 {
					ids = append(ids, ',')
				}
				ids = strconv.AppendInt(ids, int64(id), 10)
				text = append(text, tokenText(id)...)
			}
			sent = p.tokens
			meta, err := json.Marshal(w.metaInfo(q, p))
			if err != nil {
				return
			}
			event = append(event[:0], `data: {"text":"`...)
			event = append(event, text...) // of small letters and spaces only
			event = append(event, `","output_ids":[`...)
			event = append(event, ids...)
			event = append(event, `],"meta_info":`...)
			event = append(event, meta...)
			event = append(event, "}\n\n"...)
			if p.done != nil {
				event = append(event, "data: [DONE]\n\n"...)
			}
			if !out.send(event) || p.done != nil {
				return
			}
		}
		select {
		case <-q.notify:
		case <-r.Context().Done():
			w.clientGone(q)
			return
		}
	}
}

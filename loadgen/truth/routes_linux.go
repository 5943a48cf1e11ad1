package truth

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// fixed are the answers to what clients ask before a run, in the shapes of SGLang and vLLM.
var fixed = map[string]string{
	"/v1/models":      `{"object":"list","data":[{"id":"mock","object":"model","created":1795959208,"owned_by":"truth","root":"mock","max_model_len":1048576}]}`,
	"/health":         `{"status":"ok"}`,
	"/get_model_info": `{"model_path":"mock","tokenizer_path":"mock","is_generation":true}`,
	"/server_info":    `{"version":"truth","model_path":"mock","served_model_name":"mock","internal_states":[{}]}`,
	"/flush_cache":    `{"success":true}`,
	"/version":        `{"version":"truth"}`,
}

// other names of the same.
var sameAs = map[string]string{
	"/models": "/v1/models", "/ping": "/health", "/": "/health", "/model_info": "/get_model_info",
	"/get_server_info": "/server_info", "/reset_prefix_cache": "/flush_cache", "/health_generate": "/health",
}

// route answers a request, or begins to.
func (w *worker) route(c *conn, r incoming) {
	path := string(r.path)
	if strings.HasPrefix(path, "/ctl/") {
		c.ctl = path + "?" + string(r.query)
		w.controls = append(w.controls, c)
		return
	}
	w.s.first.CompareAndSwap(0, w.s.now())
	if string(r.method) == "POST" {
		switch {
		case strings.HasSuffix(path, "/chat/completions"):
			w.start(c, r, apiChat)
			return
		case strings.HasSuffix(path, "/completions"):
			w.start(c, r, apiCompletions)
			return
		case path == "/generate":
			w.start(c, r, apiGenerate)
			return
		}
	}
	w.others[string(r.method)+" "+path]++
	if name, ok := sameAs[path]; ok {
		path = name
	}
	switch body, ok := fixed[path]; {
	case ok:
		w.reply(c, 200, "application/json", body)
	case path == "/metrics":
		w.reply(c, 200, "text/plain; version=0.0.4", w.metrics())
	case path == "/tokenize":
		w.reply(c, 200, "application/json", tokenize(r.body))
	default:
		w.reply(c, 404, "application/json", errorBody(404, "not found"))
	}
}

// metrics gives the counters of this thread under SGLang's names.
func (w *worker) metrics() string {
	var b strings.Builder
	for _, m := range []struct {
		name, kind string
		value      int64
	}{
		{"num_requests_total", "counter", w.totals.requests},
		{"prompt_tokens_total", "counter", w.totals.prompts},
		{"generation_tokens_total", "counter", w.totals.tokens},
		{"num_running_reqs", "gauge", int64(w.open)},
		{"num_queue_reqs", "gauge", 0},
	} {
		fmt.Fprintf(&b, "# TYPE sglang:%s %s\nsglang:%s{model_name=\"mock\"} %d\n", m.name, m.kind, m.name, m.value)
	}
	return b.String()
}

// tokenize counts a text as prompts are counted; the ids say nothing.
func tokenize(body []byte) string {
	n := readCall(body).prompt
	ids := make([]string, n)
	for i := range ids {
		ids[i] = strconv.Itoa(i)
	}
	return fmt.Sprintf(`{"count":%d,"max_model_len":1048576,"tokens":[%s]}`, n, strings.Join(ids, ","))
}

func errorBody(status int, message string) string {
	text, _ := json.Marshal(message) // a string always marshals
	return fmt.Sprintf(`{"object":"error","message":%s,"type":%q,"param":null,"code":%d}`, text, http.StatusText(status), status)
}

// streamHead is the head of a streamed answer, as uvicorn writes it.
func streamHead(closes bool) []byte {
	head := "HTTP/1.1 200 OK\r\nserver: truth\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n"
	if closes {
		head += "connection: close\r\n"
	}
	return []byte(head + "\r\n")
}

func appendHead(dst []byte, status int, kind string, length int, closes bool) []byte {
	dst = fmt.Appendf(dst, "HTTP/1.1 %d %s\r\nserver: truth\r\ncontent-type: %s\r\ncontent-length: %d\r\n", status, http.StatusText(status), kind, length)
	if closes {
		dst = append(dst, "connection: close\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// reply answers at once.
func (w *worker) reply(c *conn, status int, kind, body string) {
	w.send(c, append(appendHead(nil, status, kind, len(body), c.ends), body...))
	if c.ends && len(c.out) == 0 {
		w.drop(c)
	}
}

// control answers a request for /ctl. The lock is not held: it concerns all threads.
func (w *worker) control(c *conn) {
	path, query, _ := strings.Cut(c.ctl, "?")
	status, body := 200, ""
	switch path {
	case "/ctl/cfg":
		plan, err := ParseQuery(DefaultPlan(), query)
		if err == nil {
			err = w.s.SetPlan(plan)
		}
		if err != nil {
			status, body = 400, errorBody(400, err.Error())
			break
		}
		text, _ := json.Marshal(plan) // numbers and strings always marshal
		body = string(text)
	case "/ctl/reset":
		w.s.Reset()
		body = `{"success":true}`
	case "/ctl/dump":
		values, _ := url.ParseQuery(query)
		requests := w.s.Log()
		sum := w.s.summary(requests)
		if values.Get("events") == "0" {
			for i := range requests {
				requests[i].Events = nil
			}
		}
		text, err := appendLog(nil, sum, requests)
		if err != nil {
			status, text = 500, []byte(errorBody(500, err.Error()))
		}
		body = string(bytes.TrimRight(text, "\n"))
	default:
		status, body = 404, errorBody(404, "not found")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c.ctl = ""
	if !c.dead {
		w.reply(c, status, "application/json", body)
		w.read(c)
	}
}

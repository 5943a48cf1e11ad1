package simulate

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// shapeOf is a JSON text with its values replaced by their kind: names and order of names stay.
func shapeOf(t *testing.T, raw string) string {
	t.Helper()
	raw = strings.TrimSpace(raw)
	switch {
	case raw == "":
		return ""
	case raw[0] == '{':
		o, err := parseObject([]byte(raw))
		if err != nil {
			t.Fatalf("%v in %s", err, raw)
		}
		parts := make([]string, len(o))
		for i, f := range o {
			parts[i] = f.name + ":" + shapeOf(t, string(f.value))
		}
		return "{" + strings.Join(parts, " ") + "}"
	case raw[0] == '[':
		var list []json.RawMessage
		if err := json.Unmarshal([]byte(raw), &list); err != nil {
			t.Fatalf("%v in %s", err, raw)
		}
		if len(list) == 0 {
			return "[]"
		}
		return "[" + shapeOf(t, string(list[0])) + "]"
	case raw[0] == '"':
		return "s"
	case raw == "true" || raw == "false":
		return "b"
	case raw == "null":
		return "null"
	}
	return "n"
}

// events are the data lines of a stream.
func events(body string) []string {
	var list []string
	for line := range strings.SplitSeq(body, "\n") {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
			list = append(list, data)
		}
	}
	return list
}

func eventShapes(t *testing.T, list []string) []string {
	t.Helper()
	shapes := make([]string, len(list))
	for i, e := range list {
		shapes[i] = e
		if e != "[DONE]" {
			shapes[i] = shapeOf(t, e)
		}
	}
	return shapes
}

// names are the members of an object, in order.
func names(t *testing.T, raw string) []string {
	t.Helper()
	o, err := parseObject([]byte(raw))
	if err != nil {
		t.Fatalf("%v in %.200s", err, raw)
	}
	var list []string
	for _, f := range o {
		list = append(list, f.name)
	}
	return list
}

// isSubsequence reports whether all of a occur in b in the same order.
func isSubsequence(a, b []string) bool {
	for _, x := range b {
		if len(a) > 0 && a[0] == x {
			a = a[1:]
		}
	}
	return len(a) == 0
}

// One server answers all of what was recorded of a real one.
func TestHTTPAsRecorded(t *testing.T) {
	t.Parallel()
	s := launchServer(t, t.TempDir(), "llama-8b-24gb", 50, "--mem-fraction-static", "0.80", "--enable-metrics", "--enable-cache-report",
		"--enable-hierarchical-cache", "--hicache-size", "16", "--max-total-tokens", "8000").ready()
	t.Run("information", func(t *testing.T) { testInformation(t, s) })
	t.Run("streams", func(t *testing.T) { testStreams(t, s) })
	t.Run("answers", func(t *testing.T) { testAnswers(t, s) })
	t.Run("refusals", func(t *testing.T) { testRefusals(t, s) })
	t.Run("host hits", func(t *testing.T) { testHostHits(t, s) })
	t.Run("metrics", func(t *testing.T) { testMetrics(t, s) })
	t.Run("aborts", func(t *testing.T) { testAborts(t, s) })
	t.Run("flush", func(t *testing.T) { testFlush(t, s) })
	t.Run("access lines", func(t *testing.T) { testAccessLines(t, s) })
}

func testInformation(t *testing.T, s *server) {
	for path, file := range map[string]string{"/v1/models": "v1_models.json", "/get_load": "get_load.json"} {
		_, body := s.get(path)
		if got, want := shapeOf(t, body), shapeOf(t, recorded(t, file)); got != want {
			t.Errorf("%s:\n have %s\n want %s", path, got, want)
		}
	}
	for path, file := range map[string]string{"/model_info": "model_info.json", "/get_model_info": "model_info.json", "/v1/loads": "v1_loads.json"} {
		_, body := s.get(path)
		if got, want := names(t, body), names(t, recorded(t, file)); !isSubsequence(got, want) {
			t.Errorf("%s has %v, the real one %v", path, got, want)
		}
	}
	var load struct {
		Loads []json.RawMessage `json:"loads"`
	}
	_, body := s.get("/v1/loads")
	_, real := "", recorded(t, "v1_loads.json")
	want := load
	if json.Unmarshal([]byte(body), &load) != nil || json.Unmarshal([]byte(real), &want) != nil {
		t.Fatal("loads are no JSON")
	}
	if got, want := names(t, string(load.Loads[0])), names(t, string(want.Loads[0])); !isSubsequence(got, want) {
		t.Errorf("a load has %v, the real one %v", got, want)
	}
	var info map[string]json.RawMessage
	_, body = s.get("/server_info")
	if err := json.Unmarshal([]byte(body), &info); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"mem_fraction_static": "0.8", "max_total_num_tokens": "8000", "version": `"0.5.17"`, "enable_hierarchical_cache": "true",
		"hicache_size": "16", "tp_size": "1", "port": s.port, "max_req_input_len": "7994", "chunked_prefill_size": "2048",
	} {
		if got := string(info[name]); got != want {
			t.Errorf("server_info: %s is %s, want %s", name, got, want)
		}
	}
	if status, _ := s.get("/no_such_path"); status != http.StatusNotFound {
		t.Errorf("an unknown path answers %d", status)
	}
	if status, body := s.do("PUT", "/v1/completions", "{}"); status != http.StatusMethodNotAllowed || body != `{"detail":"Method Not Allowed"}` {
		t.Errorf("a wrong method answers %d %s", status, body)
	}
	began := time.Now()
	if status, _ := s.get("/health"); status != http.StatusOK || time.Since(began) < time.Second/50 {
		t.Errorf("health answers %d after %v; SGLang looks once a second, here a 50th", status, time.Since(began))
	}
}

func testStreams(t *testing.T, s *server) {
	for _, c := range []struct {
		golden, path, body string
		least              int // events that pick needs
		pick               func([]string) []string
	}{
		{"completions.sse", "/v1/completions",
			`{"model":"m","prompt":` + ids(200, 1) + `,"max_tokens":40,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, 4,
			func(e []string) []string { return []string{e[0], e[len(e)-3], e[len(e)-2], e[len(e)-1]} }},
		{"chat.sse", "/v1/chat/completions",
			`{"model":"m","messages":[{"role":"user","content":"say something"}],"max_tokens":20,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`, 6,
			func(e []string) []string {
				return []string{e[0], e[1], e[len(e)-4], e[len(e)-3], e[len(e)-2], e[len(e)-1]}
			}},
		{"generate.sse", "/generate",
			`{"input_ids":` + ids(10, 2) + `,"sampling_params":{"max_new_tokens":24,"ignore_eos":true},"stream":true}`, 4,
			func(e []string) []string { return []string{e[1], e[len(e)-2], e[len(e)-1]} }},
		{"too_long_generate.sse", "/generate",
			`{"input_ids":` + ids(9000, 3) + `,"sampling_params":{"max_new_tokens":4},"stream":true}`, 0,
			func(e []string) []string { return e }},
	} {
		if c.golden == "chat.sse" { // as there, the prompt's first token is known already
			s.do("POST", c.path, c.body)
		}
		status, body := s.do("POST", c.path, c.body)
		for range 20 { // on a busy machine an event may carry many tokens
			if len(events(body)) >= c.least {
				break
			}
			status, body = s.do("POST", c.path, c.body)
		}
		if status != http.StatusOK || len(events(body)) < c.least {
			t.Errorf("%s: status %d, %d events", c.path, status, len(events(body)))
			continue
		}
		got := eventShapes(t, c.pick(events(body)))
		want := eventShapes(t, events(recorded(t, c.golden)))
		for i := range want { // times of the recording's first event and its order are not kept
			got[i], want[i] = loosen(got[i]), loosen(want[i])
		}
		compare(t, c.golden, got, want)
	}
	_, body := s.do("POST", "/v1/completions", completion(ids(30, 4), 17))
	list := events(body)
	// On a busy machine an event may carry more than one token.
	if n := len(list); n < 3 || n > 17+2 || list[n-1] != "[DONE]" {
		t.Fatalf("%d events for 17 tokens, usage and the end: %q", n, list)
	}
	if usage := list[len(list)-2]; !strings.Contains(usage, `"usage":{"prompt_tokens":30,"total_tokens":47,"completion_tokens":17,`) {
		t.Errorf("usage: %s", usage)
	}
}

var metaTimes = regexp.MustCompile(` ?(forward_entry_time|prefill_finished_time|queue_time|request_received_ts|api_server_dispatch_finish_ts|response_sent_to_client_ts|request_finished_ts|decode_throughput|e2e_latency):n`)

// loosen drops the times of meta_info, which SGLang adds in changing order.
func loosen(shape string) string { return metaTimes.ReplaceAllString(shape, "") }

func testMetrics(t *testing.T, s *server) {
	_, body := s.get("/metrics")
	labels := regexp.MustCompile(`([a-z_]+)="[^"]*"`)
	series := func(text string) map[string]string {
		m := map[string]string{}
		for line := range strings.SplitSeq(text, "\n") {
			if name, rest, ok := strings.Cut(line, "{"); ok && !strings.HasPrefix(line, "#") && !strings.Contains(name, "_bucket") {
				var list []string
				for _, l := range labels.FindAllStringSubmatch(rest, -1) {
					list = append(list, l[1])
				}
				m[name] = strings.Join(list, ",")
			}
		}
		return m
	}
	got, want := series(body), series(recorded(t, "metrics.txt"))
	for name, l := range got {
		if w, ok := want[name]; ok && w != l {
			t.Errorf("%s has labels %s, the real one %s", name, l, w)
		} else if !ok && !strings.Contains(name, "http_re") && !strings.Contains(name, "aborted") {
			t.Errorf("%s is no series of SGLang's", name)
		}
	}
	for _, name := range []string{
		"sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage", "sglang:realtime_tokens_total", "sglang:generation_tokens_total",
		"sglang:cached_tokens_total", "sglang:load_back_tokens_total", "sglang:evicted_tokens_total", "sglang:hicache_host_used_tokens",
		"sglang:time_to_first_token_seconds_sum", "sglang:max_total_num_tokens", "sglang:gen_throughput",
	} {
		if got[name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
}

func testAborts(t *testing.T, s *server) {
	done := make(chan string)
	go func() {
		_, body := s.do("POST", "/generate", `{"rid":"abc-1","input_ids":`+ids(30, 40)+`,"sampling_params":{"max_new_tokens":5000,"ignore_eos":true},"stream":true}`)
		done <- body
	}()
	waitRunning(t, s, 1)
	if status, _ := s.do("POST", "/abort_request", `{"rid":"abc-1"}`); status != http.StatusOK {
		t.Errorf("abort answers %d", status)
	}
	list := events(<-done)
	if !strings.Contains(list[len(list)-2], `"finish_reason":{"type":"abort","message":"Aborted","status_code":null,"err_type":null}`) || list[len(list)-1] != "[DONE]" {
		t.Errorf("the aborted stream ends so: %.300s", list[len(list)-2])
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", s.url+"/v1/completions", strings.NewReader(completion(ids(30, 41), 5000)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close() // the client goes away
	waitRunning(t, s, 0)
}

func waitRunning(t *testing.T, s *server, n int) {
	t.Helper()
	want := fmt.Sprintf(`"num_running_reqs":%d,`, n)
	for limit := time.Now().Add(5 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		if _, body := s.get("/v1/loads"); strings.Contains(body, want) {
			return
		} else if time.Now().After(limit) {
			t.Fatalf("never %s in %s", want, body)
		}
	}
}

func testFlush(t *testing.T, s *server) {
	for _, method := range []string{"GET", "POST"} {
		if status, body := s.do(method, "/flush_cache", ""); status != 200 || body != flushText {
			t.Errorf("%s flush: %d %s", method, status, body)
		}
	}
	go s.do("POST", "/generate", `{"rid":"busy","input_ids":`+ids(30, 50)+`,"sampling_params":{"max_new_tokens":5000,"ignore_eos":true}}`)
	waitRunning(t, s, 1)
	if status, body := s.do("POST", "/flush_cache", ""); status != 400 || body != "Flush cache failed.\n" {
		t.Errorf("flush of a busy server: %d %s", status, body)
	}
	if status, body := s.do("POST", "/flush_cache?timeout=1", ""); status != 400 || body != "Timed out waiting for idle state.\n" {
		t.Errorf("flush of a busy server with a timeout: %d %s", status, body)
	}
	s.do("POST", "/abort_request", `{"abort_all":true}`)
	if status, _ := s.do("POST", "/flush_cache?timeout=100", ""); status != 200 {
		t.Errorf("flush after the abort: %d", status)
	}
}

func testAccessLines(t *testing.T, s *server) {
	line := regexp.MustCompile(`^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] INFO:     127\.0\.0\.1:\d+ - "(GET|POST|PUT) /\S+ HTTP/1\.1" \d{3} [A-Z][A-Za-z ]+$`)
	lines := strings.Split(strings.TrimSpace(s.stdout.String()), "\n")
	for _, l := range lines {
		if !line.MatchString(l) {
			t.Errorf("on stdout: %q", l)
		}
	}
	if len(lines) < 20 || slices.ContainsFunc(strings.Split(s.stderr.String(), "\n"), line.MatchString) {
		t.Errorf("%d access lines on stdout; there must be none on stderr", len(lines))
	}
}

// More requests than may run and wait, in the shapes of all four ways to ask.
func TestQueueFull(t *testing.T) {
	t.Parallel()
	s := launchServer(t, t.TempDir(), "llama-8b-24gb", 20, "--max-running-requests", "1", "--max-queued-requests", "1").ready()
	go s.do("POST", "/generate", `{"input_ids":`+ids(30, 1)+`,"sampling_params":{"max_new_tokens":4000,"ignore_eos":true}}`)
	waitRunning(t, s, 1)
	go s.do("POST", "/generate", `{"input_ids":`+ids(30, 2)+`,"sampling_params":{"max_new_tokens":4000,"ignore_eos":true}}`)
	for limit := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, body := s.get("/v1/loads"); strings.Contains(body, `"num_waiting_reqs":1,`) {
			break
		} else if time.Now().After(limit) {
			t.Fatal("nothing waits")
		}
	}
	_, v1 := s.do("POST", "/v1/completions", completion(ids(30, 3), 5))
	_, own := s.do("POST", "/generate", `{"input_ids":`+ids(30, 4)+`,"sampling_params":{"max_new_tokens":4},"stream":true}`)
	compare(t, "queue_full_v1.sse", eventShapes(t, events(v1)), eventShapes(t, events(recorded(t, "queue_full_v1.sse"))))
	got, want := eventShapes(t, events(own)), eventShapes(t, events(recorded(t, "queue_full_generate.sse")))
	compare(t, "queue_full_generate.sse", []string{loosen(got[0]), got[1]}, []string{loosen(want[0]), want[1]})
	lines := strings.Split(strings.TrimSpace(recorded(t, "errors.json")), "\n")
	for _, path := range []string{"/generate", "/v1/completions"} {
		body := `{"prompt":` + ids(30, 5) + `,"input_ids":` + ids(30, 5) + `}`
		if status, text := s.do("POST", path, body); status != 503 || text != lines[len(lines)-1] {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

// realtime_tokens_total{mode="decode"}: 0.5.17 counted 264 for 264 generated tokens, 0.5.23 counted 7 for 8 of one request.
func TestDecodeCounterByVersion(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"0.5.17": "20.0", "0.5.23": "19.0"} {
		s := launchServer(t, t.TempDir(), "llama-8b-24gb", 50, "--enable-metrics", "--skip-server-warmup", "--sglang-version", version).ready()
		s.do("POST", "/v1/completions", completion(ids(20, 1), 20))
		_, body := s.get("/metrics")
		if got := regexp.MustCompile(`mode="decode",.* (\S+)`).FindStringSubmatch(body); got == nil || got[1] != want {
			t.Errorf("%s: %v, want %s", version, got, want)
		}
	}
}

package simulate

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// web is the HTTP side of the server: SGLang's tokenizer manager.
type web struct {
	l     *launch
	sched *scheduler

	ready       atomic.Bool
	stopping    atomic.Bool
	generations atomic.Int64 // begun, probes not counted
	gauges      atomic.Pointer[gauges]
	tally       tally

	mu   sync.Mutex
	open map[string]*request
}

func newWeb(l *launch) *web {
	w := &web{l: l, sched: l.sched, open: map[string]*request{}}
	w.gauges.Store(&gauges{ratio: l.sched.ratio0})
	w.tally.init()
	return w
}

// openIDs are the requests that have not ended, in order.
func (w *web) openIDs() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := make([]string, 0, len(w.open))
	for id := range w.open {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// reply notes the status of an answer and writes the access line when its head goes out, as uvicorn does.
type reply struct {
	http.ResponseWriter
	w       *web
	r       *http.Request
	written bool
}

// WriteHeader sends the head once.
func (p *reply) WriteHeader(status int) {
	if p.written {
		return
	}
	p.written = true
	p.Header().Set("Server", "uvicorn")
	p.w.tally.response(p.r.URL.Path, p.r.Method, status)
	if !p.w.l.set.quietAccess {
		path := p.r.URL.RequestURI()
		line := fmt.Sprintf("[%s] INFO:     %s - \"%s %s %s\" %d %s\n", stamp(), p.r.RemoteAddr, p.r.Method, path, p.r.Proto, status, http.StatusText(status))
		_, _ = io.WriteString(p.w.l.stdout, line)
	}
	p.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the body, after the head.
func (p *reply) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	return p.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (p *reply) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// route is what answers a path.
type route struct {
	methods string // allowed, separated by spaces
	handle  func(*web, http.ResponseWriter, *http.Request)
	open    bool // needs no key
}

func routes() map[string]route {
	return map[string]route{
		"/health":                {"GET", (*web).health, true},
		"/health_generate":       {"GET", (*web).health, true},
		"/ping":                  {"GET POST", (*web).ping, true},
		"/model_info":            {"GET", (*web).modelInfo, false},
		"/get_model_info":        {"GET", (*web).modelInfo, false},
		"/server_info":           {"GET", (*web).serverInfo, false},
		"/get_server_info":       {"GET", (*web).serverInfo, false},
		"/v1/models":             {"GET", (*web).models, false},
		"/v1/loads":              {"GET", (*web).loads, false},
		"/get_load":              {"GET", (*web).getLoad, false},
		"/metrics":               {"GET", (*web).metrics, true},
		"/metrics/":              {"GET", (*web).metrics, true},
		"/flush_cache":           {"GET POST", (*web).flushCache, false},
		"/abort_request":         {"POST", (*web).abortRequest, false},
		"/freeze_gc":             {"GET POST", (*web).ping, false},
		"/generate":              {"POST PUT", (*web).generate, false},
		"/v1/completions":        {"POST", (*web).completions, false},
		"/v1/chat/completions":   {"POST", (*web).chat, false},
		"/tokenize":              {"POST", (*web).tokenize, false},
		"/v1/tokenize":           {"POST", (*web).tokenize, false},
		"/simulator":             {"GET", (*web).simulator, true},
		"/set_internal_state":    {"POST PUT", (*web).ping, false},
		"/start_profile":         {"GET POST", (*web).ping, false},
		"/stop_profile":          {"GET POST", (*web).ping, false},
		"/hicache/storage-state": {"GET", (*web).ping, false},
	}
}

var routeTable = routes()

// deprecatedPaths name the new path of an old one: each use is a log line.
var deprecatedPaths = map[string]string{"/get_model_info": "/model_info", "/get_server_info": "/server_info", "/get_load": "/v1/loads"}

// ServeHTTP finds the route.
func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	p := &reply{ResponseWriter: rw, w: w, r: r}
	w.tally.request(r.URL.Path, r.Method)
	to, ok := routeTable[r.URL.Path]
	if ok && (r.URL.Path == "/get_load" && !w.l.rel.getLoad || strings.HasPrefix(r.URL.Path, "/metrics") && !w.l.set.metrics) {
		ok = false
	}
	switch {
	case !ok:
		writeJSON(p, http.StatusNotFound, map[string]string{"detail": "Not Found"})
	case !slices.Contains(strings.Fields(to.methods), r.Method):
		writeJSON(p, http.StatusMethodNotAllowed, map[string]string{"detail": "Method Not Allowed"})
	case !to.open && w.l.set.apiKey != "" && r.Header.Get("Authorization") != "Bearer "+w.l.set.apiKey:
		writeJSON(p, http.StatusUnauthorized, map[string]string{"error": "Unauthorized"})
	default:
		if name := deprecatedPaths[r.URL.Path]; name != "" {
			w.l.log.main("Endpoint '%s' is deprecated and will be removed in a future version. Please use '%s' instead.", r.URL.Path, name)
		}
		to.handle(w, p, r)
	}
}

func writeJSON(rw http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	writeBody(rw, status, "application/json", data)
}

func writeBody(rw http.ResponseWriter, status int, contentType string, data []byte) {
	if contentType != "" {
		rw.Header().Set("Content-Type", contentType)
	} else {
		rw.Header()["Content-Type"] = nil
	}
	rw.Header().Set("Content-Length", strconv.Itoa(len(data)))
	rw.WriteHeader(status)
	_, _ = rw.Write(data) // a client that is gone needs no answer
}

func (w *web) ping(rw http.ResponseWriter, _ *http.Request) {
	writeBody(rw, http.StatusOK, "", nil)
}

// healthTimeout is how long SGLang waits for its scheduler to show life, in model seconds.
const healthTimeout = 20

// health sends a probe of one token when nothing runs, and waits for any sign of life of the scheduler. SGLang looks once a second.
func (w *web) health(rw http.ResponseWriter, r *http.Request) {
	if w.stopping.Load() {
		w.l.log.main("Health check request received during shutdown. Returning 503.")
		writeBody(rw, http.StatusServiceUnavailable, "", nil)
		return
	}
	if !w.ready.Load() {
		writeBody(rw, http.StatusServiceUnavailable, "", nil)
		return
	}
	before := w.sched.counts.decoded.Load()
	if load := w.sched.load.Load(); load.running+load.waiting == 0 {
		q := newRequest("HEALTH_CHECK_"+newID(), []int32{0}, 1)
		q.probe = true
		w.sched.submit(q)
	}
	for range healthTimeout {
		w.l.sleep(r.Context(), 1)
		if r.Context().Err() != nil {
			return
		}
		if w.sched.counts.decoded.Load() != before {
			writeBody(rw, http.StatusOK, "", nil)
			return
		}
	}
	w.l.log.main("Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. tic start time: %s. last_heartbeat time: %s", stamp()[11:], stamp()[11:])
	writeBody(rw, http.StatusServiceUnavailable, "", nil)
}

// flushText is the answer of a flush that worked.
const flushText = "Cache flushed.\nPlease check backend logs for more details. (When there are running or waiting requests, the operation will not be performed.)\n"

// flushCache empties the prefix cache; with a timeout (model seconds) it waits for an idle server first.
func (w *web) flushCache(rw http.ResponseWriter, r *http.Request) {
	seconds, _ := strconv.ParseFloat(r.URL.Query().Get("timeout"), 64) // absent or wrong: 0
	limit := time.Now().Add(time.Duration(seconds / w.l.speed * float64(time.Second)))
	for {
		var done bool
		var queued, running int
		if !w.sched.do(r.Context(), func() {
			done = w.sched.flush()
			queued, running = len(w.sched.waiting), len(w.sched.running)
		}) {
			<-r.Context().Done() // a dead scheduler never answers
			return
		}
		if done {
			w.l.log.rank(0, "Cache flushed successfully!")
			writeBody(rw, http.StatusOK, "", []byte(flushText))
			return
		}
		if !time.Now().Before(limit) {
			w.l.log.rank(0, "Cache not flushed because there are pending requests. #queue-req: %d, #running-req: %d", queued, running)
			text := "Flush cache failed.\n"
			if seconds > 0 {
				text = "Timed out waiting for idle state.\n"
			}
			writeBody(rw, http.StatusBadRequest, "", []byte(text))
			return
		}
		w.l.sleep(r.Context(), 0.1)
		if r.Context().Err() != nil {
			return
		}
	}
}

// abortRequest ends one request, or all.
func (w *web) abortRequest(rw http.ResponseWriter, r *http.Request) {
	var body struct {
		RID string `json:"rid"`
		All bool   `json:"abort_all"`
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err == nil {
		err = json.Unmarshal(data, &body)
	}
	if err != nil {
		writeError(rw, badRequest(jsonProblem(err)))
		return
	}
	if body.All {
		w.sched.abort("")
	} else if body.RID != "" {
		w.sched.abort(body.RID)
	}
	writeBody(rw, http.StatusOK, "", nil)
}

// tokenize shows how the simulated tokenizer cuts a text.
func (w *web) tokenize(rw http.ResponseWriter, r *http.Request) {
	var body struct {
		Prompt string `json:"prompt"`
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err == nil {
		err = json.Unmarshal(data, &body)
	}
	if err != nil {
		writeError(rw, badRequest(jsonProblem(err)))
		return
	}
	ids := tokenize(body.Prompt)
	writeJSON(rw, http.StatusOK, map[string]any{"tokens": ids, "count": len(ids), "max_model_len": w.l.set.contextLength})
}

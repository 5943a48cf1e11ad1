package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clipFromEnviron is how many new tokens of a request are reserved at most.
func clipFromEnviron() int {
	if n, err := strconv.Atoi(os.Getenv("SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION")); err == nil && n > 0 {
		return n
	}
	return clipNewTokens
}

// keepAlive is how long uvicorn keeps an idle connection, in real time.
const keepAlive = 5 * time.Second

// serve answers HTTP until the server is told to stop or dies.
func (l *launch) serve(ctx context.Context, deaths <-chan error) error {
	web := newWeb(l)
	favour()
	l.observe(web)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	l.serving.Store(true)
	pid := os.Getpid()
	l.log.main("INFO:     Started server process [%d]", pid)
	l.log.main("INFO:     Waiting for application startup.")
	l.log.main("INFO:     Application startup complete.")
	address := net.JoinHostPort(l.set.host, strconv.Itoa(l.set.port))
	warm := make(chan error, 1)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return l.portTaken(ctx, err, web)
	}
	l.log.main("INFO:     Uvicorn running on http://%s (Press CTRL+C to quit)", address)
	server := &http.Server{Handler: web, IdleTimeout: keepAlive, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // returns when the process ends
	go func() {
		keepTime()
		l.sched.run(ctx)
	}()
	go func() { warm <- l.warmUp(ctx, web) }()
	for {
		select {
		case err := <-warm:
			if err != nil {
				return err
			}
		case err := <-deaths:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case sig := <-signals:
			if sig == syscall.SIGINT {
				return l.interrupted(ctx, web)
			}
			if l.faults.has("ignore-term") {
				continue
			}
			if l.faults.escapes("orphan") {
				killSelf()
			}
			return l.terminated(ctx, web, deaths)
		}
	}
}

// observe connects the scheduler to the log, the claims and the faults.
func (l *launch) observe(web *web) {
	s := l.sched
	claimed := l.mem.used()
	s.on.prefill = func(st prefillStats) {
		l.log.rank(0, "%s", prefillLine(st))
		web.gauges.Store(gaugesOf(s, st.throughput, true))
	}
	s.on.decode = func(st decodeStats) {
		l.log.rank(0, "%s", decodeLine(st))
		web.gauges.Store(gaugesOf(s, st.throughput, false))
	}
	s.on.retract = func(st retractStats) { l.log.rank(0, "%s", retractLine(st)) }
	s.sleep = sleepPrecisely
	s.on.died = func(f failure) { l.fallen <- f }
	s.on.grown = func() {
		if used := l.mem.used(); used-claimed >= 64*mib {
			claimed = used
			_ = l.claim(used) // the next growth tries again
		}
	}
	if n := max(l.faults.count("mute"), l.faults.count("keep-alive")); n > 0 {
		s.mute = func() bool { return web.generations.Load() >= n }
	}
	if n := l.faults.count("exhaust"); n > 0 {
		s.exhausted = func() bool { return web.generations.Load() >= n }
	}
}

// portTaken is what happens when somebody else holds the port: uvicorn gives up, and the warm-up meanwhile talks to whoever answers there.
func (l *launch) portTaken(ctx context.Context, err error, web *web) error {
	reason := "address already in use"
	number := 98
	if !errors.Is(err, syscall.EADDRINUSE) {
		reason, number = err.Error(), 99
	}
	l.log.main("ERROR:    [Errno %d] error while attempting to bind on address ('%s', %d): %s", number, l.set.host, l.set.port, reason)
	l.log.main("INFO:     Waiting for application shutdown.")
	l.log.main("INFO:     Application shutdown complete.")
	if err := l.warmUp(ctx, web); err != nil {
		return err
	}
	l.log.main("kill_process_tree called: parent_pid=%d, include_parent=False, pid=%d", os.Getpid(), os.Getpid())
	return &ending{l.rel.bindCode}
}

// warmUp asks the server, over its own port, for its model and for a few tokens; only then is it ready.
func (l *launch) warmUp(ctx context.Context, web *web) error {
	if l.set.skipWarmup {
		web.ready.Store(true)
		l.log.main("The server is fired up and ready to roll!")
		return nil
	}
	if err := l.phase(ctx, "warmup"); err != nil {
		return err
	}
	base := "http://" + net.JoinHostPort(l.set.host, strconv.Itoa(l.set.port))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	status, text := 0, ""
	for range 120 { // SGLang's count: one a second
		l.sleep(ctx, 1)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		status, text = l.ask(ctx, client, http.MethodGet, base+"/model_info", nil, 5)
		if status == http.StatusOK {
			break
		}
	}
	if status == http.StatusOK {
		if err := l.spend(ctx, "warmup", l.p.WarmUp); err != nil {
			return err
		}
		body, err := json.Marshal(map[string]any{"text": "the capital city of france is", "sampling_params": map[string]any{"temperature": 0, "max_new_tokens": 8, "ignore_eos": true}})
		if err != nil {
			return err
		}
		status, text = l.ask(ctx, client, http.MethodPost, base+"/generate", body, 600)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if status != http.StatusOK {
		l.log.raw(fmt.Sprintf("[%s] Initialization failed. warmup error: %s\n", stamp(), traceback([]frame{
			{"sglang/srt/entrypoints/http_server.py", 2398, "_execute_server_warmup", "assert res.status_code == 200, f\"{res=}, {res.text=}\""},
		}, fmt.Sprintf("AssertionError: res=<Response [%d]>, res.text=%s", status, pyString(text)))))
		l.log.main("kill_process_tree called: parent_pid=%d, include_parent=True, pid=%d", os.Getpid(), os.Getpid())
		return &ending{-9}
	}
	web.ready.Store(true)
	l.log.main("The server is fired up and ready to roll!")
	return nil
}

// ask sends one request of the warm-up; status 0: no answer within the time (model seconds).
func (l *launch) ask(ctx context.Context, client *http.Client, method, url string, body []byte, seconds float64) (status int, text string) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds/l.speed*float64(time.Second)))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, ""
	}
	req.Header.Set("Content-Type", "application/json")
	if l.set.apiKey != "" {
		req.Header.Set("Authorization", "Bearer "+l.set.apiKey)
	}
	reply, err := client.Do(req)
	if err != nil {
		return 0, ""
	}
	defer reply.Body.Close()
	data, err := io.ReadAll(io.LimitReader(reply.Body, 1<<16))
	if err != nil {
		return 0, ""
	}
	return reply.StatusCode, string(data)
}

// terminated is SIGTERM while serving: open requests end, new ones are still taken, health says 503.
func (l *launch) terminated(ctx context.Context, web *web, deaths <-chan error) error {
	web.stopping.Store(true)
	l.log.main("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
	for {
		l.sleep(ctx, 2) // the poll comes each 5 s and has been running: half of it on average
		select {
		case err := <-deaths:
			return err
		default:
		}
		left := web.openIDs()
		quoted := make([]string, len(left))
		for i, id := range left {
			quoted[i] = pyString(id)
		}
		l.log.main("Gracefully exiting... Remaining number of requests %d. Remaining requests remaining_rids=[%s].", len(left), strings.Join(quoted, ", "))
		if len(left) == 0 {
			break
		}
		l.sleep(ctx, 3)
	}
	l.sleep(ctx, 2) // the schedulers give back pinned memory
	pid := os.Getpid()
	if l.rel.termCode == 0 {
		l.log.main("kill_process_tree called: parent_pid=%d, include_parent=False, pid=%d", pid, pid)
		l.farewell()
	}
	l.log.main("kill_process_tree called: parent_pid=%d, include_parent=%s, pid=%d", pid, pyBool(l.rel.termCode != 0), pid)
	return &ending{l.rel.termCode}
}

// interrupted is SIGINT while serving: uvicorn's own way out.
func (l *launch) interrupted(ctx context.Context, web *web) error {
	web.stopping.Store(true)
	l.farewell()
	l.sleep(ctx, 1)
	l.log.main("kill_process_tree called: parent_pid=%d, include_parent=False, pid=%d", os.Getpid(), os.Getpid())
	if l.rel.intCode < 0 {
		l.log.raw(traceback([]frame{{"sglang/launch_server.py", 84, "<module>", "run_server(server_args)"}}, "KeyboardInterrupt"))
	}
	return &ending{l.rel.intCode}
}

func (l *launch) farewell() {
	l.log.main("INFO:     Shutting down")
	l.log.main("INFO:     Waiting for application shutdown.")
	l.log.main("INFO:     Application shutdown complete.")
	l.log.main("INFO:     Finished server process [%d]", os.Getpid())
}

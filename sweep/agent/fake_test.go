//go:build linux

package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sweep/sweep"
	"sweep/sweep/engine"
	"sweep/sweep/proc"
	"sweep/sweep/proc/proctest"
	"sweep/sweep/simulate"
)

// The test binary is also the supervisor, the agent, the server and the simulator, by its first argument.
func TestMain(m *testing.M) {
	if code, is := proctest.Client(); is {
		os.Exit(code)
	}
	if code, is := simulate.RunChild(); is {
		os.Exit(code)
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "supervise":
			if len(os.Args) > 3 && os.Args[2] == "--exec" {
				os.Exit(proc.Exec(os.Args[4:]))
			}
			os.Exit(proc.Supervise(context.Background(), os.Stdin, os.Stdout))
		case "simulate":
			os.Exit(simulate.Main(context.Background(), os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
		case "agent":
			opt := Options{Dir: os.Args[2], Out: os.Args[3], Self: os.Args[0], Engine: func(string) (*sweep.Engine, bool) { return fakeEngine(nil), true }}
			if len(os.Args) > 5 { // of a real engine, with the program that is its own simulator
				opt.Engine, opt.Self, opt.Supervisor = engine.Lookup, os.Args[5], []string{os.Args[0], "supervise"}
			}
			err := Run(context.Background(), opt)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		case "serve":
			os.Exit(fakeServer(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

// fakeServer is a small inference server that misbehaves on request.
func fakeServer(args []string) int {
	fs := flag.NewFlagSet("serve", flag.ExitOnError)
	port := fs.Int("port", 0, "")
	name := fs.String("name", "", "")
	how := fs.String("how", "", "ready, dies, crashes, hangs, slow, oom-under-load, crash-under-load, stalls, shuts, fails, refuses, deaf, liar, wrong-name, idle-death, counts-otherwise")
	key := fs.String("key", "", "API key that all routes but /health ask for")
	_ = fs.Parse(args)
	fmt.Println("phase weights")
	switch *how {
	case "dies":
		fmt.Println("sign oom.graph out of memory while capturing")
		return 1
	case "crashes":
		return 3
	case "hangs":
		time.Sleep(time.Hour)
	case "slow":
		for {
			time.Sleep(20 * time.Millisecond)
			fmt.Println("progress loading")
		}
	case "liar":
		fmt.Println("ready")
		time.Sleep(time.Hour)
	case "port-taken":
		fmt.Println("sign busy.port [Errno 98] address already in use")
		time.Sleep(time.Hour)
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
	}
	f := &fake{how: *how, name: *name}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {
		if f.how == "shuts" && f.served.Load() > 1 {
			panic(http.ErrAbortHandler)
		}
	})
	mux.HandleFunc("GET /v1/models", f.models)
	mux.HandleFunc("GET /counters", f.counters)
	mux.HandleFunc("POST /flush", f.flush)
	mux.HandleFunc("POST /v1/completions", f.complete)
	fmt.Println("fact kv_tokens 1234")
	fmt.Println("ready")
	guard := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if *key != "" && r.URL.Path != "/health" && r.Header.Get("Authorization") != "Bearer "+*key {
			http.Error(w, `{"error":"Unauthorized"}`, http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	})
	if err := http.ListenAndServe(fmt.Sprintf("127.0.0.1:%d", *port), guard); err != nil {
		fmt.Println("sign busy.port", err)
	}
	return 1
}

type fake struct {
	how, name                               string
	running, decoded, ended, tokens, served atomic.Int64
}

func (f *fake) models(w http.ResponseWriter, _ *http.Request) {
	name := f.name
	if f.how == "wrong-name" {
		name = "other-model"
	}
	fmt.Fprintf(w, `{"data":[{"id":%q}]}`, name)
}

func (f *fake) counters(w http.ResponseWriter, _ *http.Request) {
	_ = json.NewEncoder(w).Encode(sweep.Values{
		sweep.SignalRunning: float64(f.running.Load()), sweep.SignalDecodeTokens: float64(f.decoded.Load()),
		sweep.SignalFinished: float64(f.ended.Load()), sweep.SignalFinishedTokens: float64(f.tokens.Load()),
	})
}

func (f *fake) flush(w http.ResponseWriter, _ *http.Request) {
	if f.running.Load() > 0 {
		http.Error(w, "not idle", http.StatusBadRequest)
	}
	if f.how == "idle-death" && f.served.Load() > 1 {
		os.Exit(7)
	}
}

// complete streams one token each 5 ms, with the usage in each event.
func (f *fake) complete(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Prompt    []int `json:"prompt"`
		MaxTokens int   `json:"max_tokens"`
	}
	body, _ := io.ReadAll(r.Body)
	if json.Unmarshal(body, &ask) != nil {
		http.Error(w, "no prompt", http.StatusBadRequest)
		return
	}
	running := f.running.Add(1)
	defer f.running.Add(-1)
	if f.served.Add(1) > 1 && f.misbehave(w, running) {
		return
	}
	prompt := len(ask.Prompt)
	if f.how == "counts-otherwise" && f.served.Load() > 1 {
		prompt++
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flusher := w.(http.Flusher)
	for i := 1; i <= ask.MaxTokens; i++ {
		time.Sleep(5 * time.Millisecond)
		finish := "null"
		if i == ask.MaxTokens {
			finish = `"length"`
		}
		if i > 1 {
			f.decoded.Add(1)
		}
		if i == ask.MaxTokens {
			f.ended.Add(1)
			f.tokens.Add(int64(i))
		}
		fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"text\":\"x\",\"finish_reason\":%s}],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d}}\n\n",
			finish, prompt, i, prompt+i)
		flusher.Flush()
		if r.Context().Err() != nil {
			return
		}
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// misbehave reports whether the request has been dealt with.
func (f *fake) misbehave(w http.ResponseWriter, running int64) bool {
	switch f.how {
	case "oom-under-load":
		if running > 2 {
			fmt.Println("sign oom.prefill out of memory: tried to allocate 3 GiB")
			os.Exit(9)
		}
	case "crash-under-load":
		if running > 2 {
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Kill()
			}
		}
	case "shuts":
		panic(http.ErrAbortHandler)
	case "stalls":
		time.Sleep(time.Hour)
	case "fails":
		http.Error(w, `{"error":{"message":"internal"}}`, http.StatusInternalServerError)
		return true
	case "leaks":
		http.Error(w, fmt.Sprintf(`{"error":{"message":"key %s is wrong; Authorization: Bearer abcdef0123456789; model path %s"}}`, os.Getenv("TOKEN"), os.Getenv("TOKEN")), http.StatusInternalServerError)
		return true
	case "refuses":
		http.Error(w, `{"object":"error","message":"The input (9 tokens) is longer than the model's context length (8 tokens).","code":400}`, http.StatusBadRequest)
		return true
	}
	return false
}

// fakeLog reads what fakeServer prints.
type fakeLog struct {
	rest   []byte
	offset int64
	number int
}

func (l *fakeLog) Feed(p []byte) (events []sweep.LogEvent) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			return events
		}
		l.number++
		e := sweep.LogEvent{Evidence: sweep.Evidence{Line: l.number, Offset: l.offset, Text: string(line)}}
		l.offset += int64(len(line)) + 1
		l.rest = rest
		word, arg, _ := strings.Cut(string(line), " ")
		switch word {
		case "phase":
			e.Kind, e.Phase = sweep.LogPhase, sweep.Phase(arg)
		case "progress":
			e.Kind = sweep.LogProgress
		case "ready":
			e.Kind = sweep.LogReady
		case "fact":
			e.Kind = sweep.LogFact
			_, _ = fmt.Sscan(arg, &e.Name, &e.Value)
		case "sign":
			outcome, detail, _ := strings.Cut(arg, " ")
			e.Kind, e.Sign = sweep.LogSign, sweep.Sign{Outcome: sweep.Outcome(outcome), Detail: detail}
		default:
			continue
		}
		events = append(events, e)
	}
}

func (l *fakeLog) Close() []sweep.LogEvent { return nil }

func fakeVerdict(a sweep.Autopsy) sweep.Ending {
	e := sweep.Ending{Exit: a.Exit, Phase: a.Phase, Evidence: a.Last}
	switch {
	case len(a.Signs) > 0:
		e.Outcome, e.Detail, e.Evidence = a.Signs[0].Sign.Outcome, a.Signs[0].Sign.Detail, &a.Signs[0].Evidence
	case a.Slow:
		e.Outcome = sweep.SlowStart
	case a.Hang && a.Ready:
		e.Outcome = sweep.HangLoad
	case a.Hang:
		e.Outcome = sweep.HangStart
	case a.Ready:
		e.Outcome, e.Cause = sweep.CrashLoad, "unknown"
	default:
		e.Outcome, e.Cause = sweep.CrashStart, "unknown"
	}
	return e
}

// fakeEngine is the engine of fakeServer. argv, when not nil, sees each server's place.
func fakeEngine(argv func(sweep.ServerSpec)) *sweep.Engine {
	return &sweep.Engine{
		Name: "fake",
		Argv: func(s sweep.ServerSpec) []string {
			if argv != nil {
				argv(s)
			}
			args := []string{"--port", fmt.Sprint(s.Port), "--name", s.ServedName}
			for _, x := range s.Settings {
				args = append(args, "--"+x.Name, x.Value())
			}
			return args
		},
		Preflight: func(settings []sweep.Setting, _ sweep.Machine) *sweep.Ending {
			if how, _ := sweep.SettingValue(settings, "how"); how == "impossible" {
				return &sweep.Ending{Outcome: sweep.SkippedPreflight, Detail: "8 ranks × 300 GB = 2400 GB of 449 GB", ImpliedBy: "preflight"}
			}
			return nil
		},
		NewLog: func() sweep.LogReader { return &fakeLog{} }, Verdict: fakeVerdict,
		Health: "/health", Models: "/v1/models", Generate: "/v1/completions", TokenIDs: true,
		Flush: func(ctx context.Context, get sweep.Getter) error {
			status, reply, err := get(ctx, http.MethodPost, "/flush", nil)
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("status %d: %s", status, reply)
			}
			return err
		},
		Inspect: func(context.Context, sweep.Getter) (sweep.Inspection, error) {
			return sweep.Inspection{Version: "1.0", Facts: sweep.Values{"headroom_gib": 5.5}}, nil
		},
		Sample: func(ctx context.Context, get sweep.Getter) (v sweep.Values, err error) {
			_, reply, err := get(ctx, http.MethodGet, "/counters", nil)
			if err == nil {
				err = json.Unmarshal(reply, &v)
			}
			return v, err
		},
		Vocabulary: func(context.Context, sweep.Getter, string) ([]int, error) {
			ids := make([]int, 500)
			for i := range ids {
				ids[i] = 100 + i
			}
			return ids, nil
		},
	}
}

// readEvents reads an agent's events; each line must be whole.
func readEvents(t *testing.T, dir string) []sweep.Event {
	t.Helper()
	f, err := os.Open(dir + "/events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []sweep.Event
	for s := bufio.NewScanner(f); s.Scan(); {
		var e sweep.Event
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			t.Fatalf("%v: %s", err, s.Bytes())
		}
		list = append(list, e)
	}
	return list
}

package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"sweep/loadgen"
)

// loadFlags are the flags of "sweep load" as they were given.
type loadFlags struct {
	url, model, api string
	apiGiven        bool
	insecure        bool
	headers         []string
	apiKey          string

	concurrency string
	rate        float64
	stages      string
	arrivals    string
	shape       float64
	trace       string
	maxOpen     int

	requests         string
	duration, warmup time.Duration
	warmupGiven      bool
	precision        float64

	input, output string
	prefix        string
	turns         string
	think         time.Duration
	natural       bool
	ids           string
	prompts, body string
	workload      string
	seed          uint64
	salt          string

	stamps, path    string
	timeout, stall  time.Duration
	processes, part int

	records, exports []string
	json             string
}

const loadLong = `load drives streaming requests at a server that somebody else runs, and says what they saw: throughput, latency by
named definitions, and a verdict on itself: was it, and not the server, the limit?

Requests in flight are held at a level (--concurrency), or sent by a plan whatever becomes of those before (--rate, --trace). A run ends
after a number of requests (--requests), or after a time (--duration) in which requests keep coming. Ctrl-C ends it cleanly, with what was
measured.

Without --token-ids, --prompts or --workload the prompts are common words, about a token each; the server's own count is recorded.
The API key and the values of headers are named by environment variables, so that they stand in no file and no list of processes.

Files: --record FILE takes the raw record, by the name's end: .jsonl a line for each request, .parquet with all events,
else the compact binary form. --export writes what another tool would have reported, by its own definitions.

Exit codes: 0 measured · 1 failed requests (over 1 % and over 2), a server that stopped, or a client that was itself the limit ·
2 usage · 3 environment · 130 stopped by a signal`

func newLoadCmd(env *environ) *cobra.Command {
	f := &loadFlags{}
	cmd := &cobra.Command{
		Use:   "load --url URL",
		Short: "Drive load at any server and say what it saw",
		Long:  loadLong,
		Example: `  sweep load --url http://127.0.0.1:30000 --concurrency 64 --duration 1m --input 1024 --output 256
  sweep load --url http://127.0.0.1:8000 --rate 20 --arrivals gamma --shape 0.5 --requests 2000 --record run.parquet
  sweep load --url https://llm.example --api chat --api-key LLM_KEY --prompts prompts.jsonl --natural --concurrency 8 --requests 200
  sweep load --url http://127.0.0.1:30000 --workload grids/mine.yaml --concurrency short=150,long=32 --export bench-serving=out.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.apiGiven = cmd.Flags().Changed("api")
			f.warmupGiven = cmd.Flags().Changed("warmup")
			return runLoad(env, f)
		},
	}
	f.bindServer(cmd)
	f.bindLoad(cmd)
	f.bindFiles(cmd)
	return cmd
}

func (f *loadFlags) bindServer(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.url, "url", "", "the server: http://HOST:PORT, or https")
	flags.StringVar(&f.model, "model", "", "name sent with each request (default: the only one that the server lists)")
	enumFlag(cmd, &f.api, "api", "completions", []string{"completions", "chat", "generate"}, "route: /v1/completions, /v1/chat/completions, or SGLang's /generate")
	flags.StringArrayVar(&f.headers, "header", nil, "NAME=VARIABLE: a header with the value of an environment variable; may be repeated")
	flags.StringVar(&f.apiKey, "api-key", "", "environment variable that holds the API key")
	flags.BoolVar(&f.insecure, "insecure", false, "do not check the server's certificate")
	enumFlag(cmd, &f.stamps, "stamps", "auto", []string{"auto", "kernel", "user"}, "who stamps events")
	enumFlag(cmd, &f.path, "path", "auto", []string{"auto", "fast", "net-conn", "net-http"}, "how requests travel: fast needs Linux and plain HTTP; net-http speaks HTTP/2 and uses proxies")
	flags.DurationVar(&f.timeout, "timeout", loadgen.DefaultRequestTimeout, "of one request")
	flags.DurationVar(&f.stall, "stall", loadgen.DefaultStall, "end when no byte of any answer came for so long")
}

func (f *loadFlags) bindLoad(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.concurrency, "concurrency", "c", "", "requests in flight: 64, or short=150,long=32 for the classes of a workload")
	flags.Float64Var(&f.rate, "rate", 0, "requests a second, instead of a concurrency")
	flags.StringVar(&f.stages, "stages", "", "a rate that changes: 30s:1..20,1m:20 rises from 1 to 20 requests a second in 30 s, then holds for a minute")
	enumFlag(cmd, &f.arrivals, "arrivals", loadgen.Poisson, []string{loadgen.Poisson, loadgen.Gamma, loadgen.Constant}, "law of the times between planned requests")
	flags.Float64Var(&f.shape, "shape", 0, "of gamma arrivals: below 1 they come in bursts, above 1 more evenly than poisson")
	flags.StringVar(&f.trace, "trace", "", "file with the times and lengths of requests: Mooncake's JSON lines, BurstGPT's or Azure's CSV")
	flags.IntVar(&f.maxOpen, "max-open", 0, "most planned requests in flight; those beyond go late (0: no bound)")
	flags.StringVarP(&f.requests, "requests", "n", "", "send so many and wait for all: 1000, or short=300,long=64")
	flags.DurationVarP(&f.duration, "duration", "d", 0, "measure for so long (default 30s without --requests)")
	flags.DurationVar(&f.warmup, "warmup", 0, "before the measurement (default: none with --requests, else until the first requests have ended)")
	flags.Float64Var(&f.precision, "precision", 0, "end as soon as the 95 % interval of the throughput is within this share of it: 0.02; --duration is then the most")
	flags.StringVar(&f.input, "input", "512", "tokens of a prompt: 512, or 6000..14000")
	flags.StringVar(&f.output, "output", "128", "tokens of an answer, forced: 128, or 80..240")
	flags.StringVar(&f.prefix, "prefix", "", "GROUPSxTOKENS: each prompt begins with one of so many common prefixes of so many tokens: 8x1024")
	flags.StringVar(&f.turns, "turns", "", "conversations of so many requests, each with all that was said before: 4, or 2..6; --input is of each question")
	flags.DurationVar(&f.think, "think", 0, "mean time between an answer and the next question of a conversation")
	flags.BoolVar(&f.natural, "natural", false, "let the model stop where it would; --output is then the most")
	flags.StringVar(&f.ids, "token-ids", "", "draw prompts as token ids of a range: 1000..30000. Their length is exact, and held against the server's count")
	flags.StringVar(&f.prompts, "prompts", "", "file with prompts: JSON lines of OpenAI, ShareGPT, SGLang or vLLM")
	flags.StringVar(&f.body, "body", "", `further fields of each request, as JSON: '{"temperature":0.7}'`)
	flags.StringVar(&f.workload, "workload", "", "GRID, or GRID:NAME: the classes of a grid's workload")
	flags.Uint64Var(&f.seed, "seed", 1, "of lengths, prompts and arrivals")
	flags.StringVar(&f.salt, "salt", "", "makes prompts unlike those of other runs (default: drawn, so that no run finds another's prompts in a cache)")
	flags.IntVar(&f.processes, "processes", 1, "share the load over so many processes, merged exactly")
	flags.IntVar(&f.part, "part", -1, "be one of these processes (used by the command itself)")
	if err := flags.MarkHidden("part"); err != nil {
		panic(err) // the flag was added one line above
	}
}

func (f *loadFlags) bindFiles(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.records, "record", nil, "file for the raw record: .jsonl, .parquet, else binary; may be repeated")
	flags.StringArrayVar(&f.exports, "export", nil, "bench-serving[=FILE] or vllm[=FILE]: the result by that tool's definitions (without FILE on standard output, in place of the table)")
	flags.StringVar(&f.json, "json", "", `file for the result as JSON ("-": standard output, in place of the table)`)
}

// runLoad is the whole of "sweep load".
func runLoad(env *environ, f *loadFlags) error {
	job, err := newLoadJob(env, f)
	if err != nil {
		return exitWith(exitUsage, err)
	}
	if f.part >= 0 {
		return loadPart(env, job)
	}
	out, err := job.outputs(f)
	if err != nil {
		return exitWith(exitUsage, err)
	}
	if job.spec.Model == "" && job.needsModel() {
		if job.spec.Model, err = job.askModel(env.Ctx); err != nil {
			return exitWith(exitEnvironment, err)
		}
	}
	if err := out.open(); err != nil {
		return exitWith(exitEnvironment, err)
	}
	defer out.remove()
	stop := catchLoadSignals(env)
	live := newLiveLine(env)
	job.at = time.Now()
	var runErr error
	if f.processes > 1 {
		job.result, runErr = job.runParts(stop.ctx, env, f, out, live)
	} else {
		job.result, runErr = job.runOne(stop.ctx, out, live)
	}
	live.end()
	stop.end()
	if job.result.Whole == nil && runErr != nil && !stop.stopped() { // nothing was sent
		return exitWith(exitEnvironment, runErr)
	}
	job.ended(runErr, stop.stopped())
	return errors.Join(out.finish(env, job), job.exit())
}

// exit is what the run's end means as an exit code; all has been said by then.
func (j *loadJob) exit() error {
	r := &j.result
	bad := r.Failed + r.Rejected
	switch {
	case j.stopped:
		return exitWith(exitInterrupted, nil)
	case errors.Is(j.err, loadgen.ErrStalled), errors.Is(j.err, loadgen.ErrFailing), errors.Is(j.err, loadgen.ErrPrompts):
		return exitWith(exitOther, fmt.Errorf("load: %w", j.err))
	case j.err != nil:
		return exitWith(exitEnvironment, fmt.Errorf("load: %w", j.err))
	case r.Verdict == loadgen.ClientBound:
		return exitWith(exitOther, errors.New("load: the client was the limit: the numbers do not describe the server"))
	case bad > 2 && 100*bad > r.Sent:
		return exitWith(exitOther, fmt.Errorf("load: %d of %d requests failed", bad, r.Sent))
	}
	return nil
}

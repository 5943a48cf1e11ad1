package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// options are the flags.
type options struct {
	serve, install, quick bool
	raw                   string
	peers                 []string
	ours                  string
	repeats               int
	sizes, lockSizes      []int
	only                  string
	out                   string
	serverCore, core      int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := realMain(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		stop()
		os.Exit(1)
	}
}

const defaultOurs = "sweep load --url {url} --model mock --concurrency {streams} --requests {requests} --input 16 --output {tokens} --stamps {stamps} --json {out}"

func readFlags() (options, error) {
	var o options
	var peers, sizes, lockSizes string
	flag.BoolVar(&o.serve, "serve", false, "be the server (used by the command itself)")
	flag.StringVar(&o.raw, "raw", "", "be the bare reader (used by the command itself)")
	flag.BoolVar(&o.install, "install", false, "install the peers, then end")
	flag.BoolVar(&o.quick, "quick", false, "one repeat of small cases")
	flag.StringVar(&peers, "peers", "sglang-rs,vllm-rs", "peers to measure: sglang-rs, vllm-rs, sglang-py, vllm-py (several GB), or none")
	flag.StringVar(&o.ours, "ours", defaultOurs, "our command, or none; a first word sweep is built from this module")
	flag.IntVar(&o.repeats, "repeats", 5, "repeats of each case")
	flag.StringVar(&sizes, "sizes", "100,300,1000,2000", "streams of the spread cases")
	flag.StringVar(&lockSizes, "lockstep", "300,1000", "streams of the lock-step cases")
	flag.StringVar(&o.only, "case", "", "run only the cases whose name begins so")
	flag.StringVar(&o.out, "out", "", "folder for the results (default: a new one below the cache folder)")
	flag.IntVar(&o.core, "client-core", 0, "core of the clients")
	flag.IntVar(&o.serverCore, "server-core", 1, "core of the server")
	flag.Parse()
	if peers != "none" && peers != "" {
		o.peers = strings.Split(peers, ",")
	}
	var err error
	if o.sizes, err = numbers(sizes); err == nil {
		o.lockSizes, err = numbers(lockSizes)
	}
	if o.quick {
		o.repeats = 1
	}
	return o, err
}

func numbers(list string) ([]int, error) {
	var all []int
	for _, word := range strings.FieldsFunc(list, func(c rune) bool { return c == ',' }) {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is no number of streams", word)
		}
		all = append(all, n)
	}
	return all, nil
}

func realMain(ctx context.Context) error {
	o, err := readFlags()
	switch {
	case err != nil:
		return err
	case o.serve:
		return serve()
	case o.raw != "":
		return runRaw(o.raw)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	in := &installer{root: filepath.Join(cache, "sweep", "peers"), log: log}
	peers, err := in.peers(ctx, o.peers)
	if err != nil || o.install {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	tools := []tool{rawTool(self, "user"), rawTool(self, "kernel")}
	own, err := ourTools(ctx, in.root, o.ours, log)
	if err != nil {
		return err
	}
	tools = append(append(tools, own...), peers...)
	if o.out == "" {
		o.out = filepath.Join(in.root, "results", time.Now().UTC().Format("20060102T150405Z"))
	}
	b := &bench{o: o, log: log, self: self, tools: tools}
	for _, c := range casesOf(o.quick, o.sizes, o.lockSizes) {
		if strings.HasPrefix(c.Name, o.only) {
			b.cases = append(b.cases, c)
		}
	}
	if len(b.cases) == 0 {
		return fmt.Errorf("no case begins with %q", o.only)
	}
	return b.run(ctx)
}

// ourTools builds our command, if the template asks for it, and describes it with either kind of stamps.
func ourTools(ctx context.Context, root, template string, log *slog.Logger) ([]tool, error) {
	if template == "none" || template == "" {
		return nil, nil
	}
	rest, isOurs := strings.CutPrefix(template, "sweep ")
	if isOurs {
		binary := filepath.Join(root, "bin", "sweep")
		if out, err := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, "sweep/cmd/sweep").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build sweep: %w: %s", err, out)
		}
		word, _, _ := strings.Cut(rest, " ")
		if err := exec.CommandContext(ctx, binary, word, "--help").Run(); err != nil {
			log.Warn("our client is not measured: the command does not exist", "command", "sweep "+word)
			return nil, nil
		}
		template = binary + " " + rest
	}
	version := "this tree"
	if out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output(); err == nil {
		version = strings.TrimSpace(string(out))
	}
	return []tool{ourTool(template, "user", version), ourTool(template, "kernel", version)}, nil
}

// bench runs all clients through all cases.
type bench struct {
	o       options
	log     *slog.Logger
	self    string
	tools   []tool
	cases   []benchCase
	server  *server
	results []result
}

func (b *bench) run(ctx context.Context) (err error) {
	if runtime.NumCPU() < 2 || b.o.core == b.o.serverCore {
		return errors.New("the server and the clients need a core each")
	}
	if err := os.MkdirAll(b.o.out, 0o755); err != nil {
		return err
	}
	if b.server, err = startServer(b.self, b.o.serverCore); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.close()) }()
	if err := pinAll(b.o.serverCore); err != nil { // the clients are to have their core for themselves
		return err
	}
	for repeat := range b.o.repeats {
		order := make([]*tool, len(b.tools))
		for i := range b.tools {
			order[i] = &b.tools[i]
		}
		if repeat%2 == 1 {
			slices.Reverse(order)
		}
		for _, c := range b.cases {
			for _, t := range order {
				if !t.Native && (c.Streams > 1000 || c.Name == "flood-16") {
					continue
				}
				r, err := b.undisturbed(ctx, c, t, repeat+1)
				if err != nil {
					return errors.Join(err, b.write(io.Discard))
				}
				b.results = append(b.results, r)
				b.say(&r)
			}
		}
	}
	return b.write(os.Stdout)
}

// undisturbed runs a client, and again when the server itself was held up meanwhile: what is then true is not known well enough.
func (b *bench) undisturbed(ctx context.Context, c benchCase, t *tool, repeat int) (result, error) {
	for again := 0; ; again++ {
		r, err := b.one(ctx, c, t, repeat)
		r.Again = again
		if err != nil || again == maxAgain || r.LateP99US <= c.lateLimitUS() {
			return r, err
		}
		b.log.Warn("run again: the server was held up", "case", c.Name, "client", t.Name, "repeat", repeat, "late_p99_us", fmt.Sprintf("%.0f", r.LateP99US))
	}
}

// maxAgain is how often a run is repeated at most because something else held the server up.
const maxAgain = 2

// one runs a client once and holds what it reports against the server's log.
func (b *bench) one(ctx context.Context, c benchCase, t *tool, repeat int) (result, error) {
	r := result{Case: c, Tool: t, Repeat: repeat}
	j := job{Case: c, URL: b.server.url, Dir: filepath.Join(b.o.out, "runs", fmt.Sprintf("%s-%s-%d", c.Name, strings.ReplaceAll(t.Name, " ", "-"), repeat))}
	if err := os.MkdirAll(j.Dir, 0o755); err != nil {
		return r, err
	}
	if err := b.server.configure(ctx, c.Query); err != nil {
		return r, err
	}
	used, err := measure(ctx, t.argv(j), j.Dir, b.o.core, 3*time.Minute)
	if err != nil {
		return r, err
	}
	sum, requests, err := b.server.dump(ctx, !c.Flood)
	if err != nil {
		return r, err
	}
	if err := ctx.Err(); err != nil {
		return r, err
	}
	said, err := t.read(j)
	r.Exit = used.exit
	if err != nil && r.Exit == "" {
		r.Exit = err.Error()
	}
	truly := readTruth(c, sum, requests)
	if truly.Requests < c.Requests && r.Exit == "" {
		r.Exit = fmt.Sprintf("the server saw %d whole requests of %d", truly.Requests, c.Requests)
	}
	r.Reported, r.True, r.Errors = said.Values, truly.Values, errorsOf(said.Values, truly.Values)
	r.Completed, r.Failed, r.Delivered, r.FloodPerS = said.Completed, said.Failed, truly.Delivered, truly.EventsPerS
	r.WallS, r.CPUTotalS = used.wall.Seconds(), used.cpu.Seconds()
	r.PeakRSS, r.PeakAnon = float64(used.peakRSS)/1e6, float64(used.peakAnon)/1e6
	r.LateP50US, r.LateP99US, r.LateMaxUS = float64(sum.LateP50NS)/1e3, float64(sum.LateP99NS)/1e3, float64(sum.LateMaxNS)/1e3
	r.Blocked, r.Events = sum.Blocked, sum.Events
	if truly.Requests > 0 {
		end := max(truly.LastEnd, truly.First+int64(said.DurationS*1e9)) // a client may still work on what has come
		r.StartS = float64(truly.First-used.started.UnixNano()) / 1e9
		r.LoadS = float64(end-truly.First) / 1e9
		r.CPULoadS = float64(used.between(truly.First-5e6, end)) / 1e9 // it made the first request before it arrived
	}
	return r, nil
}

// say tells how one run went.
func (b *bench) say(r *result) {
	per, _ := cpuPerEvent(r)
	b.log.Info("run", "case", r.Case.Name, "client", r.Tool.Name, "repeat", r.Repeat, "exit", r.Exit, "completed", r.Completed,
		"ttft_error_ms", fmt.Sprintf("%.3f", r.Errors["ttft_mean"]), "itl_p99_error_ms", fmt.Sprintf("%.3f", r.Errors["itl_p99"]),
		"cpu_us_event", fmt.Sprintf("%.2f", per), "private_mb", fmt.Sprintf("%.0f", r.PeakAnon), "start_s", fmt.Sprintf("%.3f", r.StartS), "late_p99_us", fmt.Sprintf("%.0f", r.LateP99US))
}

// write writes what was measured, to the folder and for a person.
func (b *bench) write(out io.Writer) error {
	table, err := os.Create(filepath.Join(b.o.out, "table.md"))
	if err != nil {
		return err
	}
	defer table.Close()
	both := io.MultiWriter(out, table)
	versions := b.versions()
	fmt.Fprintf(both, "# Load generators side by side\n\n%s. Median (least..most) of %d interleaved repeats; server alone on core %d, each client on core %d. Errors: reported less true.\n\n", versions["machine"], b.o.repeats, b.o.serverCore, b.o.core)
	head(both, "client", "version")
	for _, t := range b.tools {
		row(both, t.Name, t.Version)
	}
	fmt.Fprintln(both)
	if verdicts := judge(b.results, b.tools, goals()); len(verdicts) > 0 {
		writeGoals(both, verdicts)
	}
	for _, c := range b.cases {
		writeCase(both, c, b.results, b.tools)
	}
	runs, err := os.Create(filepath.Join(b.o.out, "runs.csv"))
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(versions, "", "  ")
	if err != nil {
		return err
	}
	err = errors.Join(writeCSV(runs, b.results), runs.Close(), os.WriteFile(filepath.Join(b.o.out, "versions.json"), append(text, '\n'), 0o644))
	b.log.Info("written", "folder", b.o.out)
	return err
}

// versions says what was measured on what.
func (b *bench) versions() map[string]string {
	v := map[string]string{"go": runtime.Version(), "at": time.Now().UTC().Format(time.RFC3339)}
	var name unix.Utsname
	_ = unix.Uname(&name) // it takes no arguments that could be wrong
	kernel := unix.ByteSliceToString(name.Release[:])
	v["kernel"] = kernel
	cpu := "processor unknown"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				cpu = strings.TrimSpace(value)
				break
			}
		}
	}
	v["machine"] = fmt.Sprintf("%s, %d cores, Linux %s, %s", cpu, runtime.NumCPU(), kernel, runtime.Version())
	for _, t := range b.tools {
		v[t.Name] = t.Version
	}
	return v
}

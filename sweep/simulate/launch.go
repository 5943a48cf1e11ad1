package simulate

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// options are the simulator's own flags; all others are SGLang's.
type options struct {
	profile string
	speed   float64
	version string
	faults  faults
}

// splitOptions takes the simulator's own flags out of a command line.
func splitOptions(argv []string) (o options, rest []string, err error) {
	o = options{speed: 1, version: "0.5.17"}
	for i := 0; i < len(argv); i++ {
		name, value, has := strings.Cut(argv[i], "=")
		switch name {
		case "--profile", "--speedup", "--sglang-version", "--fault", "--faults":
		default:
			rest = append(rest, argv[i])
			continue
		}
		if !has {
			if i+1 == len(argv) {
				return o, nil, fmt.Errorf("%s needs a value", name)
			}
			i++
			value = argv[i]
		}
		switch name {
		case "--profile":
			o.profile = value
		case "--sglang-version":
			o.version = value
		case "--speedup":
			o.speed, err = strconv.ParseFloat(value, 64)
			if err != nil || o.speed <= 0 {
				return o, nil, fmt.Errorf("--speedup: %q is no number above 0", value)
			}
		default:
			for text := range strings.SplitSeq(value, ",") {
				f, err := parseFault(text)
				if err != nil {
					return o, nil, err
				}
				o.faults = append(o.faults, f)
			}
		}
	}
	return o, rest, nil
}

// ending is how the launched process ends: an exit code as Python's subprocess shows it, negative for a signal.
type ending struct{ code int }

func (e *ending) Error() string { return fmt.Sprintf("exit %d", e.code) }

// launch is one simulated server.
type launch struct {
	options
	p       *Profile
	rel     release
	args    object
	given   map[string]bool
	set     settings
	stdout  io.Writer
	log     *logger
	kids    *family
	gpus    []int
	mem     *memory
	sched   *scheduler
	hoarded []byte // of the real machine's memory
	host    int64  // bytes of the host tier of one rank, as far as allocated

	began    time.Time
	spawned  time.Time // when the schedulers were started
	timings  timings
	serving  atomic.Bool  // children's deaths are then handled as SGLang does while serving
	fallen   chan failure // the scheduler's own death
	finished context.CancelCauseFunc
}

// timings are how long phases really took, in seconds.
type timings struct {
	weights, kv, scheduler, prefill, decode, tokenizer float64
}

// runSGLang is the life of a simulated server.
func runSGLang(ctx context.Context, argv []string, stdout, stderr io.Writer) int {
	o, rest, err := splitOptions(argv)
	if err != nil {
		fmt.Fprintf(stderr, "sweep simulate sglang: %v\n", err)
		return 2
	}
	p, err := LookupProfile(o.profile)
	if err != nil {
		fmt.Fprintf(stderr, "sweep simulate sglang: %v\n", err)
		return 2
	}
	rel, err := lookupRelease(o.version)
	if err != nil {
		fmt.Fprintf(stderr, "sweep simulate sglang: %v\n", err)
		return 2
	}
	if os.Getenv(childVariable) != "" {
		fmt.Fprintf(stderr, "sweep simulate sglang: this process is a child of a simulated server: the program does not know `simulate child`\n")
		return 3
	}
	l := &launch{options: o, p: p, rel: rel, stdout: stdout, log: &logger{w: stderr, tp: 1}, began: time.Now(), fallen: make(chan failure, 1)}
	if code, done := l.commandLine(rest, stdout); done {
		return code
	}
	if !supported {
		fmt.Fprintln(stderr, "sweep simulate sglang: servers can be simulated on Linux only")
		return 3
	}
	signal.Reset(syscall.SIGTERM, syscall.SIGINT) // while loading they do what they do by default
	ctx, l.finished = context.WithCancelCause(ctx)
	defer l.finished(nil)
	l.kids = newFamily()
	err = l.live(ctx)
	return l.die(err)
}

// commandLine reads SGLang's flags; done means that the process ends here.
func (l *launch) commandLine(argv []string, stdout io.Writer) (code int, done bool) {
	table := flagTable(l.rel)
	for _, f := range l.faults {
		if f.kind == "refuse" {
			delete(table, f.flag)
		}
	}
	for _, word := range argv {
		if word == "-h" || word == "--help" {
			_, _ = io.WriteString(stdout, helpText(l.rel, table))
			return 0, true
		}
	}
	l.log.raw(sitePackages + "sglang/launch_server.py:56: UserWarning: 'python -m sglang.launch_server' is still supported, but 'sglang serve' is the recommended entrypoint.\n  Example: sglang serve --model-path <model> [options]\n  warnings.warn(\n")
	args, given, err := parseArgs(l.rel, table, argv)
	if err != nil {
		l.log.raw(l.rel.usage + "sglang serve: error: " + err.Error() + "\n")
		return 2, true
	}
	l.args, l.given = args, given
	for _, f := range l.faults {
		if d := table[f.flag]; f.kind == "force" && d != nil && d.kind == "bool" {
			l.args.set(d.field, true)
		}
	}
	l.set = readSettings(l.args)
	l.log.tp = l.set.tp
	return 0, false
}

// helpText is what --help prints.
func helpText(r release, table map[string]*flagDef) string {
	var b strings.Builder
	b.WriteString(r.usage)
	b.WriteString("\noptions:\n  -h, --help            show this help message and exit\n")
	b.WriteString("  --profile PROFILE\n  --speedup SPEEDUP\n  --sglang-version SGLANG_VERSION\n  --fault FAULT, --faults FAULTS\n") // the simulator's own
	for _, d := range sortedFlags(table) {
		b.WriteString("  --" + d.name)
		meta := strings.ToUpper(d.field)
		if d.choices != nil {
			meta = "{" + strings.Join(d.choices, ",") + "}"
		}
		if d.kind != "bool" {
			b.WriteString(" " + meta)
		}
		for alias, name := range aliases {
			if name == d.name && table[alias] == nil {
				b.WriteString(", --" + alias)
				if d.kind != "bool" {
					b.WriteString(" " + meta)
				}
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// live starts, serves and stops; the error says how it ended.
func (l *launch) live(ctx context.Context) error {
	deaths := make(chan error, 1)
	go l.watchFamily(ctx, deaths)
	loaded := make(chan error, 1)
	go func() { loaded <- l.boot(ctx) }()
	select {
	case err := <-loaded:
		if err != nil {
			return err
		}
	case err := <-deaths:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return l.serve(ctx, deaths)
}

// die ends the process tree as the ending says.
func (l *launch) die(err error) int {
	end, ok := err.(*ending)
	if !ok {
		if err != nil && err != context.Canceled {
			l.log.main("sweep simulate sglang: %v", err)
		}
		end = &ending{code: 3}
	}
	l.kids.kill()
	if err := l.keepMemory(); err != nil {
		l.log.main("sweep simulate sglang: %v", err)
	}
	removeClaims(l.p, l.claimName())
	switch {
	case end.code == -9:
		killSelf()
	case end.code < 0:
		raise(-end.code)
	}
	return end.code
}

// watchFamily turns deaths of children into the end of the server, and a stopped scheduler into one that stands still.
func (l *launch) watchFamily(ctx context.Context, deaths chan<- error) {
	var release func()
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-l.fallen:
			deaths <- l.schedulerFell(f)
			return
		case e := <-l.kids.events:
			switch e.what {
			case childStopped:
				if l.serving.Load() && e.child.kind == "scheduler" && release == nil {
					release = l.sched.hold()
				}
			case childContinued:
				if release != nil {
					release()
					release = nil
				}
			case childExited:
				if e.child.stray() {
					continue
				}
				deaths <- l.childDied(ctx, e)
				return
			}
		}
	}
}

// childDied is what SGLang does when a process of its tree dies from outside.
func (l *launch) childDied(ctx context.Context, e familyEvent) error {
	if !l.serving.Load() {
		text := fmt.Sprintf("Rank %d scheduler died during initialization (exit code: %d). If exit code is -9 (SIGKILL), a common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check.", e.child.rank, e.code)
		l.log.main("kill_process_tree called: parent_pid=%d, include_parent=False, pid=%d", os.Getpid(), os.Getpid())
		l.log.raw(traceback([]frame{
			{"sglang/launch_server.py", 71, "<module>", "run_server(server_args)"},
			{"sglang/srt/entrypoints/engine.py", 1120, "_launch_subprocesses", "scheduler_infos = wait_for_ready()"},
			{"sglang/srt/entrypoints/engine.py", 1011, "_wait_for_scheduler_ready", "raise RuntimeError("},
		}, "RuntimeError: "+text))
		return &ending{1}
	}
	l.sched.hold()
	l.sleep(ctx, 0.4)
	l.log.main("Subprocess %s (pid=%d) crashed with exit code %d. Triggering SIGQUIT for cleanup...", e.child.name(), e.child.pid, e.code)
	return l.crash(ctx)
}

// schedulerFell is the scheduler's own exception while serving.
func (l *launch) schedulerFell(f failure) error {
	text := traceback(loopFrames(l.p, f.prefill), "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx( handle, opa, opb, m, n, k, &falpha, a, CUDA_R_16BF, lda, b, CUDA_R_16BF, ldb, &fbeta, c, std::is_same_v<C_Dtype, float> ? CUDA_R_32F : CUDA_R_16BF, ldc, compute_type, CUBLAS_GEMM_DEFAULT_TENSOR_OP)`")
	if f.pool {
		text = traceback(poolFullFrames(), "RuntimeError: Prefill out of memory. Try to lower your batch size.\nTry to allocate 128 tokens.\nAvailable tokens: 96 (available_size=96 + evictable_size=0)\n")
	}
	for i := range l.set.tp {
		if !f.badID && !f.pool {
			text = traceback(loopFrames(l.p, f.prefill), "torch.OutOfMemoryError: "+oomText(l.p, i, f.bytes-l.mem.peak, max(0, l.mem.room()-l.mem.peak)))
		}
		l.log.rank(i, "Scheduler hit an exception: %s", text)
	}
	l.kids.kill("scheduler")
	return l.crash(context.Background())
}

// crash is the launched process's answer to a dead scheduler while serving.
func (l *launch) crash(ctx context.Context) error {
	l.log.main("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
	l.log.main("Sleeping 5 seconds before crash diagnostics to let GPU activity settle.")
	l.sleep(context.WithoutCancel(ctx), 5)
	l.log.main("No live scheduler processes found; skipping py-spy and CUDA coredump.")
	l.log.main("kill_process_tree called: parent_pid=%d, include_parent=True, pid=%d", os.Getpid(), os.Getpid())
	return &ending{-9}
}

// crashScheduler kills scheduler 0: a fault.
func (l *launch) crashScheduler() {
	if kids := l.kids.schedulers(); len(kids) > 0 {
		_ = kids[0].process.Kill() // one that is gone needs none
	}
}

// sleep passes model time.
func (l *launch) sleep(ctx context.Context, seconds float64) {
	sleepUntil(ctx, time.Now().Add(time.Duration(seconds/l.speed*float64(time.Second))))
}

func (l *launch) claimName() string { return fmt.Sprintf("server-%d", os.Getpid()) }

// claim publishes what the schedulers hold now: bytes on each one's GPU, and of the host's memory.
func (l *launch) claim(gpuBytes int64) error {
	var claims []Claim
	for _, c := range l.kids.schedulers() {
		claims = append(claims, Claim{
			PID: c.pid, StartTicks: startTicks(c.pid), Name: "sglang::" + c.kind,
			GPUBytes: map[int]int64{l.gpus[c.rank]: gpuBytes}, HostBytes: l.host,
		})
	}
	return WriteClaims(l.p, l.claimName(), claims)
}

package selftest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"time"

	"sweep/loadgen"
	"sweep/loadgen/truth"
)

// Options say how much load the client is to be tested with.
type Options struct {
	Concurrency int     // streams; 0: DefaultConcurrency
	EventsPerS  float64 // over all streams; 0: DefaultEventsPerS
	// Serve is the command that runs the server: its first line of output is the server's URL, and it ends with its
	// input. Empty: the server is a thread of this process, and CPU is not told apart.
	Serve []string
	// Quick: only the first step, with short streams, in some two seconds: for a look before each of many measurements.
	Quick bool
	life  time.Duration // of a stream, about; 0: streamLife
	// OnStep is told before each step; nil: nobody is.
	OnStep func(name string)
}

// The load of a test that asks for no other.
const (
	DefaultConcurrency = 100
	DefaultEventsPerS  = 5000
)

// Limit is how long a test takes at most.
const Limit = 45 * time.Second

// Result is the error floor of the client on this machine. Units are in the names; what was not measured is absent.
type Result struct {
	Schema     int       `json:"schema"` // 1
	At         time.Time `json:"at"`
	Machine    string    `json:"machine"` // processor, cores, kernel
	Streams    int       `json:"streams"`
	EventsPerS float64   `json:"events_per_s"` // asked for
	Steps      []Step    `json:"steps"`
	Verdict    string    `json:"verdict"` // the worst of the steps
	Why        []string  `json:"why,omitempty"`
	TookS      float64   `json:"took_s"`
}

// Step is one load of a test. Errors are measured less true: of TTFT with their sign, of the times between tokens (ITL) without.
type Step struct {
	Name     string  `json:"name"`
	Client   string  `json:"client"` // epoll, net.Conn or net/http
	Stamps   string  `json:"stamps"` // kernel or user
	Requests int     `json:"requests"`
	Events   int     `json:"events"`
	PerS     float64 `json:"events_per_s"` // as it came

	TTFTErrorP50US *float64 `json:"ttft_error_p50_us,omitempty"`
	TTFTErrorP99US *float64 `json:"ttft_error_p99_us,omitempty"`
	ITLErrorP50US  *float64 `json:"itl_error_p50_us,omitempty"`
	ITLErrorP99US  *float64 `json:"itl_error_p99_us,omitempty"`
	ITLErrorMaxUS  *float64 `json:"itl_error_max_us,omitempty"`
	// Mismatched are requests whose events or tokens are not those that the server wrote.
	Mismatched int `json:"mismatched"`

	SendLagP50US   *float64 `json:"send_lag_p50_us,omitempty"` // of planned requests
	SendLagP99US   *float64 `json:"send_lag_p99_us,omitempty"`
	ReadLateP99US  *float64 `json:"read_late_p99_us,omitempty"` // from the kernel's stamp to the client's
	CoalescedShare *float64 `json:"coalesced_share,omitempty"`  // of the events
	CPUPerEventUS  *float64 `json:"cpu_per_event_us,omitempty"` // of the client's process
	EventsPerCoreS *float64 `json:"events_per_core_s,omitempty"`
	ServerLateP99  *float64 `json:"server_late_p99_us,omitempty"` // of its writes: in no error, but bunches them

	Verdict string   `json:"verdict,omitempty"` // none of a flood, which is meant to leave the client no rest
	Why     []string `json:"why,omitempty"`
}

// plan is one step as it is to run.
type plan struct {
	name, query, stamps string
	streams, tokens     int
	requests            int
	rate                float64 // of planned requests; 0: a closed loop
	flood               bool
}

// streamLife is how long a stream lasts, about.
const streamLife = 2 * time.Second

// quickLife is the same in a quick test.
const quickLife = time.Second / 2

// plans are the steps of a test.
func (o *Options) plans() []plan {
	gap := time.Duration(float64(o.Concurrency) / o.EventsPerS * float64(time.Second))
	tokens := min(max(2, int(o.life/gap)), 4000)
	const first = 200 * time.Millisecond
	whole := first + time.Duration(tokens)*gap
	times := fmt.Sprintf("first_us=%d&gap_us=%d", first.Microseconds(), gap.Microseconds())
	requests := max(2*o.Concurrency, min(40, int(8*o.life/whole)))
	rate := float64(o.Concurrency) / whole.Seconds()
	list := []plan{
		{name: "streams out of step", query: "phase=spread&" + times, streams: o.Concurrency, tokens: tokens, requests: requests},
		{name: "the same by user stamps", query: "phase=spread&" + times, stamps: loadgen.StampsUser, streams: o.Concurrency, tokens: tokens, requests: requests},
		{name: "streams in lock-step", query: "phase=lockstep&" + times, streams: o.Concurrency, tokens: tokens, requests: requests},
		{name: "planned starts", query: "phase=spread&" + times, tokens: tokens, rate: rate, requests: max(20, int(2*rate*whole.Seconds()))},
		{name: "as fast as it reads", query: "pattern=flood&first_us=0&gap_us=0", streams: 64, tokens: 1000, requests: max(64, int(256*o.life/streamLife)), flood: true},
	}
	if o.Quick {
		return list[:1]
	}
	return list
}

func (o *Options) check() error {
	if o.Concurrency == 0 {
		o.Concurrency = DefaultConcurrency
	}
	if o.EventsPerS == 0 {
		o.EventsPerS = DefaultEventsPerS
	}
	if o.life == 0 {
		o.life = streamLife
		if o.Quick {
			o.life = quickLife
		}
	}
	if o.Concurrency < 1 || o.Concurrency > 20000 {
		return fmt.Errorf("selftest: %d streams: want 1 to 20000", o.Concurrency)
	}
	if perStream := o.EventsPerS / float64(o.Concurrency); !(perStream >= 1 && perStream <= 2000) {
		return fmt.Errorf("selftest: %g events/s over %d streams are %g for each: want 1 to 2000", o.EventsPerS, o.Concurrency, perStream)
	}
	return nil
}

// Run tests the client. The error says that it could not be tested; a client that is bad is a result.
func Run(ctx context.Context, o Options) (Result, error) {
	began := time.Now()
	if err := o.check(); err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, Limit, fmt.Errorf("it took more than %v", Limit))
	defer cancel()
	url, stop, err := start(ctx, o.Serve)
	if err != nil {
		return Result{}, fmt.Errorf("selftest: %w", err)
	}
	r := Result{Schema: 1, At: began, Machine: machine(), Streams: o.Concurrency, EventsPerS: o.EventsPerS, Verdict: loadgen.Valid}
	for _, p := range o.plans() {
		if o.OnStep != nil {
			o.OnStep(p.name)
		}
		step, serr := run(ctx, url, p, len(o.Serve) > 0)
		if serr != nil {
			err = fmt.Errorf("selftest: %s: %w", p.name, serr)
			break
		}
		r.Steps = append(r.Steps, step)
		r.judge(&step)
	}
	r.TookS = time.Since(began).Seconds()
	return r, errors.Join(err, stop())
}

// judge takes a step into the verdict.
func (r *Result) judge(s *Step) {
	verdict, why := s.Verdict, s.Why
	if s.Mismatched > 0 {
		verdict, why = loadgen.ClientBound, append(slices.Clone(why), fmt.Sprintf("%d requests were not recorded as they were written", s.Mismatched))
	}
	order := []string{"", loadgen.Valid, loadgen.Suspect, loadgen.ClientBound}
	if slices.Index(order, verdict) > slices.Index(order, r.Verdict) {
		r.Verdict = verdict
	}
	for _, w := range why {
		r.Why = append(r.Why, s.Name+": "+w)
	}
}

// run drives one step and holds its record against the server's log.
func run(ctx context.Context, url string, p plan, apart bool) (Step, error) {
	s := Step{Name: p.name}
	if err := call(ctx, url+"/ctl/cfg?"+p.query, nil); err != nil {
		return s, err
	}
	var record bytes.Buffer
	c := loadgen.Class{Name: "test", Concurrency: p.streams, Input: loadgen.Range{Min: 16, Max: 16}, Output: loadgen.Range{Min: p.tokens, Max: p.tokens}}
	if p.rate > 0 {
		c.Arrivals = &loadgen.Arrivals{Law: loadgen.Poisson, Rate: p.rate}
	}
	spec := loadgen.Spec{
		URL: url, Route: "/v1/completions", Model: "test", Vocabulary: []int{5, 6, 7}, Seed: 1, Salt: p.name, Tagged: true, Record: &record, Stamps: p.stamps,
		Client: client(), Classes: []loadgen.Class{c}, Window: loadgen.Window{Max: Limit, Exactly: true, Requests: map[string]int{"test": p.requests}},
	}
	before := processCPU()
	res, err := loadgen.Run(ctx, spec)
	used := processCPU() - before
	if err == nil && res.Failed > 0 {
		err = errors.New(res.FirstFailure)
	}
	if err != nil {
		return s, err
	}
	s.take(&res)
	if p.flood {
		s.Verdict, s.Why = "", nil
	}
	if apart && used > 0 && s.Events > 0 {
		per := float64(used) / 1e3 / float64(s.Events)
		s.CPUPerEventUS = &per
		if p.flood {
			rate := 1e6 / per
			s.EventsPerCoreS = &rate
		}
	}
	var sum truth.Summary
	var log []truth.Request
	err = call(ctx, url+"/ctl/dump", func(resp *http.Response) (err error) {
		sum, log, err = truth.ReadLog(resp.Body)
		return err
	})
	if err != nil {
		return s, err
	}
	if sum.Late > 0 {
		late := float64(sum.LateP99NS) / 1e3
		s.ServerLateP99 = &late
	}
	return s, s.compare(record.Bytes(), log, p.flood)
}

// client is the path to test: the fast one where it is.
func client() string {
	if runtime.GOOS == "linux" {
		return loadgen.ClientEpoll
	}
	return ""
}

// take notes what the client says of itself.
func (s *Step) take(r *loadgen.Result) {
	s.Client, s.Stamps, s.Requests, s.Verdict, s.Why = r.Client, r.Stamps, r.Completed, r.Verdict, r.Why
	s.Events = int(r.WholeEvidence["events"])
	if r.Span > 0 {
		s.PerS = float64(s.Events) / r.Span.Seconds()
	}
	for _, e := range []struct {
		key string
		to  **float64
	}{{"send_lag_p50_us", &s.SendLagP50US}, {"send_lag_p99_us", &s.SendLagP99US}, {"stamp_gap_p99_us", &s.ReadLateP99US}, {"coalesced_share", &s.CoalescedShare}} {
		if v, ok := r.WholeEvidence[e.key]; ok {
			*e.to = &v
		}
	}
}

// compare computes the errors. In a flood the server's writes wait for the client: its times are no truth.
func (s *Step) compare(record []byte, log []truth.Request, flood bool) error {
	logs := map[string]*truth.Request{}
	for i := range log {
		logs[log[i].ID] = &log[i]
	}
	var ttft, itl []float64
	var gaps []time.Duration
	var bearing []loadgen.Chunk
	seen := 0
	_, err := loadgen.ReadRecord(bytes.NewReader(record), func(r *loadgen.Record) error {
		seen++
		l := logs[r.ID()]
		bearing = r.Bearing(bearing[:0])
		gaps = loadgen.Gaps(gaps[:0], bearing)
		if l == nil || r.OutputTokens != l.Sent {
			s.Mismatched++
			return nil
		}
		x := truth.Expect(l)
		if len(gaps) != len(x.GapITL) || x.FirstToken == nil {
			s.Mismatched++
			return nil
		}
		if flood || l.Blocked > 0 {
			return nil
		}
		if d, ok := r.TTFT(); ok {
			ttft = append(ttft, float64(d-time.Duration(*x.FirstToken))/1e3)
		}
		for i, g := range gaps {
			d := g - time.Duration(x.GapITL[i])
			itl = append(itl, float64(max(d, -d))/1e3)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if seen != len(log) {
		s.Mismatched += max(seen-len(log), len(log)-seen)
	}
	s.TTFTErrorP50US, s.TTFTErrorP99US = quantile(ttft, 0.5), quantile(ttft, 0.99)
	s.ITLErrorP50US, s.ITLErrorP99US, s.ITLErrorMaxUS = quantile(itl, 0.5), quantile(itl, 0.99), quantile(itl, 1)
	return nil
}

// quantile is the nearest rank: an observed value; nil below the number of samples that it needs.
func quantile(list []float64, q float64) *float64 {
	if len(list) == 0 || q > 0.5 && q < 1 && len(list) < 100 {
		return nil
	}
	slices.Sort(list)
	v := list[min(len(list)-1, int(q*float64(len(list))))]
	return &v
}

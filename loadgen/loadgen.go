package loadgen

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// ErrStalled ends a run in which no byte of an answer arrived for [Spec.Stall].
var ErrStalled = errors.New("the server stopped answering")

// ErrFailing ends a run in which nothing succeeds any more: each slot's last three requests failed or were
// rejected, ten in all, and no token arrived meanwhile.
var ErrFailing = errors.New("every request fails")

// ErrPrompts ends a run in which the server counts other prompt tokens than were sent.
var ErrPrompts = errors.New("the server counts other prompt tokens than were sent")

// Spec is one run against one server.
type Spec struct {
	URL   string // of the server: "http://127.0.0.1:30000"
	Route string // of the streaming completions: "/v1/completions"
	Model string // name sent with each request
	// Body holds fields that each request carries beside model, prompt, max_tokens and stream.
	// For the OpenAI routes stream_options asks for continuous usage unless it is given here.
	Body map[string]any
	// Header is added to each request: an Authorization, for example.
	Header map[string]string
	// Exact ends the run with an error when a server counts other prompt tokens than were sent as ids, and keeps the window
	// shut until a request of each class has come back, where there is a warm-up.
	Exact bool
	// Clean blanks out what must reach no file; it is given each text of the server's before that is kept. nil: as it is.
	Clean func(string) string
	// Tagged: each request carries the name of its record, CLASS/STREAM/NUMBER, in the header X-Request-Id.
	Tagged bool
	// Dial opens a connection to the server. nil: TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	TLS  *tls.Config // for https; nil: the system's roots
	// Client chooses how requests travel: [ClientEpoll], the fast and exact way, [ClientConn], or [ClientHTTP] for servers
	// that speak only HTTP/2. Empty: the fast way where it can be had (Linux, plain HTTP, no Dial), net/http where the
	// environment names a proxy for the server, net.Conn otherwise. [Result] says which it was.
	Client string
	// Stamps chooses who stamps events: [StampsKernel] makes a run fail where the kernel does not, [StampsUser] does without.
	// Empty: the kernel where it can be had.
	Stamps string
	// Shards is the number of threads of the fast way. Zero: one for each 1,024 streams, at most half of the cores.
	Shards int
	// Part and Parts split one load over several processes: each takes the requests whose number leaves Part when divided
	// by Parts, and so many of the slots. Their records together are those of one process.
	Part, Parts int
	// StartAt is when the clock starts: agreed on by such processes, so that the same requests go at the same
	// time. Zero: as soon as all is prepared. Only what keeps to times can be shared: Warmup.Time and Window.Max.
	StartAt time.Time
	// Ready is called when all is prepared, connections included, and says when the clock starts, in place of StartAt: so
	// processes can agree on a time that none of them misses.
	Ready func(ctx context.Context) (time.Time, error)

	Classes []Class
	// Vocabulary holds ids of ordinary text tokens: prompts are lists of ids of exact length. Empty:
	// prompts are text, and the server's count is recorded.
	Vocabulary []int
	// Seed decides lengths and content; Salt makes this run's prompts unlike every other run's, so
	// that nothing is shared by accident. The same seed and salt give the same bytes.
	Seed uint64
	Salt string

	Warmup Warmup
	Window Window
	// Stall ends the run with [ErrStalled] when no byte of an answer arrives on any stream for so long
	// while requests are open. Keep-alive comments do not count: a dying server may go on sending them.
	// Zero: 60 s.
	Stall time.Duration
	// RequestTimeout bounds one request. Zero: 1 h.
	RequestTimeout time.Duration

	// Counters, when not nil, are kept up to date while the run goes on.
	Counters *Counters
	// Requests receives one JSON line for each request that ended, in the order of their ends; nil: none are kept.
	// Each line is a [Request].
	Requests io.Writer
	// Record receives the raw record: every event of every request, in some 7 bytes each, while the run goes on. It is
	// read with [ReadRecord], also after the process was killed. nil: none is kept.
	Record io.Writer
	// OnWindow is called when the window opens (open) and when it closes, before the streams are cut.
	OnWindow func(open bool)
	// OnProgress is called about once a second.
	OnProgress func(Progress)
}

// Counters only grow; another goroutine may read them at any time, so that what a server counts and
// what arrived can be compared between the same two moments.
type Counters struct {
	Sent           atomic.Int64
	Tokens         atomic.Int64 // completion tokens received
	FirstTokens    atomic.Int64 // requests whose first token has arrived: a server that counts decoded tokens leaves those out, as they come out of the prefill
	Finished       atomic.Int64 // requests that ended well
	FinishedTokens atomic.Int64 // completion tokens of those
	PromptTokens   atomic.Int64 // prompt tokens of those
	Failed         atomic.Int64 // requests that failed, without those rejected by rule
	Rejected       atomic.Int64 // requests that the server refused by rule
	LastByte       atomic.Int64 // ns from Since to the last byte on any stream, by the monotonic clock
	Since          time.Time    // set by the maker of the counters, before the run; without it LastByte counts from the run's start
}

// Class is one kind of request: held at a level by its own pool, or sent by a plan of its own.
type Class struct {
	Name        string
	Concurrency int       // requests in flight, of a closed class
	Arrivals    *Arrivals // of an open class; then Concurrency is 0
	Input       Range     // prompt tokens, uniform
	Output      Range     // completion tokens, uniform; the request forces exactly as many as were drawn
	Prefix      *Prefix
	SLO         []Objective

	// Prompts are those that a user brings along, in place of drawn ones; their order is drawn. An answer's length is the
	// prompt's own, else of Output; Input is of no meaning then.
	Prompts []Prompt `json:"-"`
	// Natural: Output is the most that is allowed, and the model stops where it would: fields that force a length are
	// left out. Otherwise an answer of any other length than the asked one is a failure.
	Natural bool
	Session *Session       // of a closed class: conversations in place of single requests
	Body    map[string]any // fields that each request of this class carries, over those of the Spec

	slots int // this process's share of Concurrency
}

// Range is an inclusive range of whole numbers.
type Range struct{ Min, Max int }

// Prefix says that each prompt begins with one of Groups common prefixes of Tokens tokens.
type Prefix struct{ Groups, Tokens int }

// Objective is a limit that a request must keep to count as good.
type Objective struct {
	Metric   string        // ttft, tpot, itl or e2e
	Quantile float64       // of the class's requests
	Limit    time.Duration // the metric must be under it
}

// Warmup is what runs before the window opens.
type Warmup struct {
	Cohort bool          // until the first cohort of each class has ended
	Time   time.Duration // at least so long
	// Stable: until the throughput of three successive stretches agrees within 5 %, at most for StableMax. For the
	// first start of an engine version on a host, when kernels are still being compiled.
	Stable    bool
	StableMax time.Duration
}

// Window is what is measured: it closes when Min has passed and each class has had its number of
// Requests both sent and finished inside, or at Max.
type Window struct {
	Min, Max time.Duration
	Requests map[string]int // by class
	// Exactly: each class with Requests sends so many and no more, and the window closes when all of them have ended,
	// well or not. The pools run empty towards the end, as in other load generators.
	Exactly bool
	// Precision, when above 0, keeps the window open until the 95 % confidence interval of the output throughput reaches to
	// at most this share of it on either side: 0.02 for ±2 %. Max bounds it all the same.
	Precision float64
}

// Progress is the state of a run for a person.
type Progress struct {
	Phase    string  // "warm-up" or "window"
	Done     float64 // share of the window, 0 to 1
	Text     string  // "window 34 s · 182 open · 3,104 tok/s"
	Open     int     // requests in flight
	Finished int     // in the window
	Failed   int
}

// Result is what a run gave.
type Result struct {
	Complete bool      // the window closed by its own rule
	Opened   time.Time // when the window opened; zero when it never did
	Closed   time.Time
	Window   time.Duration // Closed − Opened, from the monotonic clock
	Steady   *bool         // the halves of the window agree within 5 %; nil: too short to say
	Verdict  string        // on the window: [Valid], [Suspect] or [ClientBound]
	Why      []string      // what speaks against the numbers, in words
	// Evidence is what the client observed of itself over the window, WholeEvidence over the whole run, on which
	// WholeVerdict rests.
	Evidence, WholeEvidence Evidence
	WholeVerdict            string
	Client                  string // how requests travelled: [ClientEpoll], or with a wider error [ClientConn] or [ClientHTTP]
	Stamps                  string // who stamped events: [StampsKernel] or [StampsUser]
	// Values are the metrics and counts by the names of results/README.md, for all classes and, where there are
	// several, with the prefix "CLASS_" for each. Throughput counts what arrived inside the window, whenever it was
	// asked for; latency is of requests both sent and ended well inside. A percentile is an observed value (nearest rank) and
	// absent below 30 samples for p90, 60 for p95, 100 for p99; a token is a sample of itl, a request of the
	// others. A request with a failure is in no metric.
	Values map[string]float64
	// Definitions are latencies of the window by the other definitions in use: content_ttft (to the first visible text),
	// chunk_gap (between two events that bear tokens, whatever they hold), ntpot (E2E ÷ tokens), stream_latency (to the stream's own
	// end mark), with the names of Values; and output_throughput_half_width, in tokens/s, of its 95 % confidence interval.
	Definitions map[string]float64
	// Whole are the values of the whole run, from its first request to its last: start burst, warm-up and drain
	// included. It took Span.
	Whole    map[string]float64
	Span     time.Duration
	Failures map[string]int // requests by kind of failure, over warm-up and window
	Notes    []string
	// Rejected is how many requests the server refused by rule (queue full, prompt too long); Sent
	// counts all requests of the run.
	Sent, Completed, Failed, Rejected int
	FirstFailure                      string // what the first failed request saw
}

// Ask is one request for Probe.
type Ask struct {
	Input, Output int // tokens
}

// Answer is what one request saw.
type Answer struct {
	OK             bool
	Reason         string // why not
	PromptTokens   int    // as the server counts; −1 when it did not say
	OutputTokens   int
	CachedTokens   int // −1 when it did not say
	TTFT, E2E      time.Duration
	HTTPStatusCode int
}

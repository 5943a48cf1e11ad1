package export

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"sweep/loadgen"
)

// document is the result of a load as JSON. What is not known is absent.
type document struct {
	Schema    int     `json:"schema"` // 1
	Tool      string  `json:"tool"`
	Version   string  `json:"version"`
	URL       string  `json:"url"`
	Route     string  `json:"route"`
	Model     string  `json:"model"`
	Seed      uint64  `json:"seed"`
	Salt      string  `json:"salt"`
	Processes int     `json:"processes"`
	Classes   []class `json:"classes"`

	Complete     bool       `json:"complete"` // the run came to its own end
	Stopped      bool       `json:"stopped"`  // the user ended it
	Error        string     `json:"error,omitempty"`
	StartedAt    time.Time  `json:"started_at"`
	OpenedAt     *time.Time `json:"window_opened_at,omitempty"`
	DurationS    float64    `json:"duration_s"` // of the window
	SpanS        float64    `json:"span_s"`     // of the whole run
	Steady       *bool      `json:"steady,omitempty"`
	Client       string     `json:"client"` // how requests travelled: epoll, net.Conn or net/http
	Stamps       string     `json:"stamps"` // who stamped events: kernel or user
	Verdict      string     `json:"verdict"`
	Why          []string   `json:"why,omitempty"`
	WholeVerdict string     `json:"whole_verdict,omitempty"`
	Notes        []string   `json:"notes,omitempty"`

	Sent         int            `json:"whole_sent"` // of the whole run, as the three below
	Completed    int            `json:"whole_completed"`
	Failed       int            `json:"whole_failed"`
	Rejected     int            `json:"whole_rejected"`
	Failures     map[string]int `json:"failures,omitempty"` // by kind
	FirstFailure string         `json:"first_failure,omitempty"`

	Values        map[string]float64 `json:"values"`      // of the window
	Definitions   map[string]float64 `json:"definitions"` // latencies of the window by other definitions
	Whole         map[string]float64 `json:"whole"`       // of the whole run, start burst and drain included
	Evidence      loadgen.Evidence   `json:"evidence"`    // what the client observed of itself over the window
	WholeEvidence loadgen.Evidence   `json:"whole_evidence,omitempty"`
}

// class is one class of requests as it was asked for.
type class struct {
	Name        string        `json:"name"`
	Concurrency int           `json:"concurrency,omitempty"`
	Law         string        `json:"arrivals,omitempty"`
	Rate        float64       `json:"request_rate,omitempty"`
	Shape       float64       `json:"shape,omitempty"`
	MaxOpen     int           `json:"max_open,omitempty"`
	Input       loadgen.Range `json:"input"`
	Output      loadgen.Range `json:"output"`
	Natural     bool          `json:"natural,omitempty"`
	Prompts     int           `json:"prompts,omitempty"` // of a file
}

// JSON writes the result as one object. The metrics in "values" have the names and definitions of a night's records.
func JSON(w io.Writer, run Run, r loadgen.Result) error {
	s := &run.Spec
	d := document{
		Schema: 1, Tool: "sweep load", Version: run.Version, URL: s.URL, Route: s.Route, Model: s.Model, Seed: s.Seed, Salt: s.Salt, Processes: max(1, run.Processes),
		Complete: r.Complete, Stopped: run.Stopped, StartedAt: run.At, DurationS: r.Window.Seconds(), SpanS: r.Span.Seconds(), Steady: r.Steady,
		Client: r.Client, Stamps: r.Stamps, Verdict: r.Verdict, Why: r.Why, WholeVerdict: r.WholeVerdict, Notes: r.Notes,
		Sent: r.Sent, Completed: r.Completed, Failed: r.Failed, Rejected: r.Rejected, Failures: r.Failures, FirstFailure: r.FirstFailure,
		Values: r.Values, Definitions: r.Definitions, Whole: r.Whole, Evidence: r.Evidence, WholeEvidence: r.WholeEvidence,
	}
	if run.Err != nil {
		d.Error = run.Err.Error()
	}
	if !r.Opened.IsZero() {
		d.OpenedAt = &r.Opened
	}
	for i := range s.Classes {
		c := &s.Classes[i]
		x := class{Name: c.Name, Concurrency: c.Concurrency, Input: c.Input, Output: c.Output, Natural: c.Natural, Prompts: len(c.Prompts)}
		if a := c.Arrivals; a != nil {
			x.Law, x.Rate, x.Shape, x.MaxOpen = a.Law, a.Rate, a.Shape, a.MaxOpen
		}
		d.Classes = append(d.Classes, x)
	}
	data, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	_, err = w.Write(append(data, '\n'))
	return err
}

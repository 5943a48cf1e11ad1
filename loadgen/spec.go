package loadgen

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Defaults of a [Spec].
const (
	DefaultStall          = 60 * time.Second
	DefaultRequestTimeout = time.Hour
)

// withDefaults checks a spec and fills in what it leaves open. All problems are reported together.
func (s Spec) withDefaults() (Spec, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !strings.HasPrefix(s.Route, "/") {
		bad("route %q does not begin with /", s.Route)
	}
	if s.Stall == 0 {
		s.Stall = DefaultStall
	}
	if s.RequestTimeout == 0 {
		s.RequestTimeout = DefaultRequestTimeout
	}
	if s.Stall < 0 || s.RequestTimeout < 0 {
		bad("stall and request timeout cannot be negative")
	}
	if s.Counters == nil {
		s.Counters = new(Counters)
	}
	if len(s.Classes) == 0 {
		bad("no class of requests")
	}
	s.Parts = max(1, s.Parts)
	if s.Part < 0 || s.Part >= s.Parts {
		bad("part %d of %d: parts count from 0", s.Part, s.Parts)
	}
	if s.Client != "" && s.Client != ClientEpoll && s.Client != ClientConn && s.Client != ClientHTTP {
		bad("client %q: epoll, net.Conn and net/http are known", s.Client)
	}
	if s.Stamps != "" && s.Stamps != StampsKernel && s.Stamps != StampsUser {
		bad("stamps by %q: kernel and user are known", s.Stamps)
	}
	if s.Shards < 0 {
		bad("%d shards are below zero", s.Shards)
	}
	s.Classes = slices.Clone(s.Classes)
	seen := map[string]bool{}
	for i := range s.Classes {
		c := &s.Classes[i]
		c.slots = s.share(c.Concurrency)
		if seen[c.Name] {
			bad("class %q is there twice", c.Name)
		}
		seen[c.Name] = true
		errs = append(errs, c.check()...)
	}
	errs = append(errs, s.Window.check(seen)...)
	if s.Warmup.Stable && s.Warmup.StableMax <= 0 {
		bad("a warm-up until stable needs a limit")
	}
	return s, errors.Join(errs...)
}

// conceal takes the values of headers out of a server's words: they may hold a key, and no file may.
func (s *Spec) conceal(reason string) string {
	for _, value := range s.Header {
		_, key, scheme := strings.Cut(value, " ") // "Bearer KEY"
		if !scheme {
			key = value
		}
		if len(key) >= 4 {
			reason = strings.ReplaceAll(reason, key, "[concealed]")
		}
	}
	return reason
}

// traced says whether a trace gives the lengths.
func (c *Class) traced() bool {
	return c.Arrivals != nil && c.Arrivals.Law == Trace && !slices.ContainsFunc(c.Arrivals.Requests, func(r TraceRequest) bool { return r.Input < 1 || r.Output < 1 })
}

// check fills in the window's end, and says what is wrong with it.
func (w *Window) check(classes map[string]bool) (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for name := range w.Requests {
		if !classes[name] {
			bad("the window asks for requests of class %q, which is not there", name)
		}
	}
	if w.Max == 0 && len(w.Requests) == 0 {
		w.Max = w.Min
	}
	if w.Max <= 0 || w.Max < w.Min {
		bad("window: max %v must be above zero and not below min %v", w.Max, w.Min)
	}
	if p := w.Precision; p != 0 && !(p > 0 && p < 1) {
		bad("a precision of %v is no share between 0 and 1", p)
	}
	return errs
}

// answered says whether each prompt brings the length of its answer.
func (c *Class) answered() bool {
	return len(c.Prompts) > 0 && !slices.ContainsFunc(c.Prompts, func(p Prompt) bool { return p.Output < 1 })
}

// share is this part's share of a number, when several processes split it: those numbers below n that leave Part when
// divided by Parts.
func (s *Spec) share(n int) int { return (n - s.Part + s.Parts - 1) / s.Parts }

// connections is how many connections a class needs, or, where that is not known, begins with.
func (c *Class) connections() int {
	if c.Arrivals == nil {
		return c.slots
	}
	rate := c.Arrivals.Rate
	if len(c.Arrivals.Stages) > 0 {
		rate = c.Arrivals.Stages[0].From
	}
	n := min(max(1, int(rate/4)), 64)
	if most := c.Arrivals.MaxOpen; most > 0 {
		n = min(n, most)
	}
	return n
}

func (c *Class) check() []error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("class %q: "+format, append([]any{c.Name}, args...)...))
	}
	if c.Name == "" {
		bad("no name")
	}
	if c.Arrivals != nil {
		if c.Concurrency != 0 {
			bad("has a concurrency and arrivals: it is either closed or open")
		}
		if err := c.Arrivals.check(); err != nil {
			bad("%v", err)
		}
	} else if c.Concurrency < 1 {
		bad("concurrency %d is below 1", c.Concurrency)
	}
	if len(c.Prompts) == 0 && !c.traced() && (c.Input.Min < 1 || c.Input.Max < c.Input.Min) {
		bad("input %d..%d is no range above zero", c.Input.Min, c.Input.Max)
	}
	if !c.traced() && !c.answered() && (c.Output.Min < 1 || c.Output.Max < c.Output.Min) {
		bad("output %d..%d is no range above zero", c.Output.Min, c.Output.Max)
	}
	if t := c.Session; t != nil {
		if c.Arrivals != nil {
			bad("conversations need a closed class: a concurrency in place of arrivals")
		}
		if t.Turns.Min < 1 || t.Turns.Max < t.Turns.Min || t.Input.Min < 1 || t.Input.Max < t.Input.Min || t.Think < 0 {
			bad("conversations need turns and input above zero, and no negative time to think")
		}
	}
	if p := c.Prefix; p != nil && (p.Groups < 1 || p.Tokens < 1) {
		bad("a shared prefix needs groups and tokens above zero")
	}
	for _, o := range c.SLO {
		switch o.Metric {
		case "ttft", "tpot", "itl", "e2e":
		default:
			bad("objective on %q: ttft, tpot, itl and e2e are known", o.Metric)
		}
		if o.Quantile <= 0 || o.Quantile > 1 || o.Limit <= 0 {
			bad("objective on %s needs a quantile above 0, at most 1, and a limit above zero", o.Metric)
		}
	}
	return errs
}

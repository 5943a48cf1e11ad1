package loadgen

import (
	"errors"
	"fmt"
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
	seen := map[string]bool{}
	for _, c := range s.Classes {
		if seen[c.Name] {
			bad("class %q is there twice", c.Name)
		}
		seen[c.Name] = true
		errs = append(errs, c.check()...)
	}
	for name := range s.Window.Requests {
		if !seen[name] {
			bad("the window asks for requests of class %q, which is not there", name)
		}
	}
	if s.Window.Max == 0 && len(s.Window.Requests) == 0 {
		s.Window.Max = s.Window.Min
	}
	if s.Window.Max <= 0 || s.Window.Max < s.Window.Min {
		bad("window: max %v must be above zero and not below min %v", s.Window.Max, s.Window.Min)
	}
	if s.Warmup.Stable && s.Warmup.StableMax <= 0 {
		bad("a warm-up until stable needs a limit")
	}
	return s, errors.Join(errs...)
}

func (c Class) check() []error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("class %q: "+format, append([]any{c.Name}, args...)...))
	}
	if c.Name == "" {
		bad("no name")
	}
	if c.Concurrency < 1 {
		bad("concurrency %d is below 1", c.Concurrency)
	}
	if c.Input.Min < 1 || c.Input.Max < c.Input.Min {
		bad("input %d..%d is no range above zero", c.Input.Min, c.Input.Max)
	}
	if c.Output.Min < 1 || c.Output.Max < c.Output.Min {
		bad("output %d..%d is no range above zero", c.Output.Min, c.Output.Max)
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

package truth

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Plan says how an answer goes. The keys are those of the JSON in a request and of the query of /ctl/cfg.
type Plan struct {
	Pattern string `json:"pattern,omitempty"` // a name of Patterns: what it sets, the other fields may change
	FirstUS int64  `json:"first_us"`          // from the end of the request to the first token, in µs
	GapUS   int64  `json:"gap_us"`            // mean time between events with tokens, in µs
	Gaps    string `json:"gaps,omitempty"`    // constant (or ""), exponential, lognormal, stall: one gap in a hundred lasts 500 ms
	Phase   string `json:"phase,omitempty"`   // "": as asked; spread: first tokens later by 0 to one gap; lockstep: all streams write at common ticks, a gap apart
	Seed    uint64 `json:"seed,omitempty"`    // of what is drawn, together with the request's number

	Tokens     int  `json:"tokens,omitempty"`      // of an answer; 0: as many as asked
	Chunk      int  `json:"chunk,omitempty"`       // tokens of an event at least; 0: 1
	ChunkMax   int  `json:"chunk_max,omitempty"`   // and at most; 0: as Chunk
	EmptyFirst bool `json:"empty_first,omitempty"` // the first token has no text; in a chat it looks like a role
	Reasoning  int  `json:"reasoning,omitempty"`   // so many first tokens are reasoning
	StopAfter  int  `json:"stop_after,omitempty"`  // the end-of-sequence token comes after so many; 0: never
	Endless    bool `json:"endless,omitempty"`     // tokens go on until the client leaves

	RoleUS  int64 `json:"role_us,omitempty"`  // the role comes in an event of its own, so long before the first token (chat only); 0: with the first token
	UsageUS int64 `json:"usage_us,omitempty"` // the counts come so long after the last token
	DoneUS  int64 `json:"done_us,omitempty"`  // the end mark comes so long after the last event before it

	Batch       int   `json:"batch,omitempty"`       // events of a write, which is made when the last of them is due; 0: 1
	Split       int   `json:"split,omitempty"`       // writes of an event; 0: 1
	SplitUS     int64 `json:"split_us,omitempty"`    // between these writes
	Incremental bool  `json:"incremental,omitempty"` // /generate sends new text only, not all so far
	Flood       bool  `json:"flood,omitempty"`       // no schedule: writes as fast as the client reads

	Status     int   `json:"status,omitempty"`      // the answer is a refusal with this HTTP status, at the time of the first token
	ResetAfter int   `json:"reset_after,omitempty"` // the connection is reset a gap after so many tokens; 0: never
	Close      bool  `json:"close,omitempty"`       // Connection: close
	AcceptUS   int64 `json:"accept_us,omitempty"`   // connections wait so long to be accepted; a default's value counts
}

// DefaultPlan is what a server follows until it is told otherwise: first token after 200 ms, then one each 20 ms.
func DefaultPlan() Plan { return Plan{FirstUS: 200_000, GapUS: 20_000} }

const (
	stallShare = 100         // one gap in so many stalls
	stallNS    = 500_000_000 // for so long
	maxUS      = 3_600_000_000
	maxTokens  = 10_000_000
)

// presets are the patterns by name. Each is applied to a plan that holds only times, phase and seed.
func presets() map[string]func(*Plan) {
	return map[string]func(*Plan){
		"constant":    func(*Plan) {},
		"exponential": func(p *Plan) { p.Gaps = "exponential" },
		"lognormal":   func(p *Plan) { p.Gaps = "lognormal" },
		"stall":       func(p *Plan) { p.Gaps = "stall" },
		"spread":      func(p *Plan) { p.Phase = "spread" },
		"lockstep":    func(p *Plan) { p.Phase = "lockstep" },
		"chunks":      func(p *Plan) { p.Chunk, p.ChunkMax = 3, 5 },
		"empty":       func(p *Plan) { p.EmptyFirst = true },
		"reasoning":   func(p *Plan) { p.Reasoning = 10 },
		"role":        func(p *Plan) { p.RoleUS, p.FirstUS = 200_000, max(p.FirstUS, 250_000) },
		"late-usage":  func(p *Plan) { p.UsageUS = 100_000 },
		"late-done":   func(p *Plan) { p.DoneUS = 100_000 },
		"split":       func(p *Plan) { p.Split, p.SplitUS = 3, 1000 },
		"batch":       func(p *Plan) { p.Batch = 4 },
		"cumulative":  func(*Plan) {}, // what /generate does anyway
		"incremental": func(p *Plan) { p.Incremental = true },
		"eos":         func(p *Plan) { p.StopAfter = 5 },
		"endless":     func(p *Plan) { p.Endless = true },
		"prefill":     func(p *Plan) { p.FirstUS = 2_000_000 },
		"reset":       func(p *Plan) { p.ResetAfter = 5 },
		"429":         func(p *Plan) { p.Status = 429 },
		"500":         func(p *Plan) { p.Status = 500 },
		"close":       func(p *Plan) { p.Close = true },
		"slow-accept": func(p *Plan) { p.AcceptUS = 100_000 },
		"flood":       func(p *Plan) { p.Flood = true },
		"flood16":     func(p *Plan) { p.Flood, p.Batch = true, 16 },
	}
}

// Patterns lists the names that a plan's pattern may have.
func Patterns() []string { return slices.Sorted(maps.Keys(presets())) }

// ParsePlan reads a plan in JSON. Without a pattern it changes base; a pattern keeps base's times, phase and seed only.
func ParsePlan(base Plan, data []byte) (Plan, error) {
	var head struct {
		Pattern *string `json:"pattern"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return Plan{}, fmt.Errorf("plan: %w", err)
	}
	if head.Pattern != nil {
		set, ok := presets()[*head.Pattern]
		if !ok {
			return Plan{}, fmt.Errorf("plan: pattern %q is none of %s", *head.Pattern, strings.Join(Patterns(), ", "))
		}
		base = Plan{FirstUS: base.FirstUS, GapUS: base.GapUS, Phase: base.Phase, Seed: base.Seed}
		set(&base)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&base); err != nil {
		return Plan{}, fmt.Errorf("plan: %w", err)
	}
	return base, base.check()
}

// ParseQuery reads a plan from the query of a URL, with the same keys.
func ParseQuery(base Plan, query string) (Plan, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return Plan{}, fmt.Errorf("plan: %w", err)
	}
	fields := map[string]json.RawMessage{}
	for key, v := range values {
		raw := json.RawMessage(v[len(v)-1])
		if key == "pattern" || key == "gaps" || key == "phase" || !json.Valid(raw) {
			raw, _ = json.Marshal(v[len(v)-1]) // a string always marshals
		}
		fields[key] = raw
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return Plan{}, fmt.Errorf("plan: %w", err)
	}
	return ParsePlan(base, data)
}

func (p *Plan) check() error {
	for _, us := range []int64{p.FirstUS, p.GapUS, p.RoleUS, p.UsageUS, p.DoneUS, p.SplitUS, p.AcceptUS} {
		if us < 0 || us > maxUS {
			return fmt.Errorf("plan: %d µs is not between 0 and an hour", us)
		}
	}
	for _, n := range []int{p.Tokens, p.Chunk, p.ChunkMax, p.Reasoning, p.StopAfter, p.ResetAfter} {
		if n < 0 || n > maxTokens {
			return fmt.Errorf("plan: %d tokens are not between 0 and %d", n, maxTokens)
		}
	}
	switch {
	case !slices.Contains([]string{"", "constant", "exponential", "lognormal", "stall"}, p.Gaps):
		return fmt.Errorf("plan: gaps %q is none of constant, exponential, lognormal, stall", p.Gaps)
	case !slices.Contains([]string{"", "spread", "lockstep"}, p.Phase):
		return fmt.Errorf("plan: phase %q is neither spread nor lockstep", p.Phase)
	case p.ChunkMax > 0 && p.ChunkMax < p.Chunk:
		return fmt.Errorf("plan: chunk_max %d is below chunk %d", p.ChunkMax, p.Chunk)
	case p.Status != 0 && (p.Status < 400 || p.Status > 599):
		return fmt.Errorf("plan: status %d is no refusal (400 to 599)", p.Status)
	case p.Batch < 0 || p.Batch > 1024 || p.Split < 0 || p.Split > 64:
		return fmt.Errorf("plan: batch %d or split %d is out of range (1024, 64)", p.Batch, p.Split)
	case p.Batch > 1 && p.Split > 1:
		return fmt.Errorf("plan: batch and split exclude each other")
	case p.RoleUS > p.FirstUS:
		return fmt.Errorf("plan: role_us %d is more than first_us %d", p.RoleUS, p.FirstUS)
	case p.Endless && p.GapUS == 0 && !p.Flood:
		return fmt.Errorf("plan: an endless answer needs gap_us or flood")
	}
	return nil
}

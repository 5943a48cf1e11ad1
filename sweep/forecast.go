package sweep

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MemoryRule says how an engine's settings divide the memory of a device, so that launches which are
// over can forecast one to come. An engine without one has no forecasts.
type MemoryRule struct {
	// Fraction names the setting that is the share of device memory: KV pool and headroom are straight
	// lines in it as long as all else stays the same.
	Fraction string
	// Cap names the setting that bounds the KV pool in tokens; empty: there is none.
	Cap string
	// HostCache reports whether the settings keep a second prefix cache in host memory; nil: the engine has none.
	HostCache func([]Setting) bool
	// OfHostCache reports a setting that only says how that second cache is made: the KV pool on the device
	// does not depend on it.
	OfHostCache func(name string) bool
	// GraphGate is how much memory must be free for the engine to capture prefill graphs of its own accord, in
	// GiB; 0 where the settings decide that. Below it the launch is another configuration. nil: no such gate.
	GraphGate func([]Setting) float64
	// RequestGiB is what the table of running requests takes beside a pool of so many tokens, where a request may
	// have so many: it grows in steps of its own. nil: nothing worth counting.
	RequestGiB func(settings []Setting, tokens, context float64) float64
	// CellBytes is what one token takes in the KV pool of one rank, from the model's config.json. An error
	// says why that cannot be told for this model.
	CellBytes func(config []byte, settings []Setting) (float64, error)
}

// FractionOf is the share of device memory that the settings ask for, and whether they do.
func (m *MemoryRule) FractionOf(settings []Setting) (float64, bool) {
	text, ok := SettingValue(settings, m.Fraction)
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}

// CapOf is the bound of the KV pool that the settings set, in tokens, and whether they do.
func (m *MemoryRule) CapOf(settings []Setting) (float64, bool) {
	text, ok := SettingValue(settings, m.Cap)
	v, err := strconv.ParseFloat(text, 64)
	return v, ok && m.Cap != "" && err == nil && v > 0
}

// A Sighting is one launch whose server was ready, as a forecast learns from it; without facts, a launch
// to come.
type Sighting struct {
	Launch        string    `json:"launch"` // "NIGHT/CONFIG/repeat=1"; in the same night without its name
	At            time.Time `json:"at"`     // of its start
	Engine        string    `json:"engine"`
	EngineVersion string    `json:"engine_version,omitempty"`
	Model         string    `json:"model"`
	Command       []string  `json:"command"`
	Env           Params    `json:"env,omitempty"` // secrets by reference
	Host          string    `json:"host"`
	Simulate      string    `json:"simulate,omitempty"` // profile of a simulated machine
	GPUs          []string  `json:"gpus,omitempty"`     // chosen devices; nil: all
	GPU           string    `json:"gpu,omitempty"`      // as the driver names it
	GPUCount      int       `json:"gpu_count,omitempty"`
	Settings      []Setting `json:"settings"`
	Facts         Values    `json:"facts,omitempty"`
}

// SightingOf is the launch that a job asks for. Its devices and version are not known before it runs.
func SightingOf(j Job) Sighting {
	return Sighting{
		Launch: j.ID, Engine: j.Engine, Model: j.Model, Command: j.Command, Env: j.Env, Host: j.Host,
		Simulate: j.Simulate, GPUs: j.GPUs, Settings: j.Config.Settings,
	}
}

// An Estimate is a number with its own error.
type Estimate struct {
	Value  float64 `json:"value"`
	Within float64 `json:"within"` // the truth is expected between Value − Within and Value + Within
}

// A Forecast says what a launch will find, from launches that were. It never replaces a measurement.
type Forecast struct {
	Fraction    float64   `json:"fraction"`
	KVTokens    *Estimate `json:"kv_tokens,omitempty"`    // below zero: so many are missing
	HeadroomGiB *Estimate `json:"headroom_gib,omitempty"` // left when the server is ready; below zero: so much is missing
	PoolGiB     float64   `json:"pool_gib,omitempty"`     // of the KV pool on one rank; 0: not known
	// Lowest and Highest are the fractions at which the KV pool and the headroom come to nothing; 0: not known.
	Lowest  float64  `json:"lowest,omitempty"`
	Highest float64  `json:"highest,omitempty"`
	From    []string `json:"from"`              // the launches that it rests on
	Version string   `json:"version,omitempty"` // of the engine in those launches
	Notes   []string `json:"notes,omitempty"`   // what a reader must know
}

// The names of a forecast in a record. Error is truth − forecast, once the truth is known.
const (
	forecastKVTokens       = "forecast_kv_tokens"
	forecastKVTokensWithin = "forecast_kv_tokens_within"
	forecastKVTokensError  = "forecast_kv_tokens_error"
	forecastHeadroom       = "forecast_headroom_gib"
	forecastHeadroomWithin = "forecast_headroom_within_gib"
	forecastHeadroomError  = "forecast_headroom_error_gib"
)

// Values are the forecast as a record keeps it, with its errors as far as truth holds the facts.
func (f *Forecast) Values(truth Values) Values {
	v := Values{}
	if f == nil {
		return v
	}
	add := func(e *Estimate, value, within, errorName, fact string, digits float64) {
		if e == nil {
			return
		}
		v[value], v[within] = round(e.Value, digits), round(e.Within, digits)
		if t, ok := truth[fact]; ok {
			v[errorName] = round(t-e.Value, digits)
		}
	}
	add(f.KVTokens, forecastKVTokens, forecastKVTokensWithin, forecastKVTokensError, "kv_tokens", 1)
	add(f.HeadroomGiB, forecastHeadroom, forecastHeadroomWithin, forecastHeadroomError, "headroom_gib", 1000)
	return v
}

func round(v, digits float64) float64 { return math.Round(v*digits)/digits + 0 } // no −0

// Short says the forecast without its sources: "231,120 ± 9 KV tokens, 0.82 ± 0.43 GiB headroom".
func (f *Forecast) Short() string {
	var parts []string
	if f.KVTokens != nil {
		parts = append(parts, fmt.Sprintf("%s ± %s KV tokens", commaNumber(f.KVTokens.Value), commaNumber(math.Ceil(f.KVTokens.Within))))
	}
	if f.HeadroomGiB != nil {
		parts = append(parts, fmt.Sprintf("%.2f ± %.2f GiB headroom", f.HeadroomGiB.Value, f.HeadroomGiB.Within))
	}
	return strings.Join(parts, ", ")
}

// String is the forecast with the launches that it rests on and what a reader must know.
func (f *Forecast) String() string {
	parts := append([]string{f.Short() + ", from " + f.Sources()}, f.Notes...)
	return strings.Join(parts, "; ")
}

// Sources names a few of the launches that the forecast rests on.
func (f *Forecast) Sources() string {
	const most = 3
	if n := len(f.From); n > most {
		return strings.Join(f.From[:most-1], ", ") + fmt.Sprintf(" and %d more", n-most+1)
	}
	return strings.Join(f.From, " and ")
}

// commaNumber writes a whole number with commas.
func commaNumber(v float64) string {
	s := strconv.FormatFloat(math.Abs(math.Round(v)), 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if math.Round(v) < 0 {
		return "−" + s
	}
	return s
}

// Hopeless says why the launch is not expected to start with at least so much headroom, in GiB; empty: it may.
func (f *Forecast) Hopeless(headroomGiB float64) string {
	switch {
	case f == nil:
	case f.KVTokens != nil && f.KVTokens.Value <= 0:
		return "the weights would leave no room for a KV pool"
	case f.HeadroomGiB != nil && f.HeadroomGiB.Value < headroomGiB:
		return fmt.Sprintf("only %.2f GiB of headroom would be left", f.HeadroomGiB.Value)
	}
	return ""
}

// Postpone moves the launches that hopeless names to the end of their repeat, before its drift check. The
// baseline stays first.
func (p *Plan) Postpone(hopeless func(Launch) bool) {
	rank := func(l Launch) int {
		switch {
		case l.Role == RoleDrift:
			return 2
		case !l.Config.Baseline && hopeless(l):
			return 1
		}
		return 0
	}
	slices.SortStableFunc(p.Launches, func(a, b Launch) int {
		if a.Repeat != b.Repeat {
			return a.Repeat - b.Repeat
		}
		return rank(a) - rank(b)
	})
}

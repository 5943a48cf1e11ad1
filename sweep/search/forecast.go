package search

import (
	"fmt"
	"math"
	"slices"

	"sweep/sweep"
)

const gib = 1 << 30

// What the numbers of a launch resolve. A pool of the same settings came out up to two tokens apart. Free
// memory is told in hundredths of a GiB, but a pool is allocated for each layer, K and V, in blocks of 2 MiB: for 64
// of them that is up to 0.13 GiB between a line and what is left.
const (
	tokenResolution    = 2    // tokens
	headroomResolution = 0.13 // GiB
	weightResolution   = 0.01
)

// model is one forecast being made.
type model struct {
	rule     *sweep.MemoryRule
	kin      []sweep.Sighting
	x        float64
	cell     float64 // bytes; 0: not known
	settings []sweep.Setting
	out      *sweep.Forecast

	tokens   line // of the KV pool
	capped   bool // the pool is bounded by a setting, not by the memory
	hasSlope bool // tokens has one
}

// Forecast says what the asked launch will find, from launches that were ready; nil when nothing can be
// said. cell is what a token takes on one rank, in bytes; 0 when that is not known.
func Forecast(rule *sweep.MemoryRule, seen []sweep.Sighting, asked sweep.Sighting, cell float64) *sweep.Forecast {
	if rule == nil {
		return nil
	}
	x, ok := rule.FractionOf(asked.Settings)
	kin := family(rule, seen, asked)
	if !ok || len(kin) == 0 {
		return nil
	}
	m := &model{rule: rule, kin: kin, x: x, cell: cell, settings: asked.Settings, out: &sweep.Forecast{Fraction: x, Version: kin[0].EngineVersion}}
	m.forecastTokens()
	m.forecastHeadroom()
	if m.out.KVTokens == nil && m.out.HeadroomGiB == nil {
		return nil
	}
	for _, s := range kin {
		if !slices.Contains(m.out.From, s.Launch) {
			m.out.From = append(m.out.From, s.Launch)
		}
	}
	return m.out
}

// facts gives the points of the family that have a value.
func facts(rule *sweep.MemoryRule, kin []sweep.Sighting, value func(sweep.Sighting) (float64, bool)) []point {
	var points []point
	for _, s := range kin {
		x, _ := rule.FractionOf(s.Settings)
		if y, ok := value(s); ok {
			points = append(points, point{x, y})
		}
	}
	return points
}

func fact(name string) func(sweep.Sighting) (float64, bool) {
	return func(s sweep.Sighting) (float64, bool) { v, ok := s.Facts[name]; return v, ok }
}

// forecastTokens forecasts the KV pool.
func (m *model) forecastTokens() {
	points := facts(m.rule, m.kin, fact("kv_tokens"))
	bound, bounded := m.rule.CapOf(m.settings)
	if bounded {
		const page = 256 // a pool is rounded down to a page
		atCap := func(p point) bool { return p.y > bound-page }
		if i := slices.IndexFunc(points, func(p point) bool { return atCap(p) && p.x <= m.x }); i >= 0 {
			m.capped = true
			m.out.KVTokens = &sweep.Estimate{Value: points[i].y, Within: tokenResolution}
			return
		}
		points = slices.DeleteFunc(points, atCap)
	}
	var ok bool
	if m.tokens, ok = m.tokenLine(points); !ok {
		return
	}
	m.hasSlope = m.tokens.slope != 0
	value := m.tokens.y(m.x)
	if bounded && value > bound {
		m.capped = true
		m.out.KVTokens = &sweep.Estimate{Value: bound, Within: tokenResolution}
		return
	}
	m.out.KVTokens = &sweep.Estimate{Value: value, Within: m.tokens.within(m.x)}
	if lowest, ok := m.tokens.meets(0); ok {
		m.out.Lowest = lowest
	}
	if m.cell > 0 {
		m.out.PoolGiB = max(0, value) * m.cell / gib
	}
	if m.tokens.residual > 10*tokenResolution {
		m.note("the launches that this rests on lie up to %.0f tokens off one line: they did not all find the same free memory", m.tokens.residual)
	}
}

// tokenLine is the line of the KV pool: through launches at two fractions, or through one whose free memory
// after the weights and size of a token are known.
func (m *model) tokenLine(points []point) (line, bool) {
	if l, ok := fit(points, tokenResolution); ok || len(points) == 0 {
		return l, ok
	}
	if before, beforeError, ok := m.freeBefore(); ok {
		return through(points, before*gib/m.cell, beforeError*gib/m.cell, tokenResolution), true
	}
	return through(points, 0, 0, tokenResolution), points[0].x == m.x
}

// freeBefore is the memory that was free before the weights, in GiB: what a launch had left after them is
// its KV pool and all that the fraction keeps off.
func (m *model) freeBefore() (before, within float64, ok bool) {
	if m.cell <= 0 {
		return 0, 0, false
	}
	for _, s := range slices.Backward(m.kin) {
		x, _ := m.rule.FractionOf(s.Settings)
		tokens, has := s.Facts["kv_tokens"]
		after, also := s.Facts["avail_after_weights_gib"]
		weights, too := s.Facts["weights_gib"]
		if !has || !also || !too || x >= 1 {
			continue
		}
		before = (after - tokens*m.cell/gib) / (1 - x)
		// Where something else is kept off as well, or the pool is not what this takes it for, the two ways to
		// tell what was free do not agree.
		if math.Abs(before-(after+weights)) <= 0.02*(after+weights) {
			return before, weightResolution / (1 - x), true
		}
	}
	return 0, 0, false
}

func (m *model) note(format string, args ...any) {
	m.out.Notes = append(m.out.Notes, fmt.Sprintf(format, args...))
}

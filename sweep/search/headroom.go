package search

import (
	"math"
	"slices"

	"sweep/sweep"
)

// spare is what one launch had left beside its KV pool, and what graphs took of that, in GiB.
type spare struct {
	point                 // y is all beside the pool: headroom, graphs, and the table of requests
	free          float64 // before graphs
	graphs        float64
	withHostCache bool
}

// forecastHeadroom forecasts what is left when the server is ready. What is left beside the pool is a
// straight line; what graphs and requests take is not: below a limit some graphs are not captured.
func (m *model) forecastHeadroom() {
	spares := m.spares()
	l, ok := m.freeLine(spares)
	if !ok {
		return
	}
	requests := 0.0
	if m.out.KVTokens != nil {
		requests = m.requests(m.settings, m.out.KVTokens.Value)
	}
	free, within := l.y(m.x)-requests, l.within(m.x)
	gate := 0.0
	if m.rule.GraphGate != nil {
		gate = m.rule.GraphGate(m.settings)
	}
	if gate > 0 && free >= gate && free-gate <= within {
		m.note("about %.2f GiB would be free for graphs, at the %g GiB below which the server drops its prefill graphs", free, gate)
	}
	if m.out.PoolGiB == 0 && m.hasSlope && !m.capped && m.out.KVTokens != nil {
		m.out.PoolGiB = max(0, m.out.KVTokens.Value) * -l.slope / m.tokens.slope
	}
	graphs, known := m.graphsAt(spares, free, gate)
	if !known {
		return
	}
	m.out.HeadroomGiB = &sweep.Estimate{Value: free - graphs, Within: within}
	if highest, ok := l.meets(graphs + requests); ok {
		m.out.Highest = highest
	}
}

func (m *model) spares() []spare {
	var spares []spare
	for _, s := range m.kin {
		x, _ := m.rule.FractionOf(s.Settings)
		headroom, ok := s.Facts["headroom_gib"]
		if !ok || m.capped != m.atCap(s) {
			continue
		}
		graphs := s.Facts["graph_gib"] // absent where none are captured
		free := headroom + graphs
		spares = append(spares, spare{
			point: point{x, free + m.requests(s.Settings, s.Facts["kv_tokens"])}, free: free, graphs: graphs,
			withHostCache: m.rule.HostCache != nil && m.rule.HostCache(s.Settings),
		})
	}
	return spares
}

// requests is what the table of running requests takes beside a pool of so many tokens, in GiB. The longest
// request is the same in the whole family.
func (m *model) requests(settings []sweep.Setting, tokens float64) float64 {
	if m.rule.RequestGiB == nil || tokens <= 0 {
		return 0
	}
	for _, s := range m.kin {
		context, ok := s.Facts["context_length"]
		if _, pool := s.Facts["kv_tokens"]; !ok || !pool {
			return 0 // it is counted for all or for none
		}
		if context != m.kin[0].Facts["context_length"] {
			return 0
		}
	}
	return m.rule.RequestGiB(settings, tokens, m.kin[0].Facts["context_length"])
}

// atCap reports a launch whose pool was bounded by a setting.
func (m *model) atCap(s sweep.Sighting) bool {
	bound, ok := m.rule.CapOf(s.Settings)
	return ok && s.Facts["kv_tokens"] > bound-256
}

// freeLine is the line of free memory before graphs. Launches with a host cache, and without, may have lines
// of their own with the same slope.
func (m *model) freeLine(spares []spare) (line, bool) {
	with := m.rule.HostCache != nil && m.rule.HostCache(m.settings)
	var own, other []point
	for _, s := range spares {
		if s.withHostCache == with {
			own = append(own, s.point)
		} else {
			other = append(other, s.point)
		}
	}
	if m.capped { // the pool is always the same
		if len(own) == 0 {
			return line{}, false
		}
		return through(own, 0, 0, headroomResolution), true
	}
	if l, ok := fit(own, headroomResolution); ok {
		return l, true
	}
	slope, slopeError, known := m.freeSlope(other)
	const unlike = "no launch %s a host cache was seen: headroom may differ"
	word := map[bool]string{true: "with", false: "without"}[with]
	switch {
	case known && len(own) > 0:
		return through(own, slope, slopeError, headroomResolution), true
	case known && len(other) > 0:
		m.note(unlike, word)
		return through(other, slope, slopeError, headroomResolution), true
	case len(own) > 0 && len(other) > 0:
		if l, ok := fit(append(own, other...), headroomResolution); ok {
			m.note("headroom is from launches with and without a host cache together")
			return l, true
		}
	}
	if len(own) > 0 && own[0].x == m.x {
		return through(own, 0, 0, headroomResolution), true
	}
	return line{}, false
}

// freeSlope is what 1.0 of the fraction takes from free memory, in GiB, as launches of the other kind or the
// size of a token tell.
func (m *model) freeSlope(other []point) (slope, slopeError float64, ok bool) {
	if l, ok := fit(other, headroomResolution); ok {
		return l.slope, l.slopeError, true
	}
	if m.cell > 0 && m.hasSlope {
		return -m.tokens.slope * m.cell / gib, m.tokens.slopeError * m.cell / gib, true
	}
	return 0, 0, false
}

// graphsAt is what graphs will take: as much as in the nearest launch on the same side of the gate.
func (m *model) graphsAt(spares []spare, free, gate float64) (graphs float64, known bool) {
	dropped := gate > 0 && free < gate
	best, least, most := math.Inf(1), math.Inf(1), 0.0
	for _, s := range spares {
		least, most = min(least, s.graphs), max(most, s.graphs)
		if d := math.Abs(s.x - m.x); (gate > 0 && s.free < gate) == dropped && d < best {
			best, graphs = d, s.graphs
		}
	}
	if dropped && slices.ContainsFunc(spares, func(s spare) bool { return s.free >= gate }) {
		m.note("%.2f GiB would be free for graphs, less than the %g GiB that prefill graphs need: the server drops them, which makes it another configuration", free, gate)
	}
	switch {
	case !math.IsInf(best, 1):
		return graphs, true
	case most == 0:
		return 0, true
	case dropped:
		m.note("no launch without prefill graphs was seen: headroom is between %.2f and %.2f GiB", free-most, free)
	default:
		m.note("no launch with prefill graphs was seen: at most %.2f GiB of headroom", free-least)
	}
	return 0, false
}

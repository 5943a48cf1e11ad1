package main

import (
	"fmt"
	"math"
)

// benchCase is one load that each client is given.
type benchCase struct {
	Name     string
	Streams  int // requests in flight
	Requests int // in all
	Tokens   int // of an answer
	Flood    bool
	Lockstep bool
	Query    string // of the server's plan
}

func (c benchCase) events() int { return c.Requests * c.Tokens }

// lateLimitUS is how late the server's writes may be at p99, in µs, in a run that counts: several times what they are when it has
// its core for itself. Streams in lock-step are late by construction, and a flood has no schedule.
func (c benchCase) lateLimitUS() float64 {
	switch {
	case c.Flood:
		return math.Inf(1)
	case c.Lockstep || c.Streams > 1000:
		return 20_000
	}
	return 5_000
}

// paced is a load in which each stream gets a token each 20 ms.
func paced(streams int, lockstep bool) benchCase {
	c := benchCase{Name: fmt.Sprintf("spread-%d", streams), Streams: streams, Requests: 2 * streams, Tokens: 100, Query: "pattern=spread"}
	if lockstep {
		c.Name, c.Lockstep, c.Query = fmt.Sprintf("lockstep-%d", streams), true, "pattern=lockstep"
	}
	c.Query += "&first_us=200000&gap_us=20000"
	return c
}

// flood is a load as fast as the client reads, with so many events in a write.
func flood(batch, requests int) benchCase {
	return benchCase{
		Name: fmt.Sprintf("flood-%d", batch), Streams: 64, Requests: requests, Tokens: 1000, Flood: true,
		Query: fmt.Sprintf("pattern=flood&first_us=0&gap_us=0&batch=%d", batch),
	}
}

// casesOf gives the cases of a measurement, or the small ones that only show that it works.
func casesOf(quick bool, sizes, lockSizes []int) []benchCase {
	if quick {
		one, sixteen := flood(1, 64), flood(16, 128)
		return []benchCase{paced(20, false), paced(20, true), one, sixteen}
	}
	var cases []benchCase
	for _, n := range sizes {
		cases = append(cases, paced(n, false))
	}
	for _, n := range lockSizes {
		cases = append(cases, paced(n, true))
	}
	return append(cases, flood(1, 512), flood(16, 2048))
}

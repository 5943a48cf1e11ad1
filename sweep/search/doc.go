// Package search says what a launch will find before it runs. Its forecast model knows one thing: as
// long as all else stays the same, the KV pool and the free memory of a device are straight lines in
// the share of it that a server may take. Two good launches draw the line; where the model's own
// config.json says how large a token is, one is enough.
//
// The steps to use it:
//
//	seen, err := search.Look(nightDir)                            // the launches of a night that were ready
//	f := search.Forecast(eng.Memory, seen, sweep.SightingOf(job), search.CellBytes(eng.Memory, job))
//	if f != nil { … f.KVTokens.Value … }                          // nil: nothing can be said
//
// A forecast orders and warns; it skips only where the user asked for that. It never replaces a
// measurement, and it says its own error.
package search

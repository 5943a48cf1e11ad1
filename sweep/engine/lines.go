package engine

import (
	"slices"
	"sync"

	"sweep/sweep"
)

// The grammars, each built once and never changed.
var (
	sglangLines = sync.OnceValue(sglangGrammar)
	vllmLines   = sync.OnceValue(vllmGrammar)
	llamaLines  = sync.OnceValue(llamaGrammar)
	otherLines  = sync.OnceValue(otherGrammar)
)

// otherGrammar reads the log of a server that is not known: what all engines say, as far as it does not
// depend on who says it.
func otherGrammar() *grammar {
	s, v, l := sglangGrammar(), vllmGrammar(), llamaGrammar()
	return (&grammar{
		lead:     pythonLead,
		quotes:   slices.Concat(s.quotes, v.quotes),
		births:   slices.Concat(s.births, v.births, l.births),
		marks:    slices.Concat(s.marks, v.marks, l.marks),
		wrappers: slices.Concat(s.wrappers, v.wrappers),
		rules:    slices.Concat(sglangArguments, vllmArguments, vllmDevice, sglangDevice, sglangHost, sglangPools, llamaStart, llamaMemory, vllmRules(), sglangRuntime, sglangEffects, llamaEnds),
		numbers:  slices.Concat(s.numbers, v.numbers, l.numbers),
		notes:    slices.Concat(s.notes, v.notes, l.notes),
		frames:   s.frames,
		bars:     slices.Concat(s.bars, v.bars),
		batches:  slices.Concat(s.batches, v.batches, l.batches),
		heads:    slices.Concat(s.heads, v.heads),
		retracts: slices.Concat(s.retracts, v.retracts),
		silences: slices.Concat(s.silences, v.silences),
		batch: func(message string, names *fieldNames) (string, sweep.Values, bool) {
			for _, read := range []func(string, *fieldNames) (string, sweep.Values, bool){s.batch, v.batch, l.batch} {
				if kind, values, ok := read(message, names); ok {
					return kind, values, true
				}
			}
			return "", nil, false
		},
	}).compile()
}

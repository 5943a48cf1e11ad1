// Package truth is a server of streaming completions whose timing is known: it writes each event at a planned time,
// stamps the event with the moment before its write, and logs every write. What a client measured can so be held
// against what happened.
//
// The steps to use it:
//
//	s, err := truth.Listen(truth.Options{Spin: true})        // on a free port of 127.0.0.1; spinning wants a core of its own
//	defer s.Close()
//	…send requests to s.URL(), with the header X-Truth: {"pattern":"role","gap_us":5000} or none…
//	for _, r := range s.Log() { want := truth.Expect(&r) }   // the true values, by each definition
//
// A [Plan] says how an answer goes. A request carries one in the header X-Truth or as "truth" in its JSON body; what
// comes without follows the server's default, which GET /ctl/cfg?pattern=…&gap_us=… sets. GET /ctl/dump gives the log to
// another process, and [ReadLog] reads it.
//
// Truth is the time just before a write, whatever was planned, so a late server is no error of a client. How late it was
// is in [Summary].
package truth

// Kind is what an event of an answer carries.
type Kind uint8

// The kinds.
const (
	Role      Kind = iota // the assistant's role, before any token
	Empty                 // a token without text
	Reasoning             // tokens of reasoning text
	Content               // tokens of visible text
	Usage                 // counts only
	Done                  // the end mark, with the end of the body
	Whole                 // an answer that is no stream: a completion at once, or a refusal
	Reset                 // the connection is reset
)

// String names the kind.
func (k Kind) String() string {
	return [...]string{"role", "empty", "reasoning", "content", "usage", "done", "whole", "reset"}[k]
}

// Options say how a server runs.
type Options struct {
	Address string // to listen on; "": a free port of 127.0.0.1
	Plan    Plan   // for requests that bring none; zero: DefaultPlan
	// Threads is the number of locked OS threads that share the connections; 0: 1. One carries about 100,000 writes/s.
	Threads int
	// Spin makes each thread poll without a pause while an answer is open. Lateness is then below a microsecond on a
	// core of its own. Without it a thread sleeps until the next write is due, and is late by some 60 µs.
	Spin bool
}

// Package mock is a server with a script, to test clients of streaming completions against a known truth.
//
// The steps to use it:
//
//	s := &mock.Server{Answer: func(r mock.Request) []mock.Step { return mock.Stream(r, mock.Timing{First: 100 * time.Millisecond, Gap: 10 * time.Millisecond}) }}
//	url, err := s.Listen(); defer s.Close()          // on 127.0.0.1
//	spec.Dial = s.Dial                               // or in memory, also in virtual time
//
// It speaks just enough HTTP/1.1 for that, and writes each step with one write.
package mock

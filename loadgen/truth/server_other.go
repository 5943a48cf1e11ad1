//go:build !linux

package truth

import "errors"

var errLinux = errors.New("truth: the server with known timing needs Linux (epoll)")

// Server is a running server; it exists on Linux only.
type Server struct{}

// Listen says that there is no such server on this system.
func Listen(Options) (*Server, error) { return nil, errLinux }

// URL is where the server answers.
func (s *Server) URL() string { return "" }

// Close ends the server.
func (s *Server) Close() {}

// SetPlan changes the plan of requests that bring none.
func (s *Server) SetPlan(Plan) error { return errLinux }

// Reset forgets all requests so far.
func (s *Server) Reset() {}

// Log gives a copy of the log.
func (s *Server) Log() []Request { return nil }

// Summary says what the server did since the last reset.
func (s *Server) Summary() Summary { return Summary{} }

package mock

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Request is what the server was asked.
type Request struct {
	Number     int    // of the request on this server, from 0
	Conn       int    // of the connection it came on, from 0
	OnConn     int    // of the request on its connection, from 0
	Path       string // with query
	Header     http.Header
	Body       []byte
	MaxTokens  int    // max_tokens, n_predict or sampling_params.max_new_tokens
	PromptIDs  []int  // when the prompt is a list of ids
	PromptText string // when it is text
}

// Step is one write of an answer.
type Step struct {
	Wait  time.Duration // before it
	Bytes []byte        // none: nothing is written
	Close bool          // the connection is closed after it
	Hang  bool          // nothing more happens until the client closes
}

// Server answers each request with the steps that Answer gives.
type Server struct {
	Answer func(Request) []Step

	mu       sync.Mutex
	requests int
	conns    int
	open     map[net.Conn]bool
	inFlight int
	peak     int
	closed   bool
	listener net.Listener
	wg       sync.WaitGroup
}

// Listen serves on a free port of 127.0.0.1 until Close and returns the URL.
func (s *Server) Listen() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("mock: %w", err)
	}
	s.listener = l
	s.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.serve(conn)
		}
	})
	return "http://" + l.Addr().String(), nil
}

// Dial connects in memory. It is usable where a spec takes a Dial.
func (s *Server) Dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	if !s.serve(server) {
		return nil, errors.New("mock: closed")
	}
	return client, nil
}

// Close closes the listener and all connections, and waits for what served them.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.open {
		c.Close()
	}
	s.mu.Unlock()
	if s.listener != nil {
		s.listener.Close()
	}
	s.wg.Wait()
}

// InFlight is how many requests are being answered now, and the most there ever were.
func (s *Server) InFlight() (now, peak int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inFlight, s.peak
}

// Requests is how many requests have come.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Conns is how many connections have come.
func (s *Server) Conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

func (s *Server) serve(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		conn.Close()
		return false
	}
	if s.open == nil {
		s.open = map[net.Conn]bool{}
	}
	s.open[conn] = true
	number := s.conns
	s.conns++
	s.wg.Go(func() {
		s.talk(conn, number)
		conn.Close()
		s.mu.Lock()
		delete(s.open, conn)
		s.mu.Unlock()
	})
	return true
}

func (s *Server) talk(conn net.Conn, number int) {
	in := bufio.NewReader(conn)
	for n := 0; ; n++ {
		r, err := readRequest(in)
		if err != nil {
			return
		}
		s.mu.Lock()
		r.Number, r.Conn, r.OnConn = s.requests, number, n
		s.requests++
		s.inFlight++
		s.peak = max(s.peak, s.inFlight)
		s.mu.Unlock()
		goOn := play(conn, in, s.Answer(r))
		s.mu.Lock()
		s.inFlight--
		s.mu.Unlock()
		if !goOn {
			return
		}
	}
}

// play writes the steps; false ends the connection.
func play(conn net.Conn, in io.Reader, steps []Step) bool {
	at := time.Now()
	for _, step := range steps {
		at = at.Add(step.Wait) // absolute: a late write does not delay the next
		time.Sleep(time.Until(at))
		if len(step.Bytes) > 0 {
			if _, err := conn.Write(step.Bytes); err != nil {
				return false
			}
		}
		if step.Close {
			return false
		}
		if step.Hang {
			_, _ = io.Copy(io.Discard, in)
			return false
		}
	}
	return true
}

func readRequest(in *bufio.Reader) (Request, error) {
	hr, err := http.ReadRequest(in)
	if err != nil {
		return Request{}, err
	}
	r := Request{Path: hr.URL.RequestURI(), Header: hr.Header}
	if r.Body, err = io.ReadAll(hr.Body); err != nil {
		return r, err
	}
	var b struct {
		MaxTokens int             `json:"max_tokens"`
		NPredict  int             `json:"n_predict"`
		Prompt    json.RawMessage `json:"prompt"`
		IDs       json.RawMessage `json:"input_ids"`
		Text      json.RawMessage `json:"text"`
		Messages  []struct {
			Content string `json:"content"`
		} `json:"messages"`
		Sampling struct {
			Max int `json:"max_new_tokens"`
		} `json:"sampling_params"`
	}
	if err := json.Unmarshal(r.Body, &b); err != nil {
		return r, fmt.Errorf("mock: %w", err)
	}
	r.MaxTokens = max(b.MaxTokens, b.NPredict, b.Sampling.Max)
	for _, raw := range []json.RawMessage{b.Prompt, b.IDs, b.Text} {
		if len(raw) > 0 && json.Unmarshal(raw, &r.PromptIDs) != nil {
			_ = json.Unmarshal(raw, &r.PromptText) // of neither kind: left empty
		}
	}
	if len(b.Messages) > 0 {
		r.PromptText = b.Messages[0].Content
	}
	return r, nil
}

package truth

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// seen is one event as a plain client saw it.
type seen struct {
	sent    int64 // from the event
	at      int64 // Unix ns when its end was read
	number  int   // from the event; −1: an end mark
	kind    Kind
	tokens  int
	finish  string
	counted int // completion tokens as the event counts; −1: it does not
	text    string
}

// answer is what a plain client saw of one request.
type answer struct {
	status int
	begun  int64 // before the request was sent
	events []seen
	body   []byte // of an answer that is no stream
	err    error  // that ended the stream
	closes bool
}

// post sends a request over a client of its own and reads the answer, trusting that it is well formed.
func post(t *testing.T, url, body, plan string) answer {
	t.Helper()
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	return postOver(t, &http.Client{Transport: transport, Timeout: 20 * time.Second}, url, body, plan)
}

func postOver(t *testing.T, client *http.Client, url, body, plan string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if plan != "" {
		req.Header.Set("X-Truth", plan)
	}
	a := answer{begun: time.Now().UnixNano()}
	resp, err := client.Do(req)
	if err != nil {
		a.err = err
		return a
	}
	defer resp.Body.Close()
	a.status, a.closes = resp.StatusCode, resp.Close
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		a.body, a.err = io.ReadAll(resp.Body)
		return a
	}
	in := bufio.NewReader(resp.Body)
	var data []byte
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			if err != io.EOF {
				a.err = err
			}
			return a
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		if rest, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			data = rest
		} else if len(line) == 0 {
			a.events = append(a.events, look(t, data))
		}
	}
}

// look reads one event with the standard library's JSON.
func look(t *testing.T, data []byte) seen {
	t.Helper()
	e := seen{at: time.Now().UnixNano(), number: -1, kind: Done, counted: -1}
	if string(data) == "[DONE]" {
		return e
	}
	var ok bool
	if e.sent, e.number, ok = Stamp(data); !ok {
		t.Fatalf("no stamp in %s", data)
	}
	var v struct {
		Choices []struct {
			Text  *string `json:"text"`
			Delta struct {
				Role      string  `json:"role"`
				Content   *string `json:"content"`
				Reasoning *string `json:"reasoning_content"`
			} `json:"delta"`
			Finish *string `json:"finish_reason"`
		} `json:"choices"`
		Usage *struct {
			Completion int `json:"completion_tokens"`
		} `json:"usage"`
		Text *string `json:"text"`
		Meta *struct {
			Completion int `json:"completion_tokens"`
			Finish     *struct {
				Type string `json:"type"`
			} `json:"finish_reason"`
		} `json:"meta_info"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	switch {
	case v.Meta != nil:
		e.text, e.counted = *v.Text, v.Meta.Completion
		if v.Meta.Finish != nil {
			e.finish = v.Meta.Finish.Type
		}
	case len(v.Choices) == 0:
		e.kind = Usage
	default:
		c := v.Choices[0]
		for _, s := range []*string{c.Text, c.Delta.Content, c.Delta.Reasoning} {
			if s != nil {
				e.text = *s
			}
		}
		if c.Finish != nil {
			e.finish = *c.Finish
		}
		e.kind = Content
		switch {
		case c.Delta.Reasoning != nil:
			e.kind = Reasoning
		case e.text == "" && c.Delta.Role != "":
			e.kind = Role
		case e.text == "":
			e.kind = Empty
		}
	}
	if v.Meta != nil {
		e.kind = Content
	}
	if v.Usage != nil {
		e.counted = v.Usage.Completion
	}
	e.tokens = strings.Count(e.text, " ")
	return e
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, b)
}

func listen(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

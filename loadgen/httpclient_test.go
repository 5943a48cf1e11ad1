package loadgen

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"sweep/loadgen/mock"
)

// streamHandler answers as a mock does, through the standard library's server.
func streamHandler(protocols map[string]int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		protocols[r.Proto]++
		w.Header().Set("Content-Type", "text/event-stream")
		for _, s := range mock.Stream(mock.Request{MaxTokens: 5, PromptIDs: make([]int, 8)}, mock.Timing{Gap: time.Millisecond}) {
			time.Sleep(s.Wait)
			body := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(string(s.Bytes), mock.Head), mock.Last), "\r\n", "\n")
			for line := range strings.SplitSeq(body, "\n") { // without the framing of chunks
				if data, ok := strings.CutPrefix(line, "data: "); ok {
					fmt.Fprintf(w, "data: %s\n\n", data)
				}
			}
			w.(http.Flusher).Flush()
		}
	}
}

// TLS, HTTP/2 and proxies are served too, and the result says that its stamps are the client's own.
func TestCompatiblePaths(t *testing.T) {
	for _, c := range []struct{ client, protocol string }{{ClientConn, "HTTP/1.1"}, {"", "HTTP/1.1"}, {ClientHTTP, "HTTP/2.0"}} {
		protocols := map[string]int{}
		server := httptest.NewUnstartedServer(streamHandler(protocols))
		server.EnableHTTP2 = true
		server.StartTLS()
		spec := testSpec(&mock.Server{}, 1)
		spec.URL, spec.Dial, spec.Client, spec.Warmup = server.URL, nil, c.client, Warmup{}
		spec.TLS = server.Client().Transport.(*http.Transport).TLSClientConfig
		spec.Window = Window{Max: time.Minute, Requests: map[string]int{"short": 6}, Exactly: true}
		res, err := Run(t.Context(), spec)
		server.Close()
		if err != nil || res.Completed != 6 || protocols[c.protocol] != 6 || res.Stamps != StampsUser || res.Client == ClientEpoll || len(res.Notes) == 0 || !strings.Contains(res.Notes[0], "stamped only after") {
			t.Errorf("%+v: %v, %d completed (%s), protocols %v, client %s, notes %q", c, err, res.Completed, res.FirstFailure, protocols, res.Client, res.Notes)
		}
	}
	spec := Spec{URL: "https://127.0.0.1:1", Client: ClientEpoll, Route: "/v1/completions"}
	if _, err := Run(t.Context(), spec); err == nil {
		t.Error("the path over epoll speaks TLS")
	}
}

// A proxy that the environment names is used.
func TestProxy(t *testing.T) {
	protocols, through := map[string]int{}, 0
	server := httptest.NewServer(streamHandler(protocols))
	defer server.Close()
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		through++
		r.SetURL(target)
	}}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // the answer may begin before the last read of the request's body
		forward.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	proxyURL, _ := url.Parse(proxy.URL)
	spec := testSpec(&mock.Server{}, 1)
	spec.URL, spec.Dial, spec.Client, spec.Warmup = "http://models.example:8000", nil, ClientHTTP, Warmup{}
	spec.Window = Window{Max: time.Minute, Requests: map[string]int{"short": 4}, Exactly: true}
	r, err := newRun(spec)
	if err != nil {
		t.Fatal(err)
	}
	// The library reads the environment once in a process, so the test names the proxy itself.
	r.path.(*connPath).transport.Proxy = http.ProxyURL(proxyURL)
	res, err := r.do(t.Context())
	if err != nil || res.Completed != 4 || through != 4 || res.Client != ClientHTTP {
		t.Errorf("%v, %d completed (%s), %d through the proxy", err, res.Completed, res.FirstFailure, through)
	}
}

package engine

import "strings"

// The kinds of requests in an access log. A probe says that the HTTP server lives, a generation that the engine does.
const (
	pathGenerate = "generate"
	pathProbe    = "probe"
	pathOther    = "other"
)

// access reads the line of an answered request: 127.0.0.1:38420 - "POST /generate HTTP/1.1" 200 OK, and
// llama-server's "done request: POST /v1/chat/completions 127.0.0.1 200".
func access(line string) (kind string, status float64, ok bool) {
	if _, after, ok0 := strings.Cut(line, "done request: "); ok0 {
		words := strings.Fields(after)
		if len(words) != 4 {
			return "", 0, false
		}
		return requestKind(words[0], words[1]), statusOf(words[3]), true
	}
	proto := strings.Index(line, " HTTP/")
	if proto < 0 {
		return "", 0, false
	}
	open := strings.LastIndexByte(line[:proto], '"')
	shut := strings.Index(line[proto:], `" `)
	if open < 0 || shut < 0 || shut > 12 {
		return "", 0, false
	}
	method, path, found := strings.Cut(line[open+1:proto], " ")
	rest := line[proto+shut+2:]
	if !found || len(rest) < 3 || len(method) > 8 {
		return "", 0, false
	}
	status = statusOf(rest[:3])
	return requestKind(method, path), status, status > 0
}

func statusOf(text string) float64 {
	if len(text) != 3 {
		return 0
	}
	v, _ := decimal(text)
	return v
}

func requestKind(method, path string) string {
	path, _, _ = strings.Cut(path, "?")
	switch {
	case method == "POST" && (strings.HasSuffix(path, "/completions") || strings.HasSuffix(path, "/generate") || strings.HasSuffix(path, "/completion") ||
		strings.HasSuffix(path, "/messages") || strings.HasSuffix(path, "/responses") || strings.HasSuffix(path, "/infill")):
		return pathGenerate
	case method == "GET":
		return pathProbe
	}
	return pathOther
}

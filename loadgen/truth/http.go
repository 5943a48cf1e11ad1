package truth

import (
	"bytes"
	"errors"
	"strconv"
)

var errRequest = errors.New("not an HTTP/1.1 request")

// incoming is one HTTP request. The slices point into the bytes it was read from.
type incoming struct {
	method, path, query []byte
	id                  []byte // X-Request-Id
	plan                []byte // X-Truth
	body                []byte
	close               bool // the client wants the connection closed
	expects             bool // the client waits for 100 Continue
}

var crlf = []byte("\r\n")

// readRequest reads one request from the beginning of b. used is 0 while more is needed; r.expects is then already
// known when the head is whole.
func readRequest(b []byte) (r incoming, used int, err error) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		if len(b) > 64<<10 {
			return r, 0, errRequest
		}
		return r, 0, nil
	}
	line, rest, _ := bytes.Cut(b[:end], crlf)
	method, target, ok := bytes.Cut(line, []byte(" "))
	target, version, ok2 := bytes.Cut(target, []byte(" "))
	if !ok || !ok2 || !bytes.HasPrefix(version, []byte("HTTP/1.")) {
		return r, 0, errRequest
	}
	r.method = method
	r.path, r.query, _ = bytes.Cut(target, []byte("?"))
	for bytes.HasPrefix(r.path, []byte("//")) { // a base URL that ended in a slash
		r.path = r.path[1:]
	}
	length, chunked := 0, false
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, crlf)
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case is(name, "content-length"):
			if length, err = strconv.Atoi(string(value)); err != nil || length < 0 {
				return r, 0, errRequest
			}
		case is(name, "transfer-encoding"):
			chunked = is(value, "chunked")
		case is(name, "x-request-id"):
			r.id = value
		case is(name, "x-truth"):
			r.plan = value
		case is(name, "connection"):
			r.close = is(value, "close")
		case is(name, "expect"):
			r.expects = true
		}
	}
	start := end + 4
	if chunked {
		var n int
		if r.body, n, err = readChunks(b[start:]); n == 0 || err != nil {
			return r, 0, err
		}
		return r, start + n, nil
	}
	if length > len(b)-start {
		return r, 0, nil
	}
	r.body = b[start : start+length]
	return r, start + length, nil
}

// is compares a header's name or value without regard to case.
func is(b []byte, lower string) bool {
	return len(b) == len(lower) && bytes.EqualFold(b, []byte(lower))
}

// readChunks reads a chunked body; used is 0 while more is needed.
func readChunks(b []byte) (body []byte, used int, err error) {
	for i := 0; ; {
		n := bytes.Index(b[i:], crlf)
		if n < 0 {
			return nil, 0, nil
		}
		text, _, _ := bytes.Cut(b[i:i+n], []byte(";"))
		size, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 16, 31)
		if err != nil {
			return nil, 0, errRequest
		}
		i += n + 2
		if len(b)-i < int(size)+2 {
			return nil, 0, nil
		}
		body = append(body, b[i:i+int(size)]...)
		i += int(size) + 2
		if size == 0 {
			return body, i, nil
		}
	}
}

// call is what the body of a request for a completion asks.
type call struct {
	stream     bool
	usage      bool // counts in an event of their own
	continuous bool // counts in each event
	tokens     int  // 0: not said
	prompt     int  // tokens: ids, or words of a text
	plan       []byte
}

// readCall scans a body for the few fields that matter. A quote inside a JSON string is escaped, so that a key with
// its quotes is not met inside of a text.
func readCall(body []byte) call {
	c := call{
		stream:     bytes.HasPrefix(field(body, `"stream"`), []byte("true")),
		usage:      bytes.HasPrefix(field(body, `"include_usage"`), []byte("true")),
		continuous: bytes.HasPrefix(field(body, `"continuous_usage_stats"`), []byte("true")),
	}
	for _, key := range []string{`"max_tokens"`, `"max_completion_tokens"`, `"max_new_tokens"`} {
		if n := leadingInt(field(body, key)); n > 0 {
			c.tokens = n
			break
		}
	}
	for _, key := range []string{`"prompt"`, `"input_ids"`, `"text"`, `"content"`} {
		if v := field(body, key); len(v) > 0 {
			c.prompt = countPrompt(v)
			break
		}
	}
	if v := field(body, `"truth"`); len(v) > 0 && v[0] == '{' {
		if end := bytes.IndexByte(v, '}'); end > 0 {
			c.plan = v[:end+1]
		}
	}
	return c
}

// field gives the bytes from the value of the first such key on; nil: there is none.
func field(body []byte, quoted string) []byte {
	for from := 0; ; {
		i := bytes.Index(body[from:], []byte(quoted))
		if i < 0 {
			return nil
		}
		from += i + len(quoted)
		v := bytes.TrimLeft(body[from:], " \t\r\n")
		if len(v) > 0 && v[0] == ':' {
			return bytes.TrimLeft(v[1:], " \t\r\n")
		}
	}
}

func leadingInt(b []byte) int {
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' || n > maxTokens {
			break
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// countPrompt counts a list of ids, or the words of a text. A word is what a space precedes: each of the words that an
// answer holds is one token by this rule.
func countPrompt(v []byte) int {
	switch v[0] {
	case '[':
		v = v[1:]
		if len(v) > 0 && v[0] == '[' { // a batch of one
			v = v[1:]
		}
		end := bytes.IndexByte(v, ']')
		if end < 0 || len(bytes.TrimSpace(v[:end])) == 0 {
			return 0
		}
		return bytes.Count(v[:end], []byte(",")) + 1
	case '"':
		v = v[1:]
		end := bytes.IndexByte(v, '"')
		for end > 0 && v[end-1] == '\\' {
			next := bytes.IndexByte(v[end+1:], '"')
			if next < 0 {
				break
			}
			end += 1 + next
		}
		if end <= 0 {
			return 0
		}
		return bytes.Count(bytes.TrimLeft(v[:end], " "), []byte(" ")) + 1
	}
	return 0
}

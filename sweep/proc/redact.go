package proc

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/url"
	"strings"
)

// MinSecret is the length in bytes from which a secret is looked for; shorter values would tear
// holes into every line.
const MinSecret = 6

// redacted stands where a secret was.
const redacted = "[redacted]"

// Redactor passes bytes on to a writer without the secrets in them: the given values, as they are and
// as URLs, JSON and base64 hold them, and what looks like a credential (api_key=…, Bearer …, hf_…,
// sk-…, user:password@host). It works on a stream: where the writes are cut makes no difference. Bytes
// that may be the beginning of a secret are held back until the next ones tell; they are never more
// than the longest secret, or some 250 bytes.
type Redactor struct {
	w     io.Writer
	exact [256][][]byte // by first byte
	try   [256]bool     // bytes at which something may begin

	held   []byte // not yet decided
	prev   byte   // the byte before held
	cover  int    // bytes from held[0] on that belong to a known secret
	keep   int    // bytes from held[0] on that belong to a trigger and stay; then the value begins
	value  value  // what is being dropped after a trigger
	marked bool   // the bytes dropped last have their mark
	out    []byte
}

// NewRedactor writes to w what is written to it, without the given values and without what looks
// like a credential. Close flushes what was held back; it does not close w.
func NewRedactor(w io.Writer, secrets []string) *Redactor {
	r := &Redactor{w: w}
	for _, c := range triggerBytes {
		r.try[c] = true
	}
	seen := map[string]bool{}
	for _, secret := range secrets {
		for _, form := range forms(secret) {
			if len(form) >= MinSecret && !seen[form] {
				seen[form] = true
				r.exact[form[0]] = append(r.exact[form[0]], []byte(form))
				r.try[form[0]] = true
			}
		}
	}
	return r
}

// forms are the ways in which a secret may be written down.
func forms(secret string) []string {
	secret = strings.TrimSpace(secret)
	if len(secret) < MinSecret {
		return nil
	}
	quoted, _ := json.Marshal(secret)
	all := []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), string(quoted[1 : len(quoted)-1]),
		base64.RawStdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
	}
	for line := range strings.Lines(secret) { // a key of several lines may be printed line by line
		if line = strings.TrimSpace(line); len(line) >= 16 {
			all = append(all, line)
		}
	}
	return all
}

// Write implements [io.Writer].
func (r *Redactor) Write(p []byte) (int, error) {
	r.held = append(r.held, p...)
	r.run(false)
	if err := r.flush(); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes out what was held back.
func (r *Redactor) Close() error {
	r.run(true)
	return r.flush()
}

func (r *Redactor) flush() error {
	if len(r.out) == 0 {
		return nil
	}
	_, err := r.w.Write(r.out)
	r.out = r.out[:0]
	return err
}

// run decides byte by byte, as far as the bytes at hand allow.
func (r *Redactor) run(final bool) {
	b, i := r.held, 0
	for i < len(b) {
		if n := r.plain(b, i); n > 0 {
			r.out = append(r.out, b[i:i+n]...)
			r.marked = false
			i += n
			continue
		}
		n, more := r.exactAt(b[i:], final)
		if more {
			break
		}
		r.cover = max(r.cover, i+n)
		drop, wait := r.decide(b, i, final)
		if wait {
			break
		}
		switch {
		case !drop:
			r.out = append(r.out, b[i])
			r.marked = false
		case !r.marked:
			r.out = append(r.out, redacted...)
			r.marked = true
		}
		i++
	}
	if i > 0 {
		r.prev = b[i-1]
	}
	r.cover, r.keep = max(0, r.cover-i), max(0, r.keep-i)
	r.held = append(r.held[:0], b[i:]...)
}

// plain is the number of bytes from i on at which nothing can begin while nothing is being dropped.
func (r *Redactor) plain(b []byte, i int) int {
	if i < r.cover || i < r.keep || r.value.kind != noValue {
		return 0
	}
	n := 0
	for i+n < len(b) && !r.try[b[i+n]] {
		n++
	}
	return n
}

// exactAt is the length of the longest known secret that b begins with; more says that further bytes
// may make it longer. At the end of the stream a part of a secret is as good as the whole.
func (r *Redactor) exactAt(b []byte, final bool) (n int, more bool) {
	for _, s := range r.exact[b[0]] {
		switch {
		case bytes.HasPrefix(b, s):
			n = max(n, len(s))
		case !bytes.HasPrefix(s, b):
		case !final:
			more = true
		case len(b) >= MinSecret:
			n = len(b)
		}
	}
	return n, more
}

// decide says whether the byte at i is dropped, or that it takes more bytes to tell.
func (r *Redactor) decide(b []byte, i int, final bool) (drop, wait bool) {
	switch {
	case i < r.keep:
		return i < r.cover, false
	case r.value.kind != noValue && !r.value.ends(b[i]):
		return true, false
	case r.value.kind != noValue:
		r.value = value{}
	}
	if i < r.cover {
		return true, false
	}
	prev := r.prev
	if i > 0 {
		prev = b[i-1]
	}
	t, v := triggerAt(prev, b[i:], final)
	if v == found {
		r.keep, r.value = i+t.keep, t.value
	}
	return false, v == unsure
}

// Redact is a whole text without its secrets.
func Redact(text string, secrets []string) string {
	var b strings.Builder
	r := NewRedactor(&b, secrets)
	_, _ = io.WriteString(r, text) // a strings.Builder takes everything
	_ = r.Close()
	return b.String()
}

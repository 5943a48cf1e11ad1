package proc

import (
	"bytes"
	"strings"
)

// valueKind says how far the value after a trigger goes. Every value ends at the end of its line.
type valueKind int

const (
	noValue  valueKind = iota
	word               // to white space or punctuation
	quoted             // to the quote that opened it
	escaped            // to the next backslash: a quoted value inside a quoted text
	token              // letters, digits and what tokens hold besides
	password           // to the @ of user:password@host
)

// value is the state of a value that is being dropped.
type value struct {
	kind  valueKind
	quote byte
	slash bool // the byte before was a backslash
}

// ends reports whether the value ends before c.
func (v *value) ends(c byte) bool {
	if c == '\n' || c == '\r' {
		return true
	}
	switch v.kind {
	case quoted:
		slash := v.slash
		v.slash = c == '\\' && !slash
		return c == v.quote && !slash
	case escaped:
		return c == '\\'
	case token:
		return !tokenByte(c)
	case password:
		return c == '@'
	}
	return wordEnd(c)
}

func wordEnd(c byte) bool { return c <= ' ' || strings.IndexByte(`,;&'"\)]}<>`, c) >= 0 }

func alnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func tokenByte(c byte) bool { return alnum(c) || strings.IndexByte("-._~+/=", c) >= 0 }

// verdict of looking for a trigger.
type verdict int

const (
	none   verdict = iota
	unsure         // the bytes at hand may be the beginning of one
	found
)

// trigger is text after which a secret value begins.
type trigger struct {
	keep  int // bytes of the trigger, which stay
	value value
}

// tokenPrefixes begin tokens whose makers gave them a form, with the least length of the rest.
var tokenPrefixes = []struct {
	text string
	min  int
}{
	{"hf_", 16}, {"sk-", 16}, {"nvapi-", 16}, {"ghp_", 20}, {"github_pat_", 20}, {"glpat-", 16},
}

// keyNames are names of values that are secret whatever they look like. They are compared without
// regard to case, with "_" for "-".
var keyNames = []string{
	"api_key", "apikey", "access_token", "auth_token", "hf_token", "hub_token", "secret_key",
	"secret_access_key", "client_secret", "password", "passwd",
}

// notSecret are values that say that there is none.
var notSecret = []string{"None", "null", "True", "False", "true", "false", "***"}

// triggerBytes are those with which a trigger can begin.
const triggerBytes = ":hsngbBaAHScCpP"

const (
	bearer    = "bearer "
	bearerMin = 8
	maxUser   = 64
	maxPass   = 128
)

// triggerPairs holds the first two bytes of every trigger. It rules out nearly all words at once.
var triggerPairs = func() *[256][256]bool {
	var pairs [256][256]bool
	pairs[':']['/'] = true
	add := func(text string, fold bool) {
		for _, a := range cases(text[0], fold) {
			for _, b := range cases(text[1], fold) {
				pairs[a][b] = true
			}
		}
	}
	for _, p := range tokenPrefixes {
		add(p.text, false)
	}
	for _, name := range append([]string{bearer}, keyNames...) {
		add(name, true)
	}
	return &pairs
}()

// cases is a byte, and with fold the other byte that is compared as the same.
func cases(c byte, fold bool) []byte {
	switch {
	case fold && c >= 'a' && c <= 'z':
		return []byte{c, c - 'a' + 'A'}
	case fold && c == '_':
		return []byte{c, '-'}
	}
	return []byte{c}
}

// triggerAt looks for a trigger at the beginning of b; prev is the byte before it. At the end of the
// stream nothing is unsure. The candidates are asked in one order and the first that is not ruled
// out decides, so that the result does not hang on how many bytes are at hand.
func triggerAt(prev byte, b []byte, final bool) (trigger, verdict) {
	stands := func(v verdict) bool { return v == found || v == unsure && !final }
	if len(b) > 1 && !triggerPairs[b[0]][b[1]] {
		return trigger{}, none
	}
	if b[0] == ':' {
		if t, v := userinfo(b); stands(v) {
			return t, v
		}
		return trigger{}, none
	}
	if alnum(prev) {
		return trigger{}, none
	}
	for _, p := range tokenPrefixes {
		if v := prefixed(b, p.text, p.min, false); stands(v) {
			return trigger{len(p.text), value{kind: token}}, v
		}
	}
	if v := prefixed(b, bearer, bearerMin, true); stands(v) {
		return trigger{len(bearer), value{kind: token}}, v
	}
	for _, name := range keyNames {
		if t, v := keyed(prev, b, name); stands(v) {
			return t, v
		}
	}
	return trigger{}, none
}

// prefixed looks for text and then at least n bytes of a token.
func prefixed(b []byte, text string, n int, fold bool) verdict {
	for i := range len(text) + n {
		if i == len(b) {
			return unsure
		}
		switch {
		case i >= len(text):
			if !tokenByte(b[i]) {
				return none
			}
		case fold && lower(b[i]) != text[i], !fold && b[i] != text[i]:
			return none
		}
	}
	return found
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// keyed looks for a name, the sign that gives it a value, and a value: api_key=x, "api_key": "x",
// '--api-key', 'x', --api-key x.
func keyed(prev byte, b []byte, name string) (trigger, verdict) {
	for i := range len(name) {
		if i == len(b) {
			return trigger{}, unsure
		}
		if c := lower(b[i]); c != name[i] && !(name[i] == '_' && c == '-') {
			return trigger{}, none
		}
	}
	c := cursor{b: b, at: len(name)}
	closed := c.quote()
	gap := c.spaces()
	switch {
	case c.take("="), c.take(":"):
	case closed != 0 && c.take(","):
	case closed == 0 && prev == '-' && gap > 0: // an option and its value
	default:
		return trigger{}, c.verdict(none)
	}
	c.spaces()
	v := value{kind: word}
	switch q := c.quote(); {
	case q == '\\':
		v.kind = escaped
	case q != 0:
		v = value{kind: quoted, quote: q}
	}
	if c.over() || c.nothing() {
		return trigger{}, c.verdict(none)
	}
	if first := c.b[c.at]; v.kind == word && wordEnd(first) || v.ends(first) {
		return trigger{}, none
	}
	v.slash = false
	return trigger{c.at, v}, found
}

// userinfo looks for "://user:" before "password@".
func userinfo(b []byte) (trigger, verdict) {
	c := cursor{b: b}
	if !c.take("://") {
		return trigger{}, c.verdict(none)
	}
	plain := func(b byte) bool { return b > ' ' && strings.IndexByte(`/@'"`, b) < 0 }
	c.run(maxUser, func(b byte) bool { return plain(b) && b != ':' })
	if !c.take(":") {
		return trigger{}, c.verdict(none)
	}
	keep := c.at
	n := c.run(maxPass, plain)
	if n == 0 || !c.take("@") {
		return trigger{}, c.verdict(none)
	}
	return trigger{keep, value{kind: password}}, found
}

// cursor reads a trigger; short notes that the bytes at hand were not enough to tell.
type cursor struct {
	b     []byte
	at    int
	short bool
}

// verdict is v unless more bytes could change it.
func (c *cursor) verdict(v verdict) verdict {
	if c.short {
		return unsure
	}
	return v
}

func (c *cursor) over() bool {
	c.short = c.short || c.at >= len(c.b)
	return c.at >= len(c.b)
}

// take goes past text if it comes next.
func (c *cursor) take(text string) bool {
	rest := c.b[c.at:]
	if bytes.HasPrefix(rest, []byte(text)) {
		c.at += len(text)
		return true
	}
	c.short = c.short || len(rest) < len(text) && text[:len(rest)] == string(rest)
	return false
}

// run goes past at most n bytes that ok holds for.
func (c *cursor) run(n int, ok func(byte) bool) int {
	from := c.at
	for c.at-from < n && !c.over() && ok(c.b[c.at]) {
		c.at++
	}
	return c.at - from
}

func (c *cursor) spaces() int { return c.run(4, func(b byte) bool { return b == ' ' || b == '\t' }) }

// quote goes past a quote and gives it; a quote after a backslash gives the backslash.
func (c *cursor) quote() byte {
	for _, q := range []string{`'`, `"`, `\'`, `\"`} {
		if c.take(q) {
			return q[0]
		}
	}
	return 0
}

// nothing reports whether the value says that there is no secret.
func (c *cursor) nothing() bool {
	for _, s := range notSecret {
		if !c.take(s) {
			continue
		}
		c.at -= len(s)
		if c.at+len(s) == len(c.b) {
			c.short = true
			return true
		}
		if wordEnd(c.b[c.at+len(s)]) {
			return true
		}
	}
	return c.short
}

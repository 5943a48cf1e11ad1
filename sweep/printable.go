package sweep

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable makes text from a server, a host or a file safe for a terminal or a document: control
// characters, escape sequences, bidirectional marks and invalid UTF-8 become visible escapes. A
// newline or tab becomes a space.
func Printable(s string) string {
	if !strings.ContainsFunc(s, unsafeRune) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteByte(' ')
		case unsafeRune(r) && r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case unsafeRune(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// unsafeRune reports control and format characters: C0, C1, DEL, bidirectional and invisible marks.
func unsafeRune(r rune) bool {
	if ' ' <= r && r < 0x7f || 0x2500 <= r && r < 0x2600 { // what most text is made of, and the blocks of a progress bar
		return false
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

// PrintableField makes a text printable for a CSV file: an apostrophe stands before one that a spreadsheet would run as a formula, be it
// after spaces, which spreadsheets show as text. A number stays one.
func PrintableField(s string) string {
	s = Printable(s)
	bare := strings.TrimLeft(s, " ")
	if _, err := strconv.ParseFloat(s, 64); err != nil && bare != "" && strings.ContainsRune("=+-@", rune(bare[0])) {
		return "'" + s
	}
	return s
}

// PrintableJSON writes characters of JSON text that a terminal would obey as JSON's own escapes. The values stay what they are, so that a
// program reads what the server said and a person's terminal does not. [json.Marshal] itself does so below U+0020 only.
func PrintableJSON(data []byte) []byte {
	unsafe := func(r rune) bool { return r != '\n' && unsafeRune(r) }
	if !bytes.ContainsFunc(data, unsafe) {
		return data
	}
	out := make([]byte, 0, len(data)+64)
	for _, r := range string(data) {
		switch {
		case !unsafe(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// EscapeMarkdown makes printable text stand for itself in a Markdown line or cell.
func EscapeMarkdown(s string) string {
	var b strings.Builder
	runes := []rune(s)
	for i, r := range runes {
		switch {
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '&':
			b.WriteString("&amp;")
		case r == '\n':
			b.WriteString("<br>")
		case slices.Contains([]rune("\\|*`[]~#"), r), r == '_' && wordEdge(runes, i):
			b.WriteRune('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// wordEdge reports an underscore that is not inside a word, where it would begin or end emphasis.
func wordEdge(runes []rune, i int) bool {
	inWord := func(j int) bool {
		return j >= 0 && j < len(runes) && (runes[j] >= '0' && runes[j] <= '9' || runes[j] >= 'a' && runes[j] <= 'z' || runes[j] >= 'A' && runes[j] <= 'Z')
	}
	return !inWord(i-1) || !inWord(i+1)
}

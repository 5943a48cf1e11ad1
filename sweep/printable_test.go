package sweep

import "testing"

func TestPrintable(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"plain · ± text", "plain · ± text"},
		{"a\nb\tc\rd", "a b c d"},
		{"\x1b]52;c;aGk=\a", `\x1b]52;c;aGk=\x07`},
		{"\u009b31m", `\x9b31m`},
		{"bad\xff", `bad\xff`},
		{"a\u202eb", `a\u202eb`},
	} {
		if got := Printable(test.in); got != test.want {
			t.Errorf("Printable(%q) = %q, want %q", test.in, got, test.want)
		}
	}
}

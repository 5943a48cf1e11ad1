package sweep

import "strings"

// ShellLine is a command line that a POSIX shell reads back as argv.
func ShellLine(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = ShellWord(w)
	}
	return strings.Join(words, " ")
}

// ShellWord is w as one word for a POSIX shell.
func ShellWord(w string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@%+", r)
	}
	if w != "" && !strings.ContainsFunc(w, func(r rune) bool { return !plain(r) }) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

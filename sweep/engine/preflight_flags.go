package engine

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"sweep/sweep"
)

// Flags are the flags that a server's own help lists, without their dashes.
type Flags struct {
	Known   []string            `json:"known"`
	Choices map[string][]string `json:"choices,omitempty"` // of flags that take one of a few words
}

// FlagProblem is a setting that the server does not take.
type FlagProblem struct {
	Flag   string // as in the grid, or the flag that sweep adds
	Text   string // what is wrong, one sentence without a full stop
	Remedy string // what would be right; may be empty
	Vague  bool   // the server takes it today: an abbreviation
}

var (
	// A line that defines flags: "  --tensor-parallel-size TP_SIZE, --tp-size TP_SIZE" or "-c,    --ctx-size N". What is
	// said of them stands further to the right.
	definition = regexp.MustCompile(`^ {0,8}-{1,2}[A-Za-z]`)
	// The columns before the description, which begins after two spaces at least.
	usageFlag  = regexp.MustCompile(`\[(--[A-Za-z][\w.-]*)`)
	flagWord   = regexp.MustCompile(`(?:^|[\s,|])(-{1,2}[A-Za-z][\w.-]*)`)
	flagChoice = regexp.MustCompile(`-{1,2}([A-Za-z][\w.-]*) \{([^{}\s]+)\}`)
)

// leastFlags is how many flags a help must list to be believed: fewer, and it is the help of something else.
const leastFlags = 20

// ParseHelp reads the flags out of what a server prints for --help. ok is false when that is no list of flags.
func ParseHelp(text string) (f Flags, ok bool) {
	known := map[string]bool{}
	f.Choices = map[string][]string{}
	note := func(flag string) { known[strings.TrimLeft(flag, "-")] = true }
	for line := range strings.Lines(text) {
		for _, m := range usageFlag.FindAllStringSubmatch(line, -1) {
			note(m[1])
		}
		if !definition.MatchString(line) {
			continue
		}
		for _, m := range flagWord.FindAllStringSubmatch(names(line), -1) {
			note(m[1])
		}
		for _, m := range flagChoice.FindAllStringSubmatch(line, -1) {
			f.Choices[m[1]] = strings.Split(m[2], ",")
		}
	}
	f.Known = slices.Sorted(maps.Keys(known))
	return f, len(f.Known) >= leastFlags
}

// names is the part of a defining line before the description.
func names(line string) string {
	line = strings.TrimSpace(line)
	for at := 0; ; {
		gap := strings.Index(line[at:], "  ")
		if gap < 0 {
			return line
		}
		rest := strings.TrimLeft(line[at+gap:], " ")
		if !strings.HasPrefix(rest, "-") { // "-c,    --ctx-size N": still names
			return line[:at+gap]
		}
		at = len(line) - len(rest)
	}
}

// CheckFlags holds the settings of one config, and what the engine adds to them, against the server's own list.
func CheckFlags(e *sweep.Engine, f Flags, settings []sweep.Setting) []FlagProblem {
	argv := e.Argv(sweep.ServerSpec{Model: "model", ServedName: "name", Host: "host", Port: 1, Settings: settings})
	var problems []FlagProblem
	of := map[string]bool{}
	for _, s := range settings {
		of[s.Name] = true
		if !slices.Contains(argv, "--"+s.Name) && !slices.Contains(argv, "-"+s.Name) {
			continue // it stands for no flag
		}
		if p := f.check(e, s); p != nil && !slices.ContainsFunc(problems, func(o FlagProblem) bool { return o.Flag == p.Flag }) {
			problems = append(problems, *p)
		}
	}
	for _, word := range argv {
		name := strings.TrimPrefix(word, "--")
		if strings.HasPrefix(word, "--") && !of[name] && !f.has(e, name) {
			problems = append(problems, FlagProblem{Flag: name, Text: fmt.Sprintf("sweep starts %s with --%s, which this server does not know", e.Name, name),
				Remedy: "check that the command is " + e.Name + ", and one of a version that sweep knows"})
		}
	}
	return problems
}

// spelled is a flag's name as the server reads it: all but SGLang take _ for -, and vLLM reads the members of
// a JSON value as --flag.member.
func spelled(e *sweep.Engine, name string) string {
	if e.Name == "sglang" {
		return name
	}
	name, _, _ = strings.Cut(name, ".")
	return strings.ReplaceAll(name, "_", "-")
}

func (f Flags) has(e *sweep.Engine, name string) bool {
	_, found := slices.BinarySearch(f.Known, spelled(e, name))
	return found
}

func (f Flags) check(e *sweep.Engine, s sweep.Setting) *FlagProblem {
	if f.has(e, s.Name) {
		return f.choice(e, s)
	}
	var begin []string
	for _, k := range f.Known {
		if strings.HasPrefix(k, spelled(e, s.Name)) {
			begin = append(begin, k)
		}
	}
	if len(begin) == 1 && e.Name != "llama.cpp" { // argparse completes it
		return &FlagProblem{Flag: s.Name, Text: fmt.Sprintf("flag %q is an abbreviation, which the next version may read otherwise", s.Name),
			Remedy: "write " + begin[0], Vague: true}
	}
	return &FlagProblem{Flag: s.Name, Text: fmt.Sprintf("%s does not know the flag %q", e.Name, s.Name), Remedy: sweep.DidYouMean(s.Name, f.Known)}
}

// choice holds a value against the words that the flag takes.
func (f Flags) choice(e *sweep.Engine, s sweep.Setting) *FlagProblem {
	words := f.Choices[spelled(e, s.Name)]
	if len(words) == 0 {
		return nil
	}
	for _, v := range s.Values {
		if slices.Contains(words, v) || v == "true" || isOff(v) {
			continue
		}
		remedy := sweep.DidYouMean(v, words)
		if remedy == "" {
			remedy = "it takes " + strings.Join(words[:min(len(words), 12)], ", ")
			if len(words) > 12 {
				remedy += ", …"
			}
		}
		return &FlagProblem{Flag: s.Name, Text: fmt.Sprintf("flag %q of %s takes no %q", s.Name, e.Name, v), Remedy: remedy}
	}
	return nil
}

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

const repository = "../.."

// shown is one command of a document, with what the document says that it prints.
type shown struct {
	line   string
	args   []string // after "sweep"
	into   string   // file that its standard output goes to
	output []string
}

// shownCommands takes the lines "$ sweep …" out of a Markdown text's code blocks.
func shownCommands(text string) []shown {
	var all []shown
	inBlock := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "```") {
			inBlock = !inBlock
			continue
		}
		if !inBlock {
			continue
		}
		command, isCommand := strings.CutPrefix(line, "$ ")
		if !isCommand {
			if len(all) > 0 {
				all[len(all)-1].output = append(all[len(all)-1].output, line)
			}
			continue
		}
		s := shown{line: line}
		command, _, _ = strings.Cut(command, "  #")
		command, s.into, _ = strings.Cut(command, " > ")
		s.args = strings.Fields(strings.Replace(command, "go run ./cmd/sweep", "sweep", 1))
		s.into = strings.TrimSpace(s.into)
		all = append(all, s)
	}
	return all
}

// cheap are the commands that a test of documents runs; of the others it only tries whether their flags exist.
var cheap = []string{"validate", "plan", "help", "version", "completion"}

// TestReadmeCommands: what README.md tells a reader to type can be typed, in that order, and prints what stands there.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(repository, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "grids"), os.DirFS(filepath.Join(repository, "grids"))); err != nil {
		t.Fatal(err)
	}
	commands := shownCommands(string(text))
	if len(commands) < 8 {
		t.Fatalf("only %d commands found", len(commands))
	}
	for _, s := range commands {
		if len(s.args) < 2 || s.args[0] != "sweep" {
			t.Errorf("%s: not a command of ours", s.line)
			continue
		}
		args := s.args[1:]
		run := slices.Contains(cheap, args[0])
		if !run {
			args = append(args, "--help")
		}
		cmd := exec.CommandContext(t.Context(), self, args...)
		var out, said bytes.Buffer
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &said
		if err := cmd.Run(); err != nil || said.Len() > 0 {
			t.Errorf("%s: %v: %s", s.line, err, said.String())
		}
		if s.into != "" {
			if err := os.WriteFile(filepath.Join(dir, s.into), out.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if want := strings.Join(s.output, "\n"); run && want != "" && strings.TrimRight(out.String(), "\n") != want {
			t.Errorf("%s prints\n%swant\n%s", s.line, out.String(), want)
		}
	}
}

// TestDocumentLinks: what the documents link to in this repository is there.
func TestDocumentLinks(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)#:]+)\)`)
	for _, name := range []string{"README.md", "results/README.md"} {
		path := filepath.Join(repository, name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			}
		}
	}
}

var endOfCommand = regexp.MustCompile(` (\||&&|2?>|&|  )( |$)`)

// TestHelpExamples: the examples in each command's help are commands with flags that exist, and each command that a
// person uses has some.
func TestHelpExamples(t *testing.T) {
	t.Parallel()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		noExample := cmd.Hidden || cmd.Run == nil && cmd.RunE == nil || slices.Contains([]string{"version", "help"}, cmd.Name())
		if cmd.Example == "" && !noExample {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			for part := range strings.SplitSeq(endOfCommand.ReplaceAllString(strings.TrimSpace(line)+" ", "\n"), "\n") {
				words := strings.Fields(strings.TrimPrefix(part, "nohup "))
				if len(words) < 2 || words[0] != "sweep" || words[1] == "simulate" {
					continue
				}
				if code, _, stderr := runSweep(t, append(words[1:], "--help")...); code != exitOK || stderr != "" {
					t.Errorf("%s: %q: exit code %d: %s", cmd.CommandPath(), strings.TrimSpace(line), code, stderr)
				}
			}
		}
	}
	walk(newRootCmd(&environ{Getenv: os.Getenv}))
}

package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"sweep/sweep"
	"sweep/sweep/engine"
)

// helpTime bounds one call of a server's --help: SGLang and vLLM import for 10 to 40 s before they print it.
const helpTime = 2 * time.Minute

// helpAge is how long a kept help is believed. A wrapper script may start another version tomorrow, and shows nothing of that.
const helpAge = 24 * time.Hour

// maxHelp bounds what is read of a help, in bytes: the longest known has 192 KiB.
const maxHelp = 4 << 20

// helpCall is one command whose flags are wanted.
type helpCall struct {
	engine  *sweep.Engine
	argv    []string // of the command, resolved
	workdir string
	env     []string // the server's own
	key     []string // what of env is the grid's
	cache   string   // folder of kept helps; empty: none
}

// keptHelp is a help on disk.
type keptHelp struct {
	Argv   []string          `json:"argv"`
	At     time.Time         `json:"at"`
	Stamps map[string]string `json:"stamps"` // of files that a new version changes
	Flags  engine.Flags      `json:"flags"`
}

// kept is the help of this very command and version, if it is on disk.
func (c helpCall) kept() (engine.Flags, bool) {
	var k keptHelp
	if c.cache == "" || readJSON(c.file(), &k) != nil {
		return engine.Flags{}, false
	}
	same := slices.Equal(k.Argv, c.argv) && time.Since(k.At) < helpAge && time.Since(k.At) > -time.Minute && len(k.Flags.Known) > 0
	now := stamps(c.argv)
	for path, stamp := range k.Stamps {
		same = same && now[path] == stamp
	}
	return k.Flags, same && len(now) == len(k.Stamps)
}

func (c helpCall) file() string {
	sum := sha256.New()
	for _, part := range [][]string{c.argv, {c.workdir, c.engine.Name}, c.key} {
		fmt.Fprintf(sum, "%q\n", part)
	}
	return filepath.Join(c.cache, hex.EncodeToString(sum.Sum(nil)[:12])+".json")
}

// ask runs the command for its help, and keeps what it says.
func (c helpCall) ask(ctx context.Context) (engine.Flags, error) {
	before := stamps(c.argv)
	var failed error
	for _, args := range c.engine.Help {
		text, err := c.run(ctx, args)
		flags, ok := engine.ParseHelp(text)
		switch {
		case ok && err == nil:
			c.keep(keptHelp{Argv: c.argv, At: time.Now(), Stamps: before, Flags: flags})
			return flags, nil
		case ctx.Err() != nil:
			return engine.Flags{}, context.Cause(ctx)
		case err == nil:
			err = errors.New("it lists no flags")
		default:
			if lack := lackIn(text); lack != "" {
				return engine.Flags{}, unstartable(lack)
			}
		}
		failed = fmt.Errorf("%s: %w%s", strings.Join(args, " "), err, lastLine(text))
	}
	return engine.Flags{}, failed
}

// unstartable is what a command lacks that could not even print its help: no launch of it can do better.
type unstartable string

// Error implements [error].
func (u unstartable) Error() string { return string(u) }

var (
	noModule  = regexp.MustCompile(`No module named '?([\w.]+)`)
	noLibrary = regexp.MustCompile(`(?:error while loading shared libraries|ImportError): (\S+): cannot open shared object file`)
)

// lackIn names what a failed program says last that it lacks; empty where it says something else.
func lackIn(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	last := lines[len(lines)-1]
	if m := noModule.FindStringSubmatch(last); m != nil {
		return fmt.Sprintf("it has no Python package %s: install that, or name the interpreter that has it", m[1])
	}
	if m := noLibrary.FindStringSubmatch(last); m != nil {
		return fmt.Sprintf("it finds no library %s: install that, or set LD_LIBRARY_PATH under env", m[1])
	}
	return ""
}

// keep writes a help for later runs. One that cannot be kept is asked for again.
func (c helpCall) keep(k keptHelp) {
	if c.cache == "" || os.MkdirAll(c.cache, 0o700) != nil {
		return
	}
	if data, err := json.Marshal(k); err == nil {
		_ = sweep.WriteFile(c.file(), data, 0o600)
	}
}

// run gives what the command prints, standard output before the rest.
func (c helpCall) run(ctx context.Context, args []string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, helpTime, fmt.Errorf("no answer in %v", helpTime))
	defer cancel()
	argv := sweep.Startable(slices.Concat(c.argv, args))
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var stdout, stderr boundedBuffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Dir, cmd.Env = c.workdir, c.env
	cmd.WaitDelay = 5 * time.Second
	ownGroup(cmd)
	err := cmd.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return stdout.String() + "\n" + stderr.String(), err
}

// boundedBuffer keeps the first bytes written to it.
type boundedBuffer struct{ bytes.Buffer }

// Write implements [io.Writer].
func (b *boundedBuffer) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), max(0, maxHelp-b.Len()))])
	return len(p), nil
}

// lastLine is what a program that failed said last.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	if last == "" {
		return ""
	}
	return fmt.Sprintf(" (%.200s)", sweep.Printable(last))
}

// stamps tells versions of a command apart without running it: size and time of the files that it names,
// and of the folders in which its Python keeps packages, which an installation changes.
func stamps(argv []string) map[string]string {
	out := map[string]string{}
	note := func(path string) {
		if info, err := os.Stat(path); err == nil {
			out[path] = fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano())
		}
	}
	for _, word := range argv {
		if filepath.IsAbs(word) {
			note(word)
		}
	}
	for _, python := range append(interpreter(argv[0]), argv[0]) {
		note(python)
		for _, pattern := range []string{filepath.Join(filepath.Dir(python), "..", "lib", "python3*", "*-packages"), "/usr/local/lib/python3*/dist-packages"} {
			dirs, _ := filepath.Glob(pattern) // the pattern is ours; a name that spoils it matches nothing
			for _, dir := range dirs {
				note(dir)
			}
		}
	}
	return out
}

// interpreter is the program that a script names in its first line.
func interpreter(script string) []string {
	f, err := os.Open(script)
	if err != nil {
		return nil
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := f.Read(head) // a short file has a short head
	line, _, _ := bytes.Cut(head[:n], []byte("\n"))
	if rest, ok := bytes.CutPrefix(line, []byte("#!")); ok {
		if words := strings.Fields(string(rest)); len(words) > 0 && filepath.IsAbs(words[0]) {
			return words[:1]
		}
	}
	return nil
}

// flagProblems holds a job's settings against the help of its command. What a kept help does not know is
// asked again: it may be of yesterday's version. known is false when there is no help to go by.
func (c helpCall) flagProblems(ctx context.Context, settings []sweep.Setting, flags engine.Flags, fresh bool) (problems []engine.FlagProblem, now engine.Flags, err error) {
	problems = engine.CheckFlags(c.engine, flags, settings)
	if fresh || !slices.ContainsFunc(problems, func(p engine.FlagProblem) bool { return !p.Vague }) {
		return problems, flags, nil
	}
	if now, err = c.ask(ctx); err != nil {
		return nil, flags, err
	}
	return engine.CheckFlags(c.engine, now, settings), now, nil
}

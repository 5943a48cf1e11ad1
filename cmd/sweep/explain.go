package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"sweep/loadgen"
	"sweep/sweep"
	"sweep/sweep/engine"
)

func newExplainCmd(env *environ) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Say what a server's log or a captured answer tells",
		Long: `explain reads what you have of a server that went wrong (or right) and says what it tells, by the same rules
as a night does. It needs no night, no GPU and no server.`,
		Example: `  sweep explain log server.log
  sweep explain stream answer.sse --api openai-chat`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newExplainLogCmd(env), newExplainStreamCmd(env))
	return cmd
}

func newExplainLogCmd(env *environ) *cobra.Command {
	var name, exit, kernel, format string
	cmd := &cobra.Command{
		Use:   "log FILE",
		Short: "Say how a server ended, from its log",
		Long: `log reads the log of SGLang, vLLM or llama-server and names how the server ended: outcome, phase, cause, the line that
proves it, the facts that the log states, and what to try next. FILE may be of any size, packed by gzip, or "-" for
standard input; what docker, Kubernetes, journald and others put before each line is taken off.

The outcome is null where a log alone cannot decide: when it stops while the server starts, or shows neither life nor
death. Then --exit says how the process ended, and --kernel-log holds what dmesg printed.`,
		Example: `  sweep explain log server.log
  docker logs sglang 2>&1 | sweep explain log - --format json
  sweep explain log server.log --exit 137 --kernel-log dmesg.txt`,
		Args: oneArg("file"),
		RunE: func(_ *cobra.Command, args []string) error {
			q := engine.Question{Engine: name, File: args[0]}
			var err error
			if q.Exit, err = exitFlag(exit); err != nil {
				return err
			}
			if kernel != "" {
				if q.Kernel, err = kernelLog(env, kernel); err != nil {
					return err
				}
				q.KernelFile = kernel
			}
			log, err := env.open(args[0])
			if err != nil {
				return err
			}
			defer log.Close()
			e, err := engine.Explain(log, q)
			if err != nil {
				return exitWith(exitEnvironment, err)
			}
			if format == "json" {
				return writeJSON(env.Stdout, e)
			}
			return writeExplanation(env.Stdout, e)
		},
	}
	enumFlag(cmd, &format, "format", "table", []string{"table", "json"}, "how to write the result")
	enumFlag(cmd, &name, "engine", "", append(engine.Names(), "other"), "the server that wrote the log; without it the log tells")
	cmd.Flags().StringVar(&exit, "exit", "", "how the process ended: 0 to 255, or a signal as −9 or SIGKILL")
	cmd.Flags().StringVar(&kernel, "kernel-log", "", "file with the kernel's log of that time (dmesg -T, journalctl -k)")
	return cmd
}

// exitFlag reads an exit code, a negative signal or a signal's name. A shell says 128 and the signal's number.
func exitFlag(text string) (*sweep.Exit, error) {
	if text == "" {
		return nil, nil
	}
	if signal, ok := signals[strings.TrimPrefix(strings.ToUpper(text), "SIG")]; ok {
		return &sweep.Exit{Code: -1, Signal: signal}, nil
	}
	n, err := strconv.Atoi(strings.Replace(text, "−", "-", 1))
	switch {
	case err != nil || n < -64 || n > 255:
		return nil, usageErrorf("--exit %s is neither an exit code (0 to 255) nor a signal (−9 or SIGKILL)", text)
	case n < 0:
		return &sweep.Exit{Code: -1, Signal: -n}, nil
	case n > 128 && n <= 128+64:
		return &sweep.Exit{Code: -1, Signal: n - 128}, nil
	}
	return &sweep.Exit{Code: n}, nil
}

var signals = map[string]int{"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "BUS": 7, "FPE": 8, "KILL": 9, "SEGV": 11, "PIPE": 13, "TERM": 15}

func kernelLog(env *environ, name string) ([]sweep.OOMKill, error) {
	f, err := env.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	kills, err := engine.KernelKills(f)
	if err != nil {
		return nil, exitWith(exitEnvironment, err)
	}
	return kills, nil
}

// open opens a file, unpacks it when its name says that it is packed, and takes "-" as standard input.
func (env *environ) open(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(env.Stdin), nil
	}
	f, err := os.Open(name)
	if err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err
		}
		return nil, exitWith(exitUsage, fmt.Errorf("cannot read %s: %w", name, err))
	}
	if !strings.HasSuffix(name, ".gz") {
		return f, nil
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		f.Close()
		return nil, exitWith(exitUsage, fmt.Errorf("cannot read %s: %w", name, err))
	}
	return struct {
		io.Reader
		io.Closer
	}{z, f}, nil
}

// writeJSON writes a value as indented JSON, with what a terminal would obey as escapes.
func writeJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(sweep.PrintableJSON(b.Bytes()))
	return err
}

func writeExplanation(w io.Writer, e engine.Explanation) error {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		if text := fmt.Sprintf(format, args...); text != "" {
			fmt.Fprintf(&b, "%-9s %s\n", name, sweep.Printable(text))
		}
	}
	outcome := "not decided by the log alone"
	if e.Outcome != nil {
		outcome = string(*e.Outcome)
	}
	row("outcome", "%s", outcome)
	row("phase", "%s", e.Phase)
	row("cause", "%s", e.Cause)
	row("why", "%s", e.Detail)
	if e.Evidence != nil {
		row("evidence", "%s:%d: %s", e.Evidence.File, e.Evidence.Line, e.Evidence.Text)
	}
	row("notes", "%s", strings.Join(e.Notes, ", "))
	for _, r := range e.Remarks {
		row("remark", "%s", r)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Facts)) {
		row("fact", "%s = %s", name, factText(e.Facts[name]))
	}
	row("engine", "%s", e.Engine)
	row("next", "%s", e.Next)
	_, err := io.WriteString(w, b.String())
	return err
}

func factText(v any) string {
	const shown = 8
	switch v := v.(type) {
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []float64:
		var parts []string
		for _, x := range v[:min(len(v), shown)] {
			parts = append(parts, strconv.FormatFloat(x, 'f', -1, 64))
		}
		if len(v) > shown {
			parts = append(parts, fmt.Sprintf("… %d in all", len(v)))
		}
		return strings.Join(parts, " ")
	}
	return fmt.Sprint(v)
}

// streamAnswer is what explain stream prints. Counts are absent as null: the server did not say.
type streamAnswer struct {
	OK           bool   `json:"ok"`
	Reason       string `json:"reason"`
	OutputTokens *int   `json:"output_tokens"`
	PromptTokens *int   `json:"prompt_tokens"`
	CachedTokens *int   `json:"cached_tokens"`
}

func newExplainStreamCmd(env *environ) *cobra.Command {
	var api, format string
	var requested int
	cmd := &cobra.Command{
		Use:   "stream FILE",
		Short: "Say whether a captured answer of a server is a success",
		Long: `stream judges the bytes of one answer with the load generator's own code. FILE is the body of a response (.sse, .json),
the bytes on the wire with their head (.http), or single reads (.chunks.json: {"chunks": [base64, …]}); "-" is standard
input. Tokens are counted by the server's own usage only; they are null where it gives none.`,
		Example: `  sweep explain stream answer.sse --api openai-chat --requested 128
  curl -sN … | sweep explain stream - --api openai-completions --format json`,
		Args: oneArg("file"),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := env.open(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			data, err := io.ReadAll(f)
			if err != nil {
				return exitWith(exitEnvironment, fmt.Errorf("cannot read %s: %w", args[0], err))
			}
			reads, err := readsOf(args[0], data)
			if err != nil {
				return exitWith(exitUsage, err)
			}
			j, err := loadgen.JudgeStream(api, reads, requested)
			if err != nil {
				return exitWith(exitUsage, err)
			}
			a := streamAnswer{j.OK, j.Reason, said(j.OutputTokens), said(j.PromptTokens), said(j.CachedTokens)}
			if format == "json" {
				return writeJSON(env.Stdout, a)
			}
			return writeStream(env.Stdout, a)
		},
	}
	enumFlag(cmd, &format, "format", "table", []string{"table", "json"}, "how to write the result")
	enumFlag(cmd, &api, "api", "other", loadgen.APIs(), "the route that answered")
	cmd.Flags().IntVar(&requested, "requested", 0, "tokens of output that the request forced; 0: none were")
	return cmd
}

// readsOf takes a captured stream apart into the reads that it was captured in.
func readsOf(name string, data []byte) ([][]byte, error) {
	head := bytes.TrimSpace(data[:min(len(data), 200)])
	chunks := strings.HasSuffix(strings.TrimSuffix(name, ".gz"), ".chunks.json") || name == "-" && bytes.HasPrefix(head, []byte(`{"encoding"`))
	if !chunks {
		return [][]byte{data}, nil
	}
	var file struct {
		Chunks [][]byte `json:"chunks"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("%s does not hold reads in base64: %w", name, err)
	}
	return file.Chunks, nil
}

// said is a count that the server gave; nil: it gave none.
func said(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}

func writeStream(w io.Writer, a streamAnswer) error {
	count := func(n *int) string {
		if n == nil {
			return "not said"
		}
		return strconv.Itoa(*n)
	}
	_, err := fmt.Fprintf(w, "ok             %v\nreason         %s\noutput_tokens  %s\nprompt_tokens  %s\ncached_tokens  %s\n",
		a.OK, sweep.Printable(a.Reason), count(a.OutputTokens), count(a.PromptTokens), count(a.CachedTokens))
	return err
}

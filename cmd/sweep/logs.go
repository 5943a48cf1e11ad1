package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"sweep/sweep"
	"sweep/sweep/host"
)

func newLogsCmd(env *environ) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs NIGHT [CELL]",
		Short: "Show what happened in a night, or what the server of a cell said",
		Long: `logs shows a night's events as lines. With CELL, or the name of a launch or config, it shows the log of the newest attempt
of its server; where the launch still goes on over SSH, the log is read on the host. Control characters are shown as escapes.`,
		Example: `  sweep logs results/kimi-20261129T180000Z
  sweep logs results/ mem-fraction-static=0.88 -f`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: completeNights,
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := aNight(args[:1])
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(env.Ctx, os.Interrupt, syscall.SIGTERM)
			defer stop()
			if len(args) == 1 {
				return eventLog(ctx, env, dir, follow)
			}
			return serverLog(ctx, env, dir, args[1], follow)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on as the night does, until it ends or Ctrl-C")
	return cmd
}

// eventLog shows a night's events.
func eventLog(ctx context.Context, env *environ, dir string, follow bool) error {
	w, err := newWatch(dir, plainView{env.Stdout}, time.Now)
	if err != nil {
		return err
	}
	for {
		owner, err := sweep.NightOwner(dir)
		if err != nil {
			return err
		}
		if err := w.read(); err != nil {
			return err
		}
		if !follow || owner == nil || !wait(ctx, watchEvery) {
			return nil
		}
	}
}

// wait waits for a time; false: ctx ended.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// plainView writes a story's lines and nothing else.
type plainView struct{ w io.Writer }

func (v plainView) line(text string)                            { fmt.Fprintln(v.w, text) } // a reader that went away ends us by SIGPIPE
func (v plainView) step(text string)                            { v.line(text) }
func (v plainView) alert(text string)                           { v.line(text) }
func (plainView) state(string, int, int, map[string]*hostState) {}
func (plainView) end()                                          {}

// launchOf finds the launch that a person names: by a cell, a launch, or a config.
func launchOf(m sweep.Manifest, name string) (sweep.PlannedCell, error) {
	name = strings.Trim(path.Clean(filepath.ToSlash(name)), "/")
	var known []string
	for _, c := range m.Cells {
		if name == c.Cell || name == c.Launch || name == c.Config {
			return c, nil
		}
		if !slices.Contains(known, c.Config) {
			known = append(known, c.Config)
		}
	}
	hint := ""
	if near := sweep.Nearest(name, known); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	return sweep.PlannedCell{}, usageErrorf("the night has no cell, launch or config %q%s", name, hint)
}

// serverLog shows the log of the newest attempt of a cell's server.
func serverLog(ctx context.Context, env *environ, dir, name string, follow bool) error {
	m, err := sweep.ReadManifest(dir)
	if err != nil {
		return err
	}
	cell, err := launchOf(m, name)
	if err != nil {
		return err
	}
	attempt, err := newestAttempt(filepath.Join(dir, "launches", filepath.FromSlash(cell.Launch)))
	if err != nil {
		return err
	}
	rel := "launches/" + cell.Launch + "/attempt=" + strconv.Itoa(max(1, attempt))
	read := func(from int64) ([]byte, error) {
		f, err := os.Open(filepath.Join(dir, filepath.FromSlash(rel), "server.log"))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return io.ReadAll(io.NewSectionReader(f, from, 1<<20))
	}
	ended := func() bool {
		_, err := os.Stat(filepath.Join(dir, filepath.FromSlash(rel), "launch.json"))
		return err == nil
	}
	if _, err := read(0); errors.Is(err, fs.ErrNotExist) {
		i := slices.IndexFunc(m.Hosts, func(h sweep.HostSpec) bool { return h.Name == cell.Host })
		if i < 0 || m.Hosts[i].SSH == nil {
			return exitWith(exitEnvironment, fmt.Errorf("%s has not begun: it has no server.log", cell.Launch))
		}
		h, err := remoteReader(env, dir, m.Hosts[i])
		if err != nil {
			return exitWith(exitEnvironment, err)
		}
		defer h.Close()
		read = func(from int64) ([]byte, error) { return h.ReadFile(ctx, rel+"/server.log", from, 1<<20) }
	}
	return copyLog(ctx, env, read, ended, follow)
}

// remoteReader opens a link to a night on a host beside the one that the night's own process has.
func remoteReader(env *environ, dir string, spec sweep.HostSpec) (*host.SSH, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	h, err := env.sshHost(spec, abs)
	if err != nil {
		return nil, err
	}
	return h, h.Open(env.Ctx)
}

func newestAttempt(launch string) (int, error) {
	entries, err := os.ReadDir(launch)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	newest := 0
	for _, e := range entries {
		if text, ok := strings.CutPrefix(e.Name(), "attempt="); ok {
			if n, err := strconv.Atoi(text); err == nil {
				newest = max(newest, n)
			}
		}
	}
	return newest, nil
}

// copyLog writes what read gives, line by line and safe for a terminal.
func copyLog(ctx context.Context, env *environ, read func(from int64) ([]byte, error), ended func() bool, follow bool) error {
	out := bufio.NewWriter(env.Stdout)
	var from int64
	for {
		over := ended() // asked before the read
		data, err := read(from)
		if err != nil {
			return exitWith(exitEnvironment, errors.Join(err, out.Flush()))
		}
		whole := data
		if i := strings.LastIndexByte(string(data), '\n'); follow && !over && i >= 0 {
			whole = data[:i+1] // the rest of the line comes later
		} else if follow && !over {
			whole = nil
		}
		for line := range strings.Lines(string(whole)) {
			fmt.Fprintln(out, sweep.Printable(strings.TrimRight(line, "\r\n"))) // an error stays in out
		}
		from += int64(len(whole))
		if err := out.Flush(); err != nil {
			return err
		}
		switch {
		case len(whole) > 0:
		case !follow || over || !wait(ctx, watchEvery):
			return nil
		}
	}
}

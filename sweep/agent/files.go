package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"sweep/failpoint"
	"sweep/sweep"
)

// partSuffix marks what is being written; a rename takes it away.
const partSuffix = ".part"

// writeJSON makes the file at path hold v, as [sweep.WriteFile] does.
func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return sweep.WriteFile(path, append(data, '\n'), 0o600)
}

func readJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// lines appends JSON lines to a file. It is safe for use by several goroutines. The first error stays,
// so that a writer may ignore it and the launch still sees that the disk gave out.
type lines struct {
	mu  sync.Mutex
	f   *os.File
	err error
}

// openLines opens a file for appending. A half line, left by a crash, is ended first.
func openLines(path string) (*lines, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	last := make([]byte, 1)
	if size, err := f.Seek(0, io.SeekEnd); err == nil && size > 0 {
		if _, err := f.ReadAt(last, size-1); err == nil && last[0] != '\n' {
			if _, err := f.Write([]byte{'\n'}); err != nil {
				return nil, errors.Join(err, f.Close())
			}
		}
	}
	return &lines{f: f}, nil
}

// add writes one line; with sync it is on disk when add returns.
func (l *lines) add(v any, sync bool) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if _, l.err = l.f.Write(append(data, '\n')); l.err == nil && sync {
		failpoint.Hit("event.written")
		l.err = l.f.Sync()
		failpoint.Hit("event.synced")
	}
	return l.err
}

func (l *lines) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// close puts the file on disk and closes it; its error is the first one that there was.
func (l *lines) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return cmp.Or(l.err, errors.Join(l.f.Sync(), l.f.Close()))
}

// events writes an agent's events.jsonl.
type events struct {
	lines      *lines
	submission int64 // of the job under way
}

// emit writes an event. Those that announce something on disk are on disk themselves when it returns.
func (e *events) emit(ev sweep.Event) error {
	ev.At, ev.Submission = time.Now(), e.submission
	ev.Text = sweep.Printable(ev.Text)
	synced := ev.Kind == sweep.EventCommit || ev.Kind == sweep.EventEnd || ev.Kind == sweep.EventDone || ev.Kind == sweep.EventRecover || ev.Kind == sweep.EventError
	return e.lines.add(ev, synced)
}

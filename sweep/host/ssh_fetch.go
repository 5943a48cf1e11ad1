package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sweep/sweep"
)

// What a host may send at most: it is not trusted with the disk of this machine.
const (
	maxFiles     = 5_000    // in an attempt's folder
	maxDepth     = 4        // of a file below the attempt's folder
	maxFile      = 8 << 30  // bytes of one file
	maxAttempt   = 32 << 30 // bytes of an attempt's folder
	maxAgentLog  = 4 << 20  // bytes of the agent's own log
	readAtOnce   = 8 << 20  // bytes of a file that are asked for at once
	maxNameBytes = 255
)

// badHostError is a host that sends what no agent of ours makes. Nothing of it is kept; it is final.
func badHost(format string, args ...any) error {
	return &trapError{"the host sends what no agent of ours makes, so nothing of it is kept: " + fmt.Sprintf(format, args...)}
}

const ackedFile = "acknowledged.jsonl"

func (s *SSH) readAcked() error {
	data, err := os.ReadFile(filepath.Join(s.dir(), ackedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		var a dirArgs
		if json.Unmarshal([]byte(line), &a) == nil && a.Dir != "" {
			s.acked[a.Dir] = true
		}
	}
	return err
}

// acknowledge tells the host that an attempt is safe here, and remembers it.
func (s *SSH) acknowledge(ctx context.Context, dir string) error {
	if err := s.call(ctx, "ack", dirArgs{Dir: dir}, nil, nil, nil); err != nil {
		return err
	}
	line, err := json.Marshal(dirArgs{Dir: dir})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(s.dir(), ackedFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		s.acked[dir] = true
	}
	return err
}

// CatchUp fetches what the agent made while nobody followed it.
func (s *SSH) CatchUp(ctx context.Context) error {
	var reply attemptsReply
	if err := s.call(ctx, "attempts", struct{}{}, &reply, nil, nil); err != nil {
		return err
	}
	for _, dir := range reply.Dirs {
		if err := s.Fetch(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

// isAttempt reports whether a name from the host is the folder of an attempt and nothing else.
func isAttempt(dir string) bool {
	parts := strings.Split(dir, "/")
	return len(parts) == 4 && parts[0] == "launches" && strings.HasPrefix(parts[2], "repeat=") && strings.HasPrefix(parts[3], "attempt=") &&
		!slices.ContainsFunc(parts, func(p string) bool { return badName(p) != "" })
}

// badName says why a name of a file or folder is not taken; "" when it is.
func badName(name string) string {
	switch {
	case name == "" || name == "." || name == "..":
		return "leads elsewhere"
	case len(name) > maxNameBytes:
		return "is too long"
	case sweep.Printable(name) != name || strings.ContainsAny(name, `/\:*?"<>|`):
		return "holds characters that no name of ours does"
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") || !filepath.IsLocal(name):
		return "is none on every system"
	}
	return ""
}

// Fetch implements [sweep.Host]. While the launch goes on, what is complete of it is fetched: a load's folder appears
// by one rename, here as there. When it has ended, launch.json comes last, and the host is told that all is safe.
func (s *SSH) Fetch(ctx context.Context, dir string) error {
	if err := s.prepare(); err != nil {
		return err
	}
	if s.acked[dir] {
		return nil
	}
	if !isAttempt(dir) {
		return badHost("a folder %q", sweep.Printable(dir))
	}
	if made := jobHost(filepath.Join(s.Night, filepath.FromSlash(dir))); made != "" && made != s.ID {
		return nil // another host has made this attempt here, when this one was not to be reached
	}
	const tries = 3 // a file may grow between the list and its reading, when nobody ended the attempt
	for try := 1; ; try++ {
		ended, err := s.fetchOnce(ctx, dir)
		switch {
		case errors.Is(err, errChanged) && try < tries:
			continue
		case err != nil:
			return err
		case ended:
			return s.acknowledge(ctx, dir)
		}
		return nil
	}
}

// errChanged is a file that is not what its list said.
var errChanged = errors.New("it changed while it was fetched")

func (s *SSH) fetchOnce(ctx context.Context, dir string) (ended bool, err error) {
	var list listReply
	have, err := foldersIn(filepath.Join(s.Night, filepath.FromSlash(dir)))
	if err != nil {
		return false, err
	}
	if err := s.call(ctx, "list", dirArgs{Dir: dir, Have: have}, &list, nil, nil); err != nil {
		return false, err
	}
	if err := checkList(list); err != nil {
		return false, err
	}
	if len(list.Files) == 0 {
		return false, nil
	}
	f := fetcher{host: s, dir: dir, target: filepath.Join(s.Night, filepath.FromSlash(dir)), incoming: filepath.Join(s.dir(), "incoming", hashName(dir))}
	if err := os.MkdirAll(f.target, 0o755); err != nil {
		return false, err
	}
	if err := os.MkdirAll(f.incoming, 0o700); err != nil {
		return false, err
	}
	slices.SortStableFunc(list.Files, func(a, b fileInfo) int { return order(a) - order(b) })
	folders := map[string][]fileInfo{}
	var names []string
	for _, file := range list.Files {
		top, _, inFolder := strings.Cut(file.Path, "/")
		if !inFolder {
			top = ""
		}
		if len(folders[top]) == 0 && top != "" {
			names = append(names, top)
		}
		folders[top] = append(folders[top], file)
	}
	for _, name := range names {
		if err := f.folder(ctx, name, folders[name]); err != nil {
			return false, err
		}
	}
	for _, file := range folders[""] {
		if err := f.single(ctx, file); err != nil {
			return false, err
		}
	}
	return list.Ended, errors.Join(sweep.SyncDir(f.target), os.RemoveAll(f.incoming))
}

// foldersIn lists the folders in an attempt's folder here: each came by one rename and is whole.
func foldersIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// order puts launch.json last and job.json first.
func order(f fileInfo) int {
	switch f.Path {
	case "job.json":
		return -1
	case "launch.json":
		return 1
	}
	return 0
}

func hashName(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}

// checkList refuses a list that no agent of ours makes.
func checkList(list listReply) error {
	if len(list.Files) > maxFiles {
		return badHost("%d files in one attempt", len(list.Files))
	}
	var total int64
	seen := map[string]bool{}
	for _, f := range list.Files {
		parts := strings.Split(f.Path, "/")
		if len(parts) > maxDepth {
			return badHost("a file %q", sweep.Printable(f.Path))
		}
		for _, p := range parts {
			if why := badName(p); why != "" {
				return badHost("a name %q, which %s", sweep.Printable(f.Path), why)
			}
		}
		if seen[f.Path] || f.Size < 0 || f.Size > maxFile || len(f.SHA256) != 2*sha256.Size {
			return badHost("a file %q of %d bytes", sweep.Printable(f.Path), f.Size)
		}
		seen[f.Path] = true
		if total += f.Size; total > maxAttempt {
			return badHost("more than %d GiB in one attempt", maxAttempt>>30)
		}
	}
	return nil
}

// fetcher brings one attempt's folder here.
type fetcher struct {
	host     *SSH
	dir      string // relative to the night
	target   string // here
	incoming string // where files wait until they are whole
}

// folder fetches a folder of files, which appears here by one rename. One that is here already is whole.
func (f fetcher) folder(ctx context.Context, name string, files []fileInfo) error {
	target := filepath.Join(f.target, name)
	if info, err := os.Lstat(target); err == nil {
		if info.IsDir() {
			return nil
		}
		return fmt.Errorf("%s is in the way of a folder", target)
	}
	part := filepath.Join(f.incoming, name)
	for _, file := range files {
		if err := f.file(ctx, file, filepath.Join(f.incoming, filepath.FromSlash(file.Path))); err != nil {
			return err
		}
		for folder := path.Dir(file.Path); folder != "."; folder = path.Dir(folder) {
			if err := sweep.SyncDir(filepath.Join(f.incoming, filepath.FromSlash(folder))); err != nil {
				return err
			}
		}
	}
	if err := os.Rename(part, target); err != nil {
		return err
	}
	return sweep.SyncDir(f.target)
}

// single fetches one file of the attempt itself, unless it is here already.
func (f fetcher) single(ctx context.Context, file fileInfo) error {
	target := filepath.Join(f.target, file.Path)
	if info, err := os.Lstat(target); err == nil && info.Mode().IsRegular() && info.Size() == file.Size {
		if have, err := hashFile(target); err == nil && have.SHA256 == file.SHA256 {
			return nil
		}
	}
	part := filepath.Join(f.incoming, file.Path)
	if err := f.file(ctx, file, part); err != nil {
		return err
	}
	return os.Rename(part, target)
}

// file fetches a file to a path. What an earlier try has brought of it stays, and the hash decides in the end.
func (f fetcher) file(ctx context.Context, file fileInfo, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	err = f.fill(ctx, out, file)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); errors.Is(err, errChanged) {
		err = errors.Join(err, os.Remove(to))
	}
	return err
}

func (f fetcher) fill(ctx context.Context, out *os.File, file fileInfo) error {
	info, err := out.Stat()
	if err != nil {
		return err
	}
	have := info.Size()
	if have > file.Size {
		have = 0
		if err := out.Truncate(0); err != nil {
			return err
		}
	}
	for have < file.Size {
		from, most := have, min(readAtOnce, file.Size-have)
		var reply readReply
		args := readArgs{Path: f.dir + "/" + file.Path, From: from, Max: most}
		err := f.host.call(ctx, "read", args, &reply, func() { have = from }, func(piece []byte) error {
			if have+int64(len(piece)) > from+most {
				return badHost("more of %s than was asked for", sweep.Printable(file.Path))
			}
			if _, err := out.WriteAt(piece, have); err != nil {
				return fmt.Errorf("fetch %s: %w", file.Path, err)
			}
			have += int64(len(piece))
			return nil
		})
		if err != nil {
			return err
		}
		if have == from {
			return fmt.Errorf("%s/%s: %w", f.dir, file.Path, errChanged)
		}
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(out, 0, file.Size)); err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != file.SHA256 {
		return fmt.Errorf("%s/%s: %w", f.dir, file.Path, errChanged)
	}
	return nil
}

// ReadFile reads a part of a file of the night on the host: at most so many bytes from an offset on.
func (s *SSH) ReadFile(ctx context.Context, name string, from, most int64) ([]byte, error) {
	var data []byte
	err := s.call(ctx, "read", readArgs{Path: name, From: from, Max: most}, nil, func() { data = nil }, func(piece []byte) error {
		if data = append(data, piece...); int64(len(data)) > most {
			return badHost("more of %s than was asked for", sweep.Printable(name))
		}
		return nil
	})
	return data, err
}

// fetchLog brings the end of the agent's own log here, for a person.
func (s *SSH) fetchLog(ctx context.Context) error {
	log, err := s.ReadFile(ctx, "agents/"+s.ID+"/agent.log", 0, maxAgentLog)
	if remote := (*remoteError)(nil); errors.As(err, &remote) {
		return nil // there is none
	}
	if err != nil {
		return err
	}
	return sweep.WriteFile(filepath.Join(s.dir(), "agent.log"), log, 0o600)
}

package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sweep/sweep"
)

// attempts lists the folders of attempts that nobody has acknowledged yet.
func (l *Local) attempts() (any, error) {
	var reply attemptsReply
	launches := filepath.Join(l.Night, "launches")
	err := filepath.WalkDir(launches, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !d.IsDir() || !strings.HasPrefix(d.Name(), "attempt="):
			return nil
		}
		rel, err := filepath.Rel(l.Night, path)
		if err != nil {
			return err
		}
		if _, err := os.Stat(l.ackFile(filepath.ToSlash(rel))); err != nil {
			reply.Dirs = append(reply.Dirs, filepath.ToSlash(rel))
		}
		return fs.SkipDir
	})
	return reply, err
}

// ackFile marks an attempt's folder as safe on the workstation.
func (l *Local) ackFile(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(l.dir(), "acknowledged", hex.EncodeToString(sum[:16]))
}

func (l *Local) ack(dir string) error {
	path, err := l.inside(dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(l.dir(), "acknowledged"), 0o700); err != nil {
		return err
	}
	return sweep.WriteFile(l.ackFile(dir), []byte(dir+"\n"), 0o600)
}

// inside is the path of what stands in the night under a name of the other side.
func (l *Local) inside(rel string) (string, error) {
	path := filepath.FromSlash(rel)
	if !filepath.IsLocal(path) {
		return "", fmt.Errorf("%q leads out of the night", rel)
	}
	return filepath.Join(l.Night, path), nil
}

// list gives the files of an attempt's folder with their hashes. What is still being written is left out: it
// ends in .part, or the launch has not ended and the file grows.
func (l *Local) list(ctx context.Context, a dirArgs) (any, error) {
	root, err := l.inside(a.Dir)
	if err != nil {
		return nil, err
	}
	reply := listReply{Alive: l.alive(), Files: []fileInfo{}}
	if _, err := os.Stat(filepath.Join(root, "launch.json")); err == nil {
		reply.Ended = true
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(root, path)
		rel = filepath.ToSlash(rel)
		top, _, inFolder := strings.Cut(rel, "/")
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // it was renamed while we looked
		case err != nil:
			return err
		case relErr != nil:
			return relErr
		case ctx.Err() != nil:
			return ctx.Err()
		case d.IsDir() && (strings.HasSuffix(d.Name(), ".part") || slices.Contains(a.Have, rel)):
			return fs.SkipDir
		case d.IsDir() || strings.HasSuffix(d.Name(), ".part"):
			return nil
		case !d.Type().IsRegular():
			reply.Other = append(reply.Other, rel)
			return nil
		case !reply.Ended && reply.Alive && !(inFolder && strings.HasPrefix(top, "load=")) && !slices.Contains(wholeFiles, rel):
			return nil
		}
		info, err := hashFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		info.Path = rel
		reply.Files = append(reply.Files, info)
		return err
	})
	return reply, err
}

// wholeFiles are those of an attempt that appear in one step.
var wholeFiles = []string{"job.json", "command.sh", sweep.ReadyFile}

func hashFile(path string) (fileInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return fileInfo{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return fileInfo{Size: n, SHA256: hex.EncodeToString(h.Sum(nil))}, err
}

// pieceSize is how much of a file goes into one frame, in bytes.
const pieceSize = 64 << 10

// read sends a part of a file of the night.
func (l *Local) read(ctx context.Context, a readArgs, send func([]byte) error) (any, error) {
	path, err := l.inside(a.Path)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", a.Path)
	}
	part := io.NewSectionReader(f, a.From, max(0, a.Max))
	buf := make([]byte, pieceSize)
	for ctx.Err() == nil {
		n, err := part.Read(buf)
		if n > 0 {
			if err := send(buf[:n]); err != nil {
				return nil, err
			}
		}
		if errors.Is(err, io.EOF) {
			return readReply{Size: info.Size()}, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, ctx.Err()
}

// clean takes the night away from the host, when no agent works in it and all of its attempts are safe elsewhere.
func (l *Local) clean() error {
	if l.alive() {
		return errors.New("the agent is still at work")
	}
	left, err := l.attempts()
	if err != nil {
		return err
	}
	if n := len(left.(attemptsReply).Dirs); n > 0 {
		return fmt.Errorf("%d attempts are not yet fetched", n)
	}
	return os.RemoveAll(l.Night)
}

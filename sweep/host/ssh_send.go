package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"sweep/sweep"
)

// putArgs is a piece of a file that a night keeps under its content's hash.
type putArgs struct {
	Name string `json:"name"` // the SHA-256 in hex
	Size int64  `json:"size"` // of the whole file
	At   int64  `json:"at"`
	Data []byte `json:"data,omitempty"`
}

// putReply says how much of the file is there.
type putReply struct {
	Have int64 `json:"have"`
}

var sumName = regexp.MustCompile(`^[0-9a-f]{64}$`)

// putSize is how much of a file goes into one request, in bytes: as text it must fit into a frame.
const putSize = 512 << 10

// sendFiles brings the night's copies of prompts and traces to the host, where its agent reads them.
func (s *SSH) sendFiles(ctx context.Context) error {
	dir := filepath.Join(s.Night, sweep.FilesDir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !sumName.MatchString(e.Name()) {
			continue
		}
		if err := s.sendFile(ctx, filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("send %s to the host: %w", e.Name(), err)
		}
	}
	return nil
}

func (s *SSH) sendFile(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	args := putArgs{Name: filepath.Base(path), Size: info.Size(), At: -1} // asks only how much is there
	for {
		var reply putReply
		if err := s.call(ctx, "put", args, &reply, nil, nil); err != nil {
			return err
		}
		if reply.Have >= info.Size() {
			return nil
		}
		args.At = reply.Have
		args.Data = make([]byte, min(putSize, info.Size()-args.At))
		if _, err := io.ReadFull(io.NewSectionReader(f, args.At, int64(len(args.Data))), args.Data); err != nil {
			return err
		}
	}
}

// put keeps a piece of a file. The whole one gets its name when its content is what the name says.
func (l *Local) put(a putArgs) (putReply, error) {
	if !sumName.MatchString(a.Name) || a.Size < 0 {
		return putReply{}, fmt.Errorf("%q is no file of a night", a.Name)
	}
	dir := filepath.Join(l.Night, sweep.FilesDir)
	path := filepath.Join(dir, a.Name)
	if info, err := os.Stat(path); err == nil && info.Size() == a.Size {
		return putReply{a.Size}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return putReply{}, err
	}
	f, err := os.OpenFile(path+".part", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return putReply{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return putReply{}, err
	}
	have := info.Size()
	if a.At == have && len(a.Data) > 0 { // else it was asked, or a piece came twice
		if _, err := f.WriteAt(a.Data, a.At); err != nil {
			return putReply{}, errors.Join(err, f.Truncate(have))
		}
		have += int64(len(a.Data))
	}
	if have < a.Size {
		return putReply{have}, nil
	}
	sum, err := hashFile(path + ".part")
	if err == nil && (sum.SHA256 != a.Name || sum.Size != a.Size) {
		err = errors.Join(errors.New("it arrived damaged"), os.Remove(path+".part"))
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(path+".part", path)
	}
	return putReply{have}, err
}

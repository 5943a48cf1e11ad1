package host

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"sweep/sweep"
	"sweep/sweep/host/conformance"
	"sweep/sweep/host/sshtest"
)

var self = sync.OnceValues(func() (fileInfo, error) {
	path, err := os.Executable()
	if err != nil {
		return fileInfo{}, err
	}
	info, err := hashFile(path)
	info.Path = path
	return info, err
})

// thisProgram is this very test binary.
func thisProgram(t testing.TB) fileInfo {
	t.Helper()
	info, err := self()
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// programHere is this very test binary as the program for the host.
func programHere(t testing.TB) Binary {
	info := thisProgram(t)
	return Binary{
		Sums: map[string]string{runtime.GOARCH: info.SHA256},
		Open: func(string) (io.ReadCloser, int64, error) {
			f, err := os.Open(info.Path)
			return f, info.Size, err
		},
	}
}

// startServer starts a server on which our program is already.
func startServer(t testing.TB, o sshtest.Options) *sshtest.Server {
	t.Helper()
	info := thisProgram(t)
	o.Program, o.Sum = info.Path, info.SHA256
	return sshtest.Start(t, o)
}

// quick are times for tests: what takes long on a busy machine keeps its time, what is waited out is short.
var quick = timing{backoff: 20 * time.Millisecond, backoffMax: 200 * time.Millisecond, poll: 2 * time.Second}

// over is a night on a server.
func over(t testing.TB, s *sshtest.Server, night string) *SSH {
	t.Helper()
	h := &SSH{ID: "gpu1", Night: night, Target: sshtest.Target, Config: s.Config, Binary: programHere(t), timing: quick, Log: slog.New(slog.NewTextHandler(testWriter{t}, nil))}
	t.Cleanup(h.Close)
	return h
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", bytes.TrimSpace(p))
	return len(p), nil
}

// nightThere is the folder of a night on the server.
func nightThere(t testing.TB, s *sshtest.Server, night string) string {
	t.Helper()
	var state remoteState
	data, err := os.ReadFile(filepath.Join(Dir(night, "gpu1"), remoteFile))
	if err == nil {
		err = json.Unmarshal(data, &state)
	}
	if err != nil {
		t.Fatalf("where the night is: %v", err)
	}
	return filepath.Join(s.Home, ".sweep", state.Folder)
}

func TestSSHConforms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		user      string
		transport string
	}{{"root", "", ""}, {"user", sshtest.OtherUser, ""}, {"openssh", "", "openssh"}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, sshtest.Options{User: c.user})
			conformance.Run(t, conformance.Subject{
				New: func(t *testing.T, night string) sweep.Host {
					h := over(t, s, night)
					h.Transport = c.transport
					return h
				},
				Alive: func(t *testing.T, night string) bool {
					id, err := readIdentity(Dir(nightThere(t, s, night), "gpu1"))
					return err == nil && id.Alive()
				},
			})
		})
	}
}

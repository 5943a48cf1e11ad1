package host

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"sweep/sweep"
)

// served is a host in this process whose relay keeps its nights below root.
func served(t *testing.T, root string) func(in io.Reader, out io.WriteCloser) {
	return func(in io.Reader, out io.WriteCloser) {
		r := &Relay{Root: root, Agent: []string{"/bin/false"}}
		_ = r.Serve(context.WithoutCancel(t.Context()), in, out) // the link's end is its end
	}
}

func TestSendFiles(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	h := inProcess(t, served(t, root))
	if err := h.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(h.Night, sweep.FilesDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	contents := [][]byte{nil, []byte("a prompt"), bytes.Repeat([]byte("0123456789abcdef"), 3*putSize/16+1)}
	for _, c := range contents {
		if err := os.WriteFile(filepath.Join(dir, sumOf(c)), c, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time nothing is left to send
		if err := h.sendFiles(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range contents {
		got, err := os.ReadFile(filepath.Join(root, h.state.Folder, sweep.FilesDir, sumOf(c)))
		if err != nil || !bytes.Equal(got, c) {
			t.Errorf("%d of %d bytes are there, %v", len(got), len(c), err)
		}
	}
	// A name that is not the content's, and one that leads elsewhere.
	l := &Local{ID: "gpu1", Night: t.TempDir()}
	if _, err := l.put(putArgs{Name: sumOf([]byte("x")), Size: 1, Data: []byte("y")}); err == nil {
		t.Error("other bytes were kept")
	}
	if _, err := l.put(putArgs{Name: "../x", Size: 1, Data: []byte("y")}); err == nil {
		t.Error("a file outside was written")
	}
}

// TestRelayKeepsToItsRoot: what a workstation asks for never leads out of the host's nights.
func TestRelayKeepsToItsRoot(t *testing.T) {
	t.Parallel()
	r := &Relay{Root: t.TempDir(), locals: map[string]*Local{}}
	for _, q := range []request{
		{Op: "working", Night: "..", Host: "a"}, {Op: "working", Night: "a/b", Host: "a"}, {Op: "working", Night: "a", Host: "../a"},
		{Op: "read", Night: "a", Host: "a", Args: json.RawMessage(`{"path":"../../etc/passwd","max":10}`)},
		{Op: "read", Night: "a", Host: "a", Args: json.RawMessage(`{"path":"/etc/passwd","max":10}`)},
		{Op: "list", Night: "a", Host: "a", Args: json.RawMessage(`{"dir":"../.."}`)},
		{Op: "no such thing", Night: "a", Host: "a"},
	} {
		data, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		if reply, err := r.answer(t.Context(), data, func([]byte) error { return nil }); err == nil {
			t.Errorf("%+v was answered with %v", q, reply)
		}
	}
}

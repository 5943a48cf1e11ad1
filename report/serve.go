package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// refreshSeconds is how often the page of a running night loads itself again.
const refreshSeconds = 10

// Server shows the page of one night, made anew when the night has changed. It answers on this machine only, and to nobody who
// came by another name: a page elsewhere cannot read it through the browser.
type Server struct {
	Dir     string // of the night
	Options PageOptions

	mu   sync.Mutex
	seen string // state of the night's files when page was made
	page []byte
}

// Serve answers on a listener until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		select {
		case <-ctx.Done():
		case <-stop:
		}
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = srv.Shutdown(bounded) // whoever still reads has had their time
	})
	err := srv.Serve(l)
	close(stop)
	wg.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("report: serve: %w", err)
}

// ServeHTTP gives the page.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	switch {
	case host != "127.0.0.1" && host != "localhost":
		http.Error(w, "this page is for this machine only", http.StatusMisdirectedRequest)
		return
	case r.URL.Path != "/":
		http.NotFound(w, r)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
		return
	}
	page, err := s.current()
	if err != nil {
		http.Error(w, printableText(err.Error()), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	_, _ = w.Write(page) // a reader that went away is no fault of ours
}

// current is the page of the night as it stands.
func (s *Server) current() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := nightState(s.Dir)
	if s.page != nil && state == s.seen {
		return s.page, nil
	}
	n, err := Read(s.Dir)
	if err != nil {
		return nil, err
	}
	sum := Summarize(n)
	o := s.Options
	if sum.Recorded < sum.Asked {
		o.Refresh = refreshSeconds
	}
	var b bytes.Buffer
	if err := WritePage(&b, sum, o); err != nil {
		return nil, err
	}
	s.page, s.seen = b.Bytes(), state
	return s.page, nil
}

// nightState changes with the files that a report reads first.
func nightState(dir string) string {
	var state strings.Builder
	for _, name := range []string{CellsFile, ManifestFile, ConfirmedFile} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
			state.WriteString(fmt.Sprintf("%s %d %d;", name, info.Size(), info.ModTime().UnixNano()))
		}
	}
	return state.String()
}

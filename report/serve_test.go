package report

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestServe(t *testing.T) {
	spec := nights()["unfinished"]
	dir := spec.write(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	srv := &Server{Dir: dir}
	go func() { ended <- srv.Serve(ctx, l) }()
	get := func(path, host string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			req.Host = host
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || res.Body.Close() != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	code, page := get("/", "")
	if code != 200 || !strings.Contains(page, `http-equiv="refresh" content="10"`) || !strings.Contains(page, "this night is not finished") {
		t.Errorf("a running night: %d, %.200s", code, page)
	}
	if code, _ := get("/../"+CellsFile, ""); code != 404 {
		t.Errorf("another path: %d", code)
	}
	if code, _ := get("/", "evil.example"); code != http.StatusMisdirectedRequest {
		t.Errorf("another name: %d", code)
	}
	// One more record: the page is made anew.
	r := spec.records()[0]
	r.Repeat, r.Values["output_throughput"] = 2, 4321
	f, err := os.OpenFile(filepath.Join(dir, CellsFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(lineOf(t, r)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, again := get("/", ""); again == page {
		t.Error("a new record does not change the page")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"sweep/loadgen/truth"
)

// serve is what the -serve flag does: the server with known timing, until standard input ends.
func serve() error {
	s, err := truth.Listen(truth.Options{Spin: true})
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := fmt.Println(s.URL()); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// server is the server with known timing, in a process of its own.
type server struct {
	cmd  *exec.Cmd
	stop io.Closer
	url  string
}

func startServer(self string, core int) (*server, error) {
	cmd := exec.Command(self, "-serve")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := start(cmd, core); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	s := &server{cmd: cmd, stop: in}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("server: no address: %w", err), s.close())
	}
	s.url = strings.TrimSpace(line)
	return s, nil
}

func (s *server) close() error { return errors.Join(s.stop.Close(), s.cmd.Wait()) }

// configure sets the plan and clears the log.
func (s *server) configure(ctx context.Context, query string) error {
	body, err := s.get(ctx, "/ctl/cfg?"+query)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, body)
	return errors.Join(err, body.Close())
}

func (s *server) dump(ctx context.Context, events bool) (truth.Summary, []truth.Request, error) {
	path := "/ctl/dump"
	if !events {
		path += "?events=0"
	}
	body, err := s.get(ctx, path)
	if err != nil {
		return truth.Summary{}, nil, err
	}
	defer body.Close()
	return truth.ReadLog(body)
}

func (s *server) get(ctx context.Context, path string) (io.ReadCloser, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		cancel()
		return nil, err
	}
	req.Close = true // no idle connection stays at the server
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("server: %w", err)
	}
	if resp.StatusCode != 200 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 500)) // only to say more
		resp.Body.Close()
		cancel()
		return nil, fmt.Errorf("server: %s: %s %s", path, resp.Status, text)
	}
	return &canceller{resp.Body, cancel}, nil
}

// canceller is a body that frees its context when it is closed.
type canceller struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (c *canceller) Close() error {
	defer c.cancel()
	return c.ReadCloser.Close()
}

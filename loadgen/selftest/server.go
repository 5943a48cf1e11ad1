package selftest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"runtime"
	"strings"

	"sweep/loadgen/truth"
)

// options are those of the server: it polls without a pause where that leaves the client a core.
func options() truth.Options { return truth.Options{Spin: runtime.NumCPU() > 1} }

// Serve runs the server with known timing until in ends; its URL is the first line of out.
func Serve(in io.Reader, out io.Writer) error {
	s, err := truth.Listen(options())
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := fmt.Fprintln(out, s.URL()); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// start starts the server, in a process of its own when there is a command for it.
func start(ctx context.Context, command []string) (url string, stop func() error, err error) {
	if len(command) == 0 {
		s, err := truth.Listen(options())
		if err != nil {
			return "", nil, err
		}
		return s.URL(), func() error { s.Close(); return nil }, nil
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() error {
		err := in.Close()
		if werr := cmd.Wait(); ctx.Err() == nil {
			err = errors.Join(err, werr)
		}
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = stop() // the reader's error, and what the server said, tell more
		return "", nil, fmt.Errorf("its server did not start: %s (%w)", strings.TrimSpace(said.String()), err)
	}
	return strings.TrimSpace(line), stop, nil
}

// call asks the server for something; read may be nil.
func call(ctx context.Context, url string, read func(*http.Response) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{} // no proxy: it is this machine
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("its server answers HTTP %d", resp.StatusCode)
	}
	if read == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	return read(resp)
}

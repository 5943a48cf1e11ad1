package proctest

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// Variables of the client's environment.
const (
	socketVariable = "SWEEP_PROCTEST_DAEMON" // the daemon's socket: the program is its client
	// DieVariable makes a client kill itself when the container is made and its id not yet written.
	DieVariable = "SWEEP_PROCTEST_DIE"
)

// call is what a client sends to the daemon.
type call struct{ Args, Env []string }

// answer is a line of the daemon's answer.
type answer struct {
	ID, Out, Err string
	Code         *int
}

// Client plays the runtime's client when this process was started as one; is says so, and code is its exit code then.
func Client() (code int, is bool) {
	socket := os.Getenv(socketVariable)
	if socket == "" {
		return 0, false
	}
	_ = os.Unsetenv(socketVariable) // what it starts is no client
	return client(socket, os.Args[1:]), true
}

func client(socket string, args []string) int {
	idFile := value(args, "--cidfile")
	if _, err := os.Lstat(idFile); idFile != "" && err == nil {
		fmt.Fprintln(os.Stderr, "docker: container ID file found, make sure the other container isn't running or delete", idFile)
		return 125
	}
	c, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, "Cannot connect to the Docker daemon:", err)
		return 1
	}
	defer c.Close()
	out := json.NewEncoder(c)
	if err := out.Encode(call{args, os.Environ()}); err != nil {
		return 1
	}
	d := json.NewDecoder(c)
	for {
		var a answer
		if err := d.Decode(&a); err != nil {
			return 1
		}
		if a.ID != "" { // it is made: the id is written, then it is started
			if os.Getenv(DieVariable) != "" {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
			go passOn(socket, a.ID) // until this process ends
			if err := os.WriteFile(idFile, []byte(a.ID), 0o600); err != nil || out.Encode(call{Args: []string{"start"}}) != nil {
				return 125
			}
		}
		_, _ = io.WriteString(os.Stdout, a.Out)
		_, _ = io.WriteString(os.Stderr, a.Err)
		if a.Code != nil {
			return *a.Code
		}
	}
}

// passOn passes polite signals on to the container's first process, as a runtime does that has no terminal.
func passOn(socket, id string) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	for range signals {
		c, err := net.Dial("unix", socket)
		if err != nil {
			continue
		}
		_ = json.NewEncoder(c).Encode(call{Args: []string{"terminate", id}})
		_ = c.Close()
	}
}

// value is what follows a flag; "" without it.
func value(args []string, flag string) string {
	if i := slices.Index(args, flag); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

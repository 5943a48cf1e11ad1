// Command sweep finds out which server settings serve an LLM best on the GPUs at hand: it runs every
// config of a grid overnight, and writes tables and plots that compare them.
//
// This package only wires: it reads flags, calls the rooms below, and talks to the terminal. Data go
// to standard output, everything said to a person goes to standard error.
package main

import (
	"context"
	"io"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program; it returns the exit code. args holds the program's name first.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	env := &environ{
		Ctx:    ctx,
		Args:   args,
		Stdin:  stdin,
		Stdout: stdout,
		Stderr: stderr,
		Getenv: os.Getenv,
	}
	return execute(env)
}

package simulate

import (
	"context"
	"os"
	"testing"
)

// asProgram makes the test binary behave as the program: "simulate …" on its command line then means what it means to sweep.
const asProgram = "SWEEP_SIMULATE_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if code, is := RunChild(); is {
		os.Exit(code)
	}
	if os.Getenv(asProgram) != "" && len(os.Args) > 1 && os.Args[1] == "simulate" {
		os.Exit(Main(context.Background(), os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

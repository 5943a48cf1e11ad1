package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary play nvidia-smi.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "play" {
		os.Exit(play(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

func play(role string, args []string) int {
	switch role {
	case "old": // a driver that knows fewer fields
		fields := strings.Split(strings.TrimPrefix(args[0], "--query-gpu="), ",")
		var row []string
		for _, f := range fields {
			if f == "gpu_recovery_action" || f == "mig.mode.current" {
				fmt.Printf("Field %q is not a valid field to query.\n\n", f)
				return 2
			}
			row = append(row, "1")
		}
		fmt.Println(strings.Join(fields, ", "))
		fmt.Println(strings.Join(row, ", "))
		if log, err := os.OpenFile(os.Getenv("GPU_TEST_LOG"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			fmt.Fprintln(log, len(fields))
			_ = log.Close()
		}
		return 0
	case "none":
		fmt.Println("No devices were found")
		return 6
	case "driver":
		fmt.Println("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.")
		return 9
	case "hang":
		time.Sleep(20 * time.Second)
	case "file":
		b, _ := os.ReadFile(args[0])
		os.Stdout.Write(b)
	case "garbage":
		fmt.Println("<html>")
	}
	return 0
}

func smi(t *testing.T, args ...string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{self, "play"}, args...)
}

func TestReaderLearnsFields(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	t.Setenv("GPU_TEST_LOG", log)
	r := &Reader{Command: smi(t, "old")}
	for range 2 {
		d, err := r.Devices(t.Context())
		if err != nil || len(d) != 1 || d[0].Index != 1 || *d[0].MemoryUsed != 1<<20 || d[0].MIG != "" || *d[0].ClockSM != 1 {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	b, _ := os.ReadFile(log)
	want := fmt.Sprintf("%d\n%[1]d\n", len(deviceFields)-2)
	if string(b) != want {
		t.Errorf("asked for %q fields, want %q: the second call must not ask again", b, want)
	}
}

func TestReaderErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		role string
		is   error
		text string
	}{
		{"none", ErrNone, ""},
		{"driver", nil, "couldn't communicate with the NVIDIA driver"},
		{"garbage", nil, "<html>"},
	}
	for _, tt := range tests {
		r := &Reader{Command: smi(t, tt.role)}
		_, err := r.Devices(t.Context())
		if err == nil || tt.is != nil && !errors.Is(err, tt.is) || tt.is == nil && errors.Is(err, ErrNone) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v", tt.role, err)
		}
	}
	if _, err := (&Reader{Command: []string{"/no/such/program"}}).Devices(t.Context()); err == nil || errors.Is(err, ErrNone) {
		t.Errorf("a command of ours that is missing: %v", err)
	}
}

func TestNoProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := (&Reader{}).Devices(t.Context()); !errors.Is(err, ErrNone) {
		t.Errorf("%v", err)
	}
	if _, err := (&Reader{}).Processes(t.Context()); !errors.Is(err, ErrNone) {
		t.Errorf("%v", err)
	}
}

func TestReaderHangs(t *testing.T) {
	t.Parallel()
	r := &Reader{Command: smi(t, "hang"), Timeout: 300 * time.Millisecond}
	began := time.Now()
	if _, err := r.Devices(t.Context()); !errors.Is(err, ErrHung) {
		t.Errorf("%v", err)
	}
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("took %v", d)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := (&Reader{Command: smi(t, "hang")}).Processes(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// TestReaderOneAtATime holds the turn as a call that does not die would.
func TestReaderOneAtATime(t *testing.T) {
	t.Parallel()
	r := &Reader{Command: smi(t, "none"), Timeout: 5 * time.Second}
	if _, err := r.Devices(t.Context()); !errors.Is(err, ErrNone) {
		t.Fatal(err)
	}
	r.run.turn <- struct{}{}
	r.Timeout = 50 * time.Millisecond
	if _, err := r.Devices(t.Context()); !errors.Is(err, ErrHung) || !strings.Contains(err.Error(), "earlier") {
		t.Errorf("%v", err)
	}
	<-r.run.turn
	r.Timeout = 5 * time.Second
	if _, err := r.Devices(t.Context()); !errors.Is(err, ErrNone) {
		t.Errorf("after the hang: %v", err)
	}
}

func TestReaderProcesses(t *testing.T) {
	t.Parallel()
	r := &Reader{Command: smi(t, "file", "testdata/h200_apps.csv")}
	p, err := r.Processes(t.Context())
	if err != nil || len(p) != 1 || p[0].PID != 427 || *p[0].Memory != 3590<<20 {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestUnknownField reads what a driver really printed.
func TestUnknownField(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("testdata/unknown_field.txt")
	if err != nil {
		t.Fatal(err)
	}
	if m := unknownField.FindSubmatch(b); m == nil || string(m[1]) != "sweep.unknown" {
		t.Errorf("%q gives %q", b, m)
	}
}

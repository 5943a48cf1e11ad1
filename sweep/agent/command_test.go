package agent

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sweep/sweep"
)

func TestResolveCommand(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "run.sh")
	plain := filepath.Join(dir, "plain.txt")
	for path, mode := range map[string]os.FileMode{script: 0o755, plain: 0o644} {
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name    string
		command []string
		workdir string
		want    []string
		wrong   string // part of the sentence
	}{
		{"this program", []string{"sweep", "simulate"}, "", []string{"/bin/self", "simulate"}, ""},
		{"full path", []string{script, "-x"}, "", []string{script, "-x"}, ""},
		{"from the workdir", []string{"./run.sh"}, dir, []string{script}, ""},
		{"not there", []string{"/no/such/python"}, "", nil, "command /no/such/python: no such file"},
		{"not on PATH", []string{"no-such-server-x1"}, "", nil, "command no-such-server-x1: not found on PATH"},
		{"not executable", []string{plain}, "", nil, "chmod +x"},
		{"a folder", []string{dir}, "", nil, "is a folder: name the program in it"},
		{"no workdir", []string{script}, "/no/such/dir", nil, "workdir /no/such/dir: no such folder"},
		{"nothing", nil, "", nil, "no command"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := resolveCommand(tt.command, "/bin/self", tt.workdir)
			if tt.wrong != "" {
				if _, ok := errors.AsType[*EnvironmentError](err); !ok || !strings.Contains(err.Error(), tt.wrong) {
					t.Fatalf("error %v, want one with %q", err, tt.wrong)
				}
				return
			}
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("%v, %v; want %v", got, err, tt.want)
			}
		})
	}
}

func TestEnvironmentKeepsSecretsOut(t *testing.T) {
	own := []string{"PATH=/bin", "HF_TOKEN=hf_secret_value", "UNRELATED_KEY=another-secret", "TOKENIZERS_PARALLELISM=whatever", "X=1"}
	job := sweep.Params{{Name: "TOKEN", Value: "${env:HF_TOKEN}"}, {Name: "URL", Value: "http://u:${env:HF_TOKEN}@h/a b"}, {Name: "X", Value: "2"}}
	e, err := serverEnvironment(own, []string{"LOG=1"}, job, "GPU-1,GPU-2")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"TOKEN=hf_secret_value", "URL=http://u:hf_secret_value@h/a b", "X=2", "LOG=1", "PATH=/bin", "CUDA_VISIBLE_DEVICES=GPU-1,GPU-2"} {
		if !slices.Contains(e.All, want) {
			t.Errorf("environment lacks %s: %v", want, e.All)
		}
	}
	if slices.Contains(e.All, "X=1") {
		t.Error("X is there twice")
	}
	if !slices.Contains(e.Secrets, "hf_secret_value") || !slices.Contains(e.Secrets, "another-secret") || slices.Contains(e.Secrets, "whatever") {
		t.Errorf("secrets: %v", e.Secrets)
	}
	script := commandScript([]string{"/opt/py thon", "-m", "server", "--port", "1", "--it's", "a'b"}, e.Added, "/data dir")
	if strings.Contains(script, "hf_secret") {
		t.Errorf("the script holds a secret:\n%s", script)
	}
	if _, err := serverEnvironment(own, nil, sweep.Params{{Name: "A", Value: "${env:NOT_SET_X}"}}, ""); err == nil || !strings.Contains(err.Error(), "NOT_SET_X") {
		t.Errorf("error %v must name the variable", err)
	}
}

// The script must give a shell exactly the argv and the variables, whatever they hold.
func TestCommandScriptRuns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a dir's")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	e, err := serverEnvironment([]string{"SECRET_X=s3cret 'q' $HOME"}, nil, sweep.Params{{Name: "V", Value: "a${env:SECRET_X}'b"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	argv := []string{"/bin/sh", "-c", `printf '%s\n' "$V" "$PWD" "$@"`, "--", "--flag", "$(id) `id`", "it's", "", "a\"b"}
	path := filepath.Join(t.TempDir(), "command.sh")
	if err := sweep.WriteFile(path, []byte(commandScript(argv, e.Added, dir)), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", path)
	cmd.Env = []string{"SECRET_X=s3cret 'q' $HOME"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := strings.Join([]string{"as3cret 'q' $HOME'b", dir, "--flag", "$(id) `id`", "it's", "", "a\"b", ""}, "\n")
	if string(out) != want {
		t.Errorf("the shell saw\n%s, want\n%s", out, want)
	}
}

package main

import (
	"archive/zip"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	sglangVersion     = "0.5.23"
	vllmVersion       = "0.33.0"
	tokenizersVersion = "0.23.2" // what sglang 0.5.23 asks for
)

//go:embed python/tokenizer.py
var tokenizerScript string

// installer puts peers below a folder of the user's cache. What is there is left as it is.
type installer struct {
	root string
	log  *slog.Logger
}

// emptied are the files of the sglang package that are put in place of its own: its own ones import the code that runs
// on GPUs, which a client has no use for. The code of the clients is unchanged.
func emptied() map[string]string {
	return map[string]string{
		"__init__.py":                    "\"\"\"Empty: the clients need nothing of what the package's own file imports.\"\"\"\n",
		"srt/utils/__init__.py":          "\"\"\"Empty: the clients need nothing of what the package's own file imports.\"\"\"\n",
		"srt/disaggregation/utils.py":    "\"\"\"The one constant that the Python client imports.\"\"\"\n\nFAKE_BOOTSTRAP_HOST = \"2.2.2.2\"\n",
		"srt/disaggregation/__init__.py": "",
	}
}

// done runs a step once: its folder is kept only when the step ended well.
func (in *installer) done(ctx context.Context, name string, step func(ctx context.Context, folder string) error) (string, error) {
	folder := filepath.Join(in.root, name)
	mark := filepath.Join(folder, "complete")
	if _, err := os.Stat(mark); err == nil {
		return folder, nil
	}
	in.log.Info("installing", "what", name)
	if err := os.RemoveAll(folder); err != nil {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	if err := step(ctx, folder); err != nil {
		return "", fmt.Errorf("install %s: %w", name, err)
	}
	return folder, os.WriteFile(mark, nil, 0o644)
}

// run runs a command to its end; its output is in the error.
func run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = os.TempDir() // a folder named as a package would be imported from
	if out, err := cmd.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, strings.Join(lines[max(0, len(lines)-5):], " | "))
	}
	return nil
}

// venv makes an environment and installs packages into it; it returns the environment's python.
func venv(ctx context.Context, folder string, packages ...string) (string, error) {
	if err := run(ctx, "python3", "-m", "venv", folder); err != nil {
		return "", err
	}
	python := filepath.Join(folder, "bin", "python")
	return python, run(ctx, python, append([]string{"-m", "pip", "install", "-q"}, packages...)...)
}

// tokenizer makes the folder that the peers take for a model's tokenizer.
func (in *installer) tokenizer(ctx context.Context) (string, error) {
	folder, err := in.done(ctx, "tokenizer-"+tokenizersVersion, func(ctx context.Context, folder string) error {
		python, err := venv(ctx, filepath.Join(folder, "venv"), "tokenizers=="+tokenizersVersion)
		if err != nil {
			return err
		}
		return run(ctx, python, "-c", tokenizerScript, filepath.Join(folder, "mock"))
	})
	return filepath.Join(folder, "mock"), err
}

// sglang installs SGLang's clients and returns their python. The Rust one needs nothing but the wheel itself.
func (in *installer) sglang(ctx context.Context, withPython bool) (string, error) {
	name, packages := "sglang-"+sglangVersion, []string(nil)
	if withPython {
		name += "-python"
		packages = []string{"aiohttp", "transformers", "orjson", "msgspec", "numpy", "requests", "tqdm", "pillow", "pyzmq", "psutil", "pybase64", "datasets"}
	}
	folder, err := in.done(ctx, name, func(ctx context.Context, folder string) error {
		python, err := venv(ctx, folder, "--no-deps", "sglang=="+sglangVersion)
		if err != nil {
			return err
		}
		if len(packages) > 0 {
			if err := run(ctx, python, append([]string{"-m", "pip", "install", "-q"}, packages...)...); err != nil {
				return err
			}
		}
		found, err := filepath.Glob(filepath.Join(folder, "lib", "python3*", "site-packages", "sglang"))
		if err != nil || len(found) != 1 {
			return fmt.Errorf("%d folders of the package (%w)", len(found), err)
		}
		for file, text := range emptied() {
			if err := os.WriteFile(filepath.Join(found[0], filepath.FromSlash(file)), []byte(text), 0o644); err != nil {
				return err
			}
		}
		return run(ctx, python, "-m", "sglang.benchmark.rust_client", "--help")
	})
	return filepath.Join(folder, "bin", "python"), err
}

// vllmRust takes vLLM's client in Rust, one binary, out of the wheel.
func (in *installer) vllmRust(ctx context.Context) (string, error) {
	folder, err := in.done(ctx, "vllm-rs-"+vllmVersion, func(ctx context.Context, folder string) (err error) {
		if err := run(ctx, "python3", "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", folder, "vllm=="+vllmVersion); err != nil {
			return err
		}
		found, err := filepath.Glob(filepath.Join(folder, "vllm-*.whl"))
		if err != nil || len(found) != 1 {
			return fmt.Errorf("%d wheels (%w)", len(found), err)
		}
		wheel, err := zip.OpenReader(found[0])
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, wheel.Close(), os.Remove(found[0])) }()
		in, err := wheel.Open("vllm/vllm-rs")
		if err != nil {
			return err
		}
		defer in.Close()
		out, err := os.OpenFile(filepath.Join(folder, "vllm-rs"), os.O_CREATE|os.O_WRONLY, 0o755)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, in)
		return errors.Join(err, out.Close())
	})
	return filepath.Join(folder, "vllm-rs"), err
}

// vllmPython installs vLLM with all that it needs: several GB.
func (in *installer) vllmPython(ctx context.Context) (string, error) {
	folder, err := in.done(ctx, "vllm-"+vllmVersion, func(ctx context.Context, folder string) error {
		_, err := venv(ctx, folder, "vllm=="+vllmVersion)
		return err
	})
	return filepath.Join(folder, "bin", "vllm"), err
}

// peers installs those that are named and describes them.
func (in *installer) peers(ctx context.Context, names []string) ([]tool, error) {
	if len(names) == 0 {
		return nil, nil
	}
	tokenizer, err := in.tokenizer(ctx)
	if err != nil {
		return nil, err
	}
	var tools []tool
	for _, name := range names {
		var t tool
		var command string
		switch name {
		case "sglang-rs":
			command, err = in.sglang(ctx, false)
			t = sglangTool(name, sglangVersion, command, "sglang.benchmark.rust_client", tokenizer, true)
		case "sglang-py":
			command, err = in.sglang(ctx, true)
			t = sglangTool(name, sglangVersion, command, "sglang.benchmark.serving", tokenizer, false)
		case "vllm-rs":
			command, err = in.vllmRust(ctx)
			t = vllmTool(name, vllmVersion, command, tokenizer, true)
		case "vllm-py":
			command, err = in.vllmPython(ctx)
			t = vllmTool(name, vllmVersion, command, tokenizer, false)
		default:
			err = fmt.Errorf("no peer is named %q: sglang-rs, vllm-rs, sglang-py and vllm-py are", name)
		}
		if err != nil {
			return nil, err
		}
		tools = append(tools, t)
	}
	return tools, nil
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"sweep/report"
)

func newExportCmd(env *environ) *cobra.Command {
	var format, out string
	cmd := &cobra.Command{
		Use:   "export NIGHT",
		Short: "Write a night in the format of another tool",
		Long: `export writes a night's numbers for other tools:

  csv, jsonl      every record, with what a report works out beside
  gobench         for benchstat: one line for each measured record
  bench-serving   as SGLang's bench_serving writes it, by its definitions, ours beside as sweep_*
  vllm            as vLLM's "bench serve" and "bench sweep" write it, by their definitions, ours beside (a folder)
  parquet         cells.parquet and requests.parquet (a folder)

Of the times between tokens the other tools' files have the mean, by their definition, and ours beside with its percentiles
(sweep_p99_itl_ms): theirs are over every token of the run, warm-up and drain too, and a night keeps the arrival of no single token.`,
		Example: `  sweep export results/ --format gobench > new.txt && benchstat old.txt new.txt
  sweep export results/ --format parquet -o /tmp/kimi`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(_ *cobra.Command, args []string) error {
			dir, _, err := report.Find(args[0])
			if err != nil {
				return exitWith(exitUsage, err)
			}
			n, err := report.Read(dir)
			if err != nil {
				return err
			}
			if format == "parquet" || format == "vllm" {
				if out == "" {
					out = filepath.Join(dir, "export")
				}
				return env.exportFolder(n, format, out)
			}
			return env.exportFile(n, format, out)
		},
	}
	enumFlag(cmd, &format, "format", "jsonl", []string{"csv", "jsonl", "gobench", "bench-serving", "vllm", "parquet"}, "what to write")
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write instead of standard output; for parquet and vllm the folder (default NIGHT/export)")
	return cmd
}

// exportFile writes one file, or to standard output.
func (env *environ) exportFile(n *report.Night, format, out string) error {
	var b bytes.Buffer
	var err error
	switch format {
	case "csv":
		err = report.WriteCSV(&b, n)
	case "gobench":
		err = report.WriteGoBench(&b, n)
	case "bench-serving":
		err = report.WriteBenchServing(&b, n)
	default:
		err = report.WriteJSONL(&b, n)
	}
	if err != nil {
		return err
	}
	if b.Len() == 0 {
		return fmt.Errorf("nothing of %s can be written so: it has no measured records with their requests", n.Name)
	}
	if out == "" {
		_, err = env.Stdout.Write(b.Bytes())
		return err
	}
	if err := os.WriteFile(out, b.Bytes(), 0o644); err != nil {
		return err
	}
	env.say("wrote %s", out)
	return nil
}

// exportFolder writes the formats that have several files.
func (env *environ) exportFolder(n *report.Night, format, out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	if format == "vllm" {
		runs, err := report.VLLMRuns(n)
		if err != nil {
			return err
		}
		for _, run := range runs {
			path := filepath.Join(out, filepath.FromSlash(run.Path))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(path, run.Data, 0o644); err != nil {
				return err
			}
		}
		env.say("wrote %s below %s", plural(len(runs), "run"), out)
		return nil
	}
	if err := toFile(filepath.Join(out, "cells.parquet"), func(w io.Writer) error { return report.WriteCellsParquet(w, n) }); err != nil {
		return err
	}
	requests := 0
	err := toFile(filepath.Join(out, "requests.parquet"), func(w io.Writer) (err error) {
		requests, err = report.WriteRequestsParquet(w, n)
		return err
	})
	if err != nil {
		return err
	}
	env.say("wrote cells.parquet and requests.parquet (%s) to %s", plural(requests, "request"), out)
	return nil
}

// toFile writes a file; when it fails nothing of it is left.
func toFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Close())
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

func newImportCmd(env *environ) *cobra.Command {
	var root, name string
	cmd := &cobra.Command{
		Use:   "import PATH...",
		Short: "Make a night of another tool's results",
		Long: `import reads results of SGLang's bench_serving (JSON lines) and of vLLM's "bench serve" and "bench sweep" (JSON files; folders are searched)
into a new night, so that the same tables, pictures and comparisons can be made of them. The numbers stay as their tool defines them.`,
		Example: `  sweep import sglang_1129_1000_random.jsonl --name before
  sweep import results/20261129_180000 --name vllm && sweep report results/`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			im, err := report.Import(root, name, args, time.Now())
			if im != nil {
				for _, p := range im.Problems {
					env.alert("%s", p)
				}
			}
			if err != nil {
				return exitWith(exitUsage, err)
			}
			if _, err := fmt.Fprintln(env.Stdout, im.Dir); err != nil {
				return err
			}
			env.say("%s; see them with: sweep report %s", plural(im.Records, "record"), im.Dir)
			return nil
		},
	}
	outputFlag(cmd, &root)
	cmd.Flags().StringVar(&name, "name", "import", "what the new night's name begins with")
	return cmd
}

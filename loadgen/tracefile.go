package loadgen

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// mooncakeBlock is how many tokens a hash of a Mooncake trace stands for.
const mooncakeBlock = 512

// ReadTrace reads a trace of requests: Mooncake's JSON lines (timestamp in ms, input_length, output_length, hash_ids), or a CSV file
// that is read by the names of its columns, as BurstGPT's (Timestamp in s, Request tokens, Response tokens) and
// Azure's (TIMESTAMP, ContextTokens, GeneratedTokens) are. Times count from the first request; requests without output
// are left out.
func ReadTrace(from io.Reader) ([]TraceRequest, error) {
	in := bufio.NewReaderSize(from, 1<<20)
	first, err := firstByte(in)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	read := readCSVTrace
	if first == '{' {
		read = readMooncake
	}
	list, err := read(in)
	if err == nil && len(list) == 0 {
		err = errors.New("no request with output")
	}
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	slices.SortStableFunc(list, func(a, b TraceRequest) int { return cmp.Compare(a.At, b.At) })
	zero := list[0].At
	for i := range list {
		list[i].At -= zero
	}
	return list, nil
}

func readMooncake(in *bufio.Reader) ([]TraceRequest, error) {
	var list []TraceRequest
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			var l struct {
				At     *float64 `json:"timestamp"`
				Input  int      `json:"input_length"`
				Output int      `json:"output_length"`
				Hashes []int64  `json:"hash_ids"`
			}
			if err := json.Unmarshal(line, &l); err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
			if l.At == nil || *l.At < 0 || *l.At > maxTrace || l.Input < 1 {
				return nil, fmt.Errorf("line %d: needs a timestamp in ms and an input_length", n)
			}
			if l.Output > 0 {
				list = append(list, TraceRequest{At: time.Duration(*l.At * 1e6), Input: l.Input, Output: l.Output, Blocks: l.Hashes, BlockTokens: mooncakeBlock})
			}
		}
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

const maxTrace = 1e12 // ms

// traceColumns are the names of what matters, in small letters.
var traceColumns = [3][]string{{"timestamp"}, {"request tokens", "contexttokens", "input_length"}, {"response tokens", "generatedtokens", "output_length"}}

func readCSVTrace(in *bufio.Reader) ([]TraceRequest, error) {
	table := csv.NewReader(in)
	table.FieldsPerRecord = -1
	head, err := table.Read()
	if err != nil {
		return nil, err
	}
	var at [3]int
	for i, names := range traceColumns {
		at[i] = slices.IndexFunc(head, func(h string) bool { return slices.Contains(names, strings.ToLower(strings.TrimSpace(h))) })
		if at[i] < 0 {
			return nil, fmt.Errorf("no column %s among %s", strings.Join(names, " or "), strings.Join(head, ", "))
		}
	}
	var list []TraceRequest
	for {
		row, err := table.Read()
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		line, _ := table.FieldPos(0)
		if len(row) <= max(at[0], at[1], at[2]) {
			return nil, fmt.Errorf("line %d: too few columns", line)
		}
		when, err1 := traceTime(row[at[0]])
		input, err2 := strconv.Atoi(strings.TrimSpace(row[at[1]]))
		output, err3 := strconv.Atoi(strings.TrimSpace(row[at[2]]))
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if input > 0 && output > 0 {
			list = append(list, TraceRequest{At: when, Input: input, Output: output})
		}
	}
}

// traceTime reads seconds, or a time of day.
func traceTime(s string) (time.Duration, error) {
	s = strings.TrimSpace(s)
	if v, err := strconv.ParseFloat(s, 64); err == nil {
		if !(v >= 0 && v <= maxTrace/1000) {
			return 0, fmt.Errorf("%q is no time", s)
		}
		return time.Duration(v * 1e9), nil
	}
	for _, form := range []string{"2006-01-02 15:04:05.9999999", time.RFC3339Nano, "2006-01-02 15:04:05.999999999-07:00"} {
		if t, err := time.Parse(form, s); err == nil {
			return time.Duration(t.UnixNano()), nil
		}
	}
	return 0, fmt.Errorf("%q is neither seconds nor a time", s)
}

// SpreadTrace spreads requests that a coarse clock put on one moment over the quantum after it, by the seed: traces are
// published with times of 1 s or 3 s, and sent verbatim they come as herds.
func SpreadTrace(list []TraceRequest, quantum time.Duration, seed uint64) []TraceRequest {
	rng := stream(seed, "spread")
	list = slices.Clone(list)
	for i := range list {
		list[i].At += time.Duration(rng.Int64N(max(1, int64(quantum))))
	}
	slices.SortStableFunc(list, func(a, b TraceRequest) int { return cmp.Compare(a.At, b.At) })
	return list
}

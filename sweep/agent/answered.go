package agent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"

	"sweep/loadgen"
	"sweep/sweep"
)

// longestAnswer is how much of an answer is kept as evidence, in bytes; of a line of a log it is as much.
const longestAnswer = 500

// answered is the evidence of a load that a living server refused or failed: the log of such a server mostly says nothing of it,
// so what counts is the answer that the first of these requests got, in the load's own requests.jsonl. It is nil for any other end.
func answered(e sweep.Ending, requests, named string) *sweep.Evidence {
	want := loadgen.Rejected
	switch {
	case e.Evidence != nil || e.Phase != sweep.PhaseLoad || e.Exit != nil:
		return e.Evidence
	case e.Outcome == sweep.LoadFailed:
		want = loadgen.Failed
	case e.Outcome != sweep.LoadRejected && e.Outcome != sweep.KVTooSmall:
		return nil
	}
	f, err := os.Open(requests)
	if err != nil {
		return nil // the detail tells the same in other words
	}
	defer func() { _ = f.Close() }() // only read from
	lines := bufio.NewReader(f)
	var offset int64
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil
		}
		var q struct {
			Outcome loadgen.Outcome `json:"outcome"`
			Reason  string          `json:"reason"`
		}
		if json.Unmarshal(bytes.TrimSpace(line), &q) == nil && q.Outcome == want && q.Reason != "" {
			text := sweep.Printable(q.Reason)
			if len(text) > longestAnswer {
				text = string(bytes.ToValidUTF8([]byte(text[:longestAnswer]), nil)) + "…"
			}
			return &sweep.Evidence{File: named, Line: number, Offset: offset, Text: text}
		}
		offset += int64(len(line))
	}
}

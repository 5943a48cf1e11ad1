package report

import (
	"bytes"
	"strings"
	"testing"

	"sweep/sweep"
)

// A load that a living server refused: what it answered stands in table and page, with its place; of a night that kept no place they say so.
func TestAnswerAsEvidence(t *testing.T) {
	const answer = "400: BAD_REQUEST: Input length (9837 tokens) exceeds the maximum allowed length (8522 tokens)."
	for _, kept := range []bool{true, false} {
		refused := cell("a=2", "0.105", load("chat", "long", 8), 1, 0)
		refused.Ending = sweep.Ending{Outcome: sweep.KVTooSmall, Phase: sweep.PhaseLoad, Detail: "the KV pool cannot hold one request; the first: long request 0: too_long: " + answer}
		refused.Values = sweep.Values{}
		where := noLine
		if kept {
			refused.Evidence = &sweep.Evidence{File: "launches/x/attempt=1/load=chat,long=8/requests.jsonl", Line: 3, Offset: 900, Text: answer}
			where = "load=chat,long=8/requests.jsonl"
		}
		n, err := Read(put(t, map[string]string{CellsFile: lineOf(t, cell("a=1", "0.80", load("chat", "long", 8), 1, 100)) + lineOf(t, refused)}))
		if err != nil {
			t.Fatal(err)
		}
		s := Summarize(n)
		failed, _ := s.pageFailures()
		if len(failed) != 1 || !strings.Contains(failed[0].Source, where) {
			t.Fatalf("kept %v: %+v", kept, failed)
		}
		if kept && (len(failed[0].Lines) != 1 || failed[0].Lines[0].Text != answer || !failed[0].Lines[0].Hit) {
			t.Errorf("the page quotes %+v", failed[0].Lines)
		}
		var table bytes.Buffer
		if err := WriteTable(&table, s, Options{}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(table.String(), where) || !strings.Contains(table.String(), "exceeds the maximum allowed length") {
			t.Errorf("kept %v: the table does not say %q: %s", kept, where, table.String())
		}
	}
}

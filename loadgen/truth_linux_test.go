//go:build linux && (amd64 || arm64)

package loadgen

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"sweep/loadgen/truth"
)

var truthKinds = map[truth.Kind]ChunkKind{
	truth.Role: ChunkRole, truth.Empty: ChunkEmpty, truth.Reasoning: ChunkReasoning, truth.Content: ChunkContent, truth.Usage: ChunkUsage, truth.Done: ChunkDone,
}

// heldAgainst gives every request of a run against a server whose timing is known, with that server's log of it and the
// difference of the two clocks: a time of the log minus zero is a time of the record.
func heldAgainst(t testing.TB, spec Spec, options truth.Options, each func(r *Record, log *truth.Request, zero int64)) Result {
	t.Helper()
	server, err := truth.Listen(options)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	spec.URL, spec.Dial, spec.Tagged = server.URL(), nil, true
	var record bytes.Buffer
	spec.Record = &record
	res, err := Run(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	logs := map[string]*truth.Request{}
	for _, l := range server.Log() {
		logs[l.ID] = &l
	}
	head, err := ReadRecord(bytes.NewReader(record.Bytes()), nil)
	if err != nil {
		t.Fatal(err)
	}
	zero := head.Head.Started.UnixNano()
	if _, err := ReadRecord(&record, func(r *Record) error {
		l := logs[r.ID()]
		if l == nil {
			return fmt.Errorf("request %s is not in the server's log", r.ID())
		}
		each(r, l, zero)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return res
}

// Every pattern on every route: each event that was written is in the record, with its kind and its tokens, stamped after its
// write, and each definition gives what the server's log gives, but for what the way adds.
func TestRecordsTellTheTruth(t *testing.T) {
	const slack = 2 * time.Millisecond // between the clocks
	for _, pattern := range truth.Patterns() {
		if pattern == "endless" || pattern == "prefill" || pattern == "accept" {
			continue
		}
		for _, route := range []string{"/v1/completions", "/v1/chat/completions", "/generate"} {
			t.Run(pattern+route, func(t *testing.T) {
				t.Parallel()
				times := `"first_us":3000,"gap_us":700`
				if pattern == "role" {
					times = `"first_us":30000,"role_us":25000,"gap_us":700`
				}
				plan, err := truth.ParsePlan(truth.DefaultPlan(), fmt.Appendf(nil, `{"pattern":%q,%s}`, pattern, times))
				if err != nil {
					t.Fatal(err)
				}
				spec := Spec{
					Route: route, Model: "mock", Vocabulary: []int{5, 6, 7}, Seed: 1, Salt: pattern,
					Classes: []Class{{Name: "a", Concurrency: 3, Input: Range{3, 3}, Output: Range{24, 24}}},
					Window:  Window{Max: time.Minute, Requests: map[string]int{"a": 6}, Exactly: true},
				}
				good, refused := 0, 0
				heldAgainst(t, spec, truth.Options{Plan: plan}, func(r *Record, l *truth.Request, zero int64) {
					if l.Status != 200 || l.Plan.ResetAfter > 0 || l.Plan.StopAfter > 0 {
						refused++
						if r.Outcome == OK {
							t.Errorf("%s of status %d is %s", r.ID(), l.Status, r.Outcome)
						}
						return
					}
					good++
					if r.Outcome != OK || r.OutputTokens != l.Sent || r.PromptTokens != l.Prompt {
						t.Errorf("%s: %s %s %s, %d tokens of %d, prompt %d of %d", r.ID(), r.Outcome, r.Kind, r.Reason, r.OutputTokens, l.Sent, r.PromptTokens, l.Prompt)
						return
					}
					compareTruth(t, r, l, zero, slack)
				})
				if good+refused != 6 {
					t.Errorf("%d good, %d refused", good, refused)
				}
			})
		}
	}
}

func compareTruth(t *testing.T, r *Record, l *truth.Request, zero int64, slack time.Duration) {
	t.Helper()
	var chunks []Chunk
	for _, c := range r.Chunks {
		if c.Kind != ChunkUsage && c.Kind != ChunkDone && c.Kind != ChunkComment { // /generate has no events of counts
			chunks = append(chunks, c)
		}
	}
	i := 0
	for _, e := range l.Events {
		want := truthKinds[e.Kind]
		if want == ChunkUsage || want == ChunkDone {
			continue
		}
		if i == len(chunks) {
			t.Errorf("%s: %d events in the record, more were written", r.ID(), len(chunks))
			return
		}
		c := chunks[i]
		i++
		same := c.Kind == want || want == ChunkEmpty && c.Kind == ChunkRole // a first chunk with a role and no text
		if !same || r.Counted && c.Tokens != int(e.Tokens) {
			t.Errorf("%s: event %d is %s of %d tokens, %s of %d was written", r.ID(), i, c.Kind, c.Tokens, want, e.Tokens)
		}
		if late := c.At - time.Duration(e.Last-zero); late < -slack {
			t.Errorf("%s: event %d is stamped %v before it was written", r.ID(), i, -late)
		}
	}
	if i < len(chunks) {
		t.Errorf("%s: %d events in the record, %d were written", r.ID(), len(chunks), i)
	}
	x := truth.Expect(l)
	for _, m := range []struct {
		name string
		f    func() (time.Duration, bool)
		want *int64
	}{
		{"TTFT", r.TTFT, x.FirstToken}, {"TextTTFT", r.TextTTFT, x.FirstText}, {"ContentTTFT", r.ContentTTFT, x.FirstContent},
		{"ChoiceTTFT", r.ChoiceTTFT, x.FirstEvent}, {"E2E", r.E2E, x.E2EToken}, {"StreamE2E", r.StreamE2E, x.E2EEnd},
	} {
		got, ok := m.f()
		if m.name == "TTFT" && !r.Counted { // an empty event whose token nobody counts cannot be told from no token
			continue
		}
		if ok != (m.want != nil) {
			t.Errorf("%s: %s is there: %v", r.ID(), m.name, ok)
		} else if ok && got < time.Duration(*m.want)-slack {
			t.Errorf("%s: %s %v, at least %v by the server's log", r.ID(), m.name, got, time.Duration(*m.want))
		}
	}
}

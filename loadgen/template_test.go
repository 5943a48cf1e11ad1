package loadgen

import (
	"fmt"
	"testing"
)

// What many streams have in common is learnt once: neither their ids nor the odd events at their ends make it be learnt again,
// and another shape takes its place when it stays.
func TestTemplateOfManyStreams(t *testing.T) {
	t.Parallel()
	plain := func(id, n int) string {
		return fmt.Sprintf(`{"id":"cmpl-%d","choices":[{"text":"t%d","finish_reason":null}],"usage":{"completion_tokens":%d}}`, id, n, n)
	}
	last := `{"id":"cmpl-9","choices":[{"text":"z","finish_reason":"length"}],"usage":{"completion_tokens":30}}`
	var shape template
	scan := func(data string) {
		t.Helper()
		var want event
		scanEvent([]byte(data), &want)
		if got := shape.scan([]byte(data)); fmt.Sprintf("%+v", *got) != fmt.Sprintf("%+v", want) {
			t.Fatalf("%s:\ngot  %+v\nwant %+v", data, *got, want)
		}
	}
	fits := func(data string) bool { return shape.match([]byte(data), new(event)) }
	for id := range 4 {
		scan(plain(id, 1))
	}
	for n := range missesAtMost {
		scan(last)
		for id := range 4 {
			if !fits(plain(id+4, n)) {
				t.Fatalf("stream %d does not fit after %d ends of streams", id, n+1)
			}
			scan(plain(id, n))
		}
	}
	other := func(n int) string {
		return fmt.Sprintf(`{"choices":[{"delta":{"content":"t%d"}}],"usage":{"completion_tokens":%d}}`, n, n)
	}
	for n := range missesAtMost + 1 {
		scan(other(n))
	}
	if !fits(other(100)) || fits(plain(1, 1)) {
		t.Errorf("after %d events of another shape: it fits %v, the old one %v", missesAtMost+1, fits(other(100)), fits(plain(1, 1)))
	}
}

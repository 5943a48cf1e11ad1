package engine

import (
	"context"
	"fmt"
	"testing"
)

func TestCountsFirstTokens(t *testing.T) {
	page := func(generated, decoded int) string {
		return fmt.Sprintf("sglang:generation_tokens_total{is_streaming=\"false\"} %d.0\nsglang:realtime_tokens_total{mode=\"decode\"} %d.0\n", generated, decoded)
	}
	for _, c := range []struct {
		version, page string
		want          bool
	}{
		{"0.5.17", page(8, 7), true}, // counted when the recordings were made
		{"0.4.10.post2", page(0, 0), true},
		{"0.5.23", page(8, 7), false},
		{"0.5.20", page(8, 8), true}, // a version that nobody has looked at shows it
		{"0.5.20", page(8, 7), false},
		{"0.5.20", "", false},
	} {
		get := func(context.Context, string, string, []byte) (int, []byte, error) { return 200, []byte(c.page), nil }
		if got := countsFirstTokens(t.Context(), get, c.version); got != c.want {
			t.Errorf("%s with %q: %v", c.version, c.page, got)
		}
	}
}

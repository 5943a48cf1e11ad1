package report

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestFloors(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"local": `[{"streams":8,"events_per_s":160,"verdict":"valid","steps":[{"ttft_error_p99_us":900,"itl_error_p99_us":1,"stamps":"user"}]},
			{"streams":100,"events_per_s":5000,"verdict":"suspect","steps":[{"ttft_error_p99_us":40.4,"itl_error_p99_us":12,"stamps":"kernel"}]}]`,
		"torn":  `[{"streams":8`,
		"other": `[{"streams":1,"events_per_s":20,"verdict":"valid","steps":[{"stamps":"kernel"}]}]`,
	} {
		folder := filepath.Join(dir, "agents", name)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "selftest.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"local: p99 of the error of TTFT 0.04 ms, of the time between tokens 0.01 ms, at 100 streams and 5,000 events/s by kernel stamps; the test itself was suspect"}
	if got := (&Night{Dir: dir}).floors(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

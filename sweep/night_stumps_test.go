package sweep

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestStumps: what is left of a night that never began goes away with the next one; everything else stays.
func TestStumps(t *testing.T) {
	root := t.TempDir()
	now := time.Now()
	put := func(name string, age time.Duration, files ...string) {
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chtimes(dir, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	put("a-20261129T180000Z", 0, "lock", "grid.yaml", "manifest.json.part") // its process was killed
	put("a-20261129T180000Z-2", time.Hour)                                  // the same, before it had a lock
	put("b-20261129T180001Z", 0)                                            // may be about to begin
	put("b-20261129T180002Z", time.Hour, "lock", "manifest.json")           // a night
	put("b-20261129T180003Z", time.Hour, "lock", "grid.yaml", "notes.txt")  // somebody's
	put("mine", time.Hour)
	put("c-20261129T180004Z", time.Hour, "lock", "grid.yaml") // held
	f, err := os.OpenFile(filepath.Join(root, "c-20261129T180004Z", "lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if ok, err := tryLock(f); !ok || err != nil {
		t.Fatalf("lock: %t, %v", ok, err)
	}
	removeStumps(root, now)
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := []string{"b-20261129T180001Z", "b-20261129T180002Z", "b-20261129T180003Z", "c-20261129T180004Z", "mine"}
	if !slices.Equal(names, want) {
		t.Errorf("left %v, want %v", names, want)
	}
}

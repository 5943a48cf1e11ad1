package sweep

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestDeadline(t *testing.T) {
	at := func(text string) time.Time {
		v, err := time.ParseInLocation("2006-01-02 15:04:05", text, time.Local)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	tests := []struct {
		name, now string
		grid      Grid
		want      string
	}{
		{"none", "2026-11-29 18:00:00", Grid{}, ""},
		{"budget", "2026-11-29 18:00:00", Grid{Budget: 90 * time.Minute}, "2026-11-29 19:30:00"},
		{"until the morning", "2026-11-29 18:00:00", Grid{Until: "07:30"}, "2026-11-30 07:30:00"},
		{"until later today", "2026-11-29 06:00:01", Grid{Until: "07:30"}, "2026-11-29 07:30:00"},
		{"until just now", "2026-11-29 07:30:00", Grid{Until: "07:30"}, "2026-11-30 07:30:00"},
		{"over the end of a year", "2026-12-31 23:59:59", Grid{Until: "00:00"}, "2027-01-01 00:00:00"},
	}
	for _, tt := range tests {
		got := tt.grid.Deadline(at(tt.now))
		if tt.want == "" {
			if !got.IsZero() {
				t.Errorf("%s: %s, want none", tt.name, got)
			}
		} else if !got.Equal(at(tt.want)) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestRemaining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if d := Remaining(time.Time{}); d != nil {
			t.Errorf("without a deadline %s remain", *d)
		}
		deadline := time.Now().Add(time.Minute)
		time.Sleep(45 * time.Second)
		if d := Remaining(deadline); d == nil || *d != 15*time.Second {
			t.Errorf("%v remain, want 15s", d)
		}
		time.Sleep(time.Hour)
		if d := Remaining(deadline); d == nil || *d != 0 {
			t.Errorf("%v remain of a deadline that has passed, want none", d)
		}
	})
}

package main

import (
	"testing"

	"sweep/sweep"
)

func TestUnanswered(t *testing.T) {
	t.Parallel()
	s := sweep.Summary{Planned: 9, Recorded: 8, Outcomes: map[sweep.Outcome]int{
		sweep.OK: 3, sweep.OOMPrefill: 1, sweep.SkippedImplied: 1, sweep.CrashStart: 2, sweep.BadFlag: 1,
	}}
	const want = "exit code 1: 4 of 9 cells ended without a result (no record 1, bad.flag 1, crash.start 2)"
	if got := unanswered(s); got != want || s.Code() != exitOther {
		t.Errorf("%s, code %d; want %s", got, s.Code(), want)
	}
}

// Package failpoint marks the steps at which a process may die, so that a test can kill it at each of them in turn.
// In a normal build a mark is nothing; with the build tag failpoints, [Hit] looks at the environment:
//
//	SWEEP_FAILPOINT_TRACE=FILE    appends "ROLE NAME" to FILE at each mark, where ROLE is the program's first argument
//	SWEEP_FAILPOINT="ROLE NAME"   kills the process with SIGKILL at the first mark of that role and name …
//	SWEEP_FAILPOINT_ONCE=FILE     … once in all: only the process that makes FILE dies
//	SWEEP_FAILPOINT_PARENT=1      … and its parent with it, at the same moment
//
// The steps to use it:
//
//	failpoint.Hit("journal.written")        // between two steps that a crash may separate
//	failpoint.At("file.renamed", path)      // in code that serves many files: the file's name is part of the mark's
//	go build -tags failpoints ./cmd/sweep   // bench/killstorm does, and kills at every mark
package failpoint

package loadgen

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// MergeRecords writes one record of those of several processes that shared one load by [Spec.Part]: as if one process
// had sent it all. Times count, in each process, from the moment that they agreed on. Its verdict is the worst of theirs.
func MergeRecords(to io.Writer, records ...io.ReadSeeker) error {
	res, err := Summarize(records...)
	if err != nil {
		return fmt.Errorf("merge: %w", err)
	}
	out := bufio.NewWriterSize(to, 256<<10)
	if _, err := out.WriteString(recordMagic); err != nil {
		return err
	}
	var parts []Recording
	for i, r := range records {
		_, err := r.Seek(0, io.SeekStart)
		var rec Recording
		if err == nil {
			rec, err = ReadRecord(r, nil)
		}
		if err != nil {
			return fmt.Errorf("merge: record %d: %w", i+1, err)
		}
		parts = append(parts, rec)
	}
	return errors.Join(mergeFrames(out, res, parts, records), out.Flush())
}

func mergeFrames(out io.Writer, res Result, parts []Recording, records []io.ReadSeeker) error {
	head, win := parts[0].Head, common(parts)
	head.Part, head.Parts, head.Client, head.Stamps = 0, 1, res.Client, res.Stamps
	buf := appendJSONFrame(nil, frameHead, head)
	if win.opened >= 0 {
		buf = appendJSONFrame(buf, frameMark, RecordMark{markOpened, win.opened})
	}
	if win.opened >= 0 && win.closed != never {
		buf = appendJSONFrame(buf, frameMark, RecordMark{markClosed, win.closed})
	}
	if _, err := out.Write(buf); err != nil {
		return err
	}
	ended, whole := RecordEnd{Complete: res.Complete, Verdict: res.Verdict, Why: res.Why, Evidence: res.Evidence}, true
	for i, r := range records {
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			return err
		}
		_, err := readFinished(r, func(f *finished) error {
			buf = appendFrame(buf[:0], frameRequest, func(b []byte) []byte { return appendRequest(b, f) })
			_, err := out.Write(buf)
			return err
		})
		if err != nil {
			return fmt.Errorf("merge: record %d: %w", i+1, err)
		}
		if parts[i].End == nil {
			whole = false
			continue
		}
		ended.Ended = max(ended.Ended, parts[i].End.Ended)
	}
	if !whole { // as the record of a process that was killed
		return nil
	}
	_, err := out.Write(appendJSONFrame(buf[:0], frameEnd, ended))
	return err
}

package proc

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// output carries the server's output to the log.
type output struct {
	pipe *os.File
	file *os.File
	log  *capLog
	done sync.WaitGroup
}

// copy runs until every process that holds the other end has closed it.
func (o *output) copy(secrets []string) {
	r := NewRedactor(o.log, secrets)
	buf := make([]byte, 256<<10)
	for {
		if o.log.waiting() {
			_ = o.pipe.SetReadDeadline(time.Now().Add(quietAfter))
		}
		n, err := o.pipe.Read(buf)
		_, _ = r.Write(buf[:n]) // the log takes everything
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded) && o.log.waiting():
			o.log.quiet()
			_ = o.pipe.SetReadDeadline(time.Time{})
		default:
			_ = r.Close()
			o.log.finish()
			return
		}
	}
}

// finish waits for the last bytes and makes the log durable. Somebody outside the tree may have been
// given the pipe: it is not waited for long.
func (o *output) finish() error {
	timer := time.AfterFunc(lastOutput, func() { o.pipe.Close() })
	o.done.Wait()
	timer.Stop()
	o.pipe.Close()
	err := o.log.err
	if e := o.file.Sync(); err == nil {
		err = e
	}
	if e := o.file.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("write the log: %w", err)
	}
	return nil
}

package proc

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// kernelLog is an open reader of the kernel's log, at the place where it was opened. nil reads nothing.
type kernelLog struct{ fd int }

// maxKernelLog bounds what is read of the kernel's log, in bytes.
const maxKernelLog = 4 << 20

// openKernelLog begins after the newest record; nil where the log may not be read.
func openKernelLog() *kernelLog {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	if _, err := unix.Seek(fd, 0, unix.SEEK_END); err != nil {
		unix.Close(fd)
		return nil
	}
	return &kernelLog{fd}
}

// read gives what was logged since the last call, one line a record.
func (l *kernelLog) read() []byte {
	if l == nil {
		return nil
	}
	var out bytes.Buffer
	buf := make([]byte, 8192) // the kernel's own limit is less
	for out.Len() < maxKernelLog {
		n, err := unix.Read(l.fd, buf)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EPIPE): // records were overwritten: go on with the oldest
			continue
		case err != nil || n <= 0:
			return out.Bytes()
		}
		if line, ok := kernelLine(string(buf[:n])); ok {
			out.WriteString(line)
		}
	}
	return out.Bytes()
}

func (l *kernelLog) close() {
	if l != nil {
		unix.Close(l.fd)
	}
}

// kernelLine turns a record "6,1234,90123456,-;text" into dmesg's "[   90.123456] text". Lines after the first are
// the record's dictionary.
func kernelLine(record string) (string, bool) {
	head, text, ok := strings.Cut(record, ";")
	fields := strings.Split(head, ",")
	if !ok || len(fields) < 3 {
		return "", false
	}
	micros, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return "", false
	}
	text, _, _ = strings.Cut(text, "\n")
	return fmt.Sprintf("[%5d.%06d] %s\n", micros/1e6, micros%1e6, text), true
}

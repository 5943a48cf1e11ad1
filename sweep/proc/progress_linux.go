package proc

// bytesRead is what a process has read: by its calls, which includes the page cache, or from disk,
// which includes pages that a mapped file brought in.
func bytesRead(pid int) (int64, error) {
	f, err := readFields(procPath(pid, "io"))
	if err != nil {
		return 0, err
	}
	return max(f["rchar"], f["read_bytes"]), nil
}

package proc

import (
	"bytes"
	"os"
	"os/user"
	"strconv"
	"strings"
)

// initialPIDs is what the kernel names the first space of process numbers.
const initialPIDs = "pid:[4026531836]"

// HostPIDs reports whether process numbers here are those of the machine itself. Inside a container they
// are not, so a number that a driver tells means another process, or none.
func HostPIDs() bool {
	name, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && name == initialPIDs
}

// Who says whose process it is and what it runs, secrets blanked out; what cannot be seen is empty.
func Who(pid int) (owner, command string) {
	dir := "/proc/" + strconv.Itoa(pid)
	if b, err := os.ReadFile(dir + "/status"); err == nil {
		for line := range bytes.Lines(b) {
			if f := strings.Fields(string(line)); len(f) > 1 && f[0] == "Uid:" {
				owner = f[1]
			}
		}
	}
	if u, err := user.LookupId(owner); owner != "" && err == nil {
		owner = u.Username
	}
	if b, err := os.ReadFile(dir + "/cmdline"); err == nil {
		command = Redact(strings.TrimSpace(string(bytes.ReplaceAll(b, []byte{0}, []byte(" ")))), nil)
	}
	return owner, command
}

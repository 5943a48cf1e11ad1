package simulate

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// persistenceFile is there while the persistence mode of the simulated cards is off.
const persistenceFile = "persistence.off"

// persistence is the cards' persistence mode, which is on until somebody takes it off.
func persistence(p *Profile) string {
	if _, err := os.Stat(filepath.Join(StateDir(p), persistenceFile)); err == nil {
		return "Disabled"
	}
	return "Enabled"
}

// control changes the simulated cards. As with the real driver a reset is refused while the persistence mode is on or a
// process holds memory; it frees what nobody holds, unless the fault wedge made that stay.
func (o smiOptions) control(claims []Claim, stdout io.Writer) int {
	p := o.profile
	off := filepath.Join(StateDir(p), persistenceFile)
	switch {
	case o.persist == "0":
		if err := writeAtomic(off, nil); err != nil {
			fmt.Fprintln(stdout, err)
			return 255
		}
	case o.persist == "1":
		_ = os.Remove(off) // it may not be there
	case o.persist != "":
		fmt.Fprintf(stdout, "%q is not a valid persistence mode.\n", o.persist)
		return 2
	}
	if !o.reset {
		fmt.Fprintln(stdout, "All done.")
		return 0
	}
	line := "reset " + o.id + "\n"
	f, err := os.OpenFile(filepath.Join(StateDir(p), resetsFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(line)
		f.Close()
	}
	if err != nil {
		fmt.Fprintln(stdout, err)
		return 255
	}
	for gpu := range p.GPUCount {
		for _, c := range claims {
			if o.selected(gpu) && (persistence(p) == "Enabled" || c.Name != "" && c.GPUBytes[gpu] > 0) {
				fmt.Fprintf(stdout, "GPU %s is currently in use by another process.\n", p.BusID(gpu))
				return 255
			}
		}
	}
	removeClaims(p, keptFile)
	fmt.Fprintln(stdout, "All done.")
	return 0
}

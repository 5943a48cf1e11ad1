package simulate

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// StateVariable is the environment variable that names the folder in which simulated machines keep their state.
const StateVariable = "SWEEP_SIMULATE_STATE"

// StateDir is where the processes of a simulated machine keep their claims on its memory:
// $SWEEP_SIMULATE_STATE, else a folder of the user and the profile below the temporary folder.
func StateDir(p *Profile) string {
	if dir := os.Getenv(StateVariable); dir != "" {
		return dir
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("sweep-simulate-%d", os.Getuid()), p.Name)
}

// Claim is what one process holds of a simulated machine. It counts while the process lives; a PID of
// 0 counts always, which is how a test puts a stranger on a GPU.
type Claim struct {
	PID        int           `json:"pid"`
	StartTicks uint64        `json:"start_ticks,omitempty"` // of the process, so that a reused PID does not count
	Name       string        `json:"name"`
	GPUBytes   map[int]int64 `json:"gpu_bytes,omitempty"` // by GPU index
	HostBytes  int64         `json:"host_bytes,omitempty"`
}

// claimFile is one file of claims.
type claimFile struct {
	Profile string  `json:"profile"`
	Claims  []Claim `json:"claims"`
}

// WriteClaims puts claims on a simulated machine into a file of this name in its state folder, replacing the file.
func WriteClaims(p *Profile, name string, claims []Claim) error {
	data, err := json.Marshal(claimFile{p.Name, claims})
	if err != nil {
		return fmt.Errorf("claims: %w", err)
	}
	if err := writeAtomic(filepath.Join(StateDir(p), name+".json"), data); err != nil {
		return fmt.Errorf("claims: %w", err)
	}
	return nil
}

// removeClaims forgets a file of claims.
func removeClaims(p *Profile, name string) {
	os.Remove(filepath.Join(StateDir(p), name+".json")) // one that stays is ignored when its processes are dead
}

// liveClaims reads the claims of the living on a simulated machine. Files of the dead are removed.
func liveClaims(p *Profile) ([]Claim, error) {
	names, err := filepath.Glob(filepath.Join(StateDir(p), "*.json"))
	if err != nil {
		return nil, fmt.Errorf("claims: %w", err)
	}
	var live []Claim
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			continue // gone since
		}
		var file claimFile
		if json.Unmarshal(data, &file) != nil || file.Profile != p.Name {
			continue
		}
		alive := 0
		for _, c := range file.Claims {
			if c.PID == 0 || processAlive(c.PID, c.StartTicks) {
				live = append(live, c)
				alive++
			}
		}
		if alive == 0 && strings.HasPrefix(filepath.Base(name), "server-") {
			os.Remove(name) // best effort
		}
	}
	return live, nil
}

// gpuUse sums the claims on one GPU.
func gpuUse(claims []Claim, gpu int) int64 {
	var n int64
	for _, c := range claims {
		n += c.GPUBytes[gpu]
	}
	return n
}

// hostUse sums the claims on the host's memory.
func hostUse(claims []Claim) int64 {
	var n int64
	for _, c := range claims {
		n += c.HostBytes
	}
	return n
}

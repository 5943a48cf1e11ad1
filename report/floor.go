package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// floorTest is one test of the load generator as a night has it in agents/HOST/selftest.json.
type floorTest struct {
	Streams int     `json:"streams"`
	PerS    float64 `json:"events_per_s"`
	Verdict string  `json:"verdict"`
	Steps   []struct {
		TTFT   *float64 `json:"ttft_error_p99_us"`
		ITL    *float64 `json:"itl_error_p99_us"`
		Stamps string   `json:"stamps"`
	} `json:"steps"`
}

// floors say for each host what the load generator was found to err by there, at the highest event rate that was tested.
func (n *Night) floors() []string {
	files, err := filepath.Glob(filepath.Join(n.Dir, "agents", "*", "selftest.json"))
	if err != nil {
		return nil // the night's own name holds a bracket
	}
	slices.Sort(files)
	var lines []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		var tests []floorTest
		if err != nil || json.Unmarshal(data, &tests) != nil || len(tests) == 0 {
			continue
		}
		t := tests[len(tests)-1]
		if len(t.Steps) == 0 || t.Steps[0].TTFT == nil || t.Steps[0].ITL == nil {
			continue
		}
		step := t.Steps[0]
		line := fmt.Sprintf("%s: p99 of the error of TTFT %s ms, of the time between tokens %s ms, at %s and %s events/s by %s stamps",
			filepath.Base(filepath.Dir(file)), commas(*step.TTFT/1000, 2), commas(*step.ITL/1000, 2), plural(t.Streams, "stream"), commas(t.PerS, 0), step.Stamps)
		if t.Verdict != "valid" {
			line += "; the test itself was " + t.Verdict
		}
		lines = append(lines, line)
	}
	return lines
}

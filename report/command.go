package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"sweep/sweep"
)

// commandBlocks show how to start each sheet's best config by hand, the same command once.
func (s *Summary) commandBlocks() []block {
	var blocks []block
	seen := map[string]bool{}
	for _, sheet := range s.Sheets {
		if sheet.Best == nil {
			continue
		}
		command := s.Night.command(sheet.Best.Best)
		if command == "" || seen[command] {
			continue
		}
		seen[command] = true
		var for_ []string
		for _, other := range s.Sheets {
			if other.Best != nil && other.Best.Config.Key == sheet.Best.Config.Key {
				for_ = append(for_, sweep.Printable(other.Workload))
			}
		}
		blocks = append(blocks, block{text: "Start the best of " + strings.Join(for_, " and ") + ":"}, block{code: command})
	}
	return blocks
}

// command is the command line that a square's server was started with: what its record says, else what
// the launch's own file says; "" when neither is there.
func (n *Night) command(q *Square) string {
	for _, r := range q.Records {
		if r.Command != "" {
			return sweep.Printable(r.Command)
		}
		if argv := n.launchArgv(r.Dir); len(argv) > 0 {
			return sweep.Printable(sweep.ShellLine(argv))
		}
	}
	return ""
}

func (n *Night) launchArgv(dir string) []string {
	if dir == "" || !filepath.IsLocal(filepath.FromSlash(dir)) {
		return nil // a record of another's making must not lead out of the night
	}
	data, err := os.ReadFile(filepath.Join(n.Dir, filepath.FromSlash(dir), "launch.json"))
	if err != nil {
		return nil
	}
	var launch sweep.LaunchResult
	if json.Unmarshal(data, &launch) != nil {
		return nil
	}
	return launch.Argv
}

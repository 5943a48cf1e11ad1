package sweep

import (
	"strconv"
	"strings"
)

// maxFolder bounds the name of a config's or load's folder: file systems take 255 bytes, and "@drift"
// or a mark of an unfinished folder may follow.
const maxFolder = 230

// checkWhole looks at what only the grid as a whole can show. It counts before it expands.
func (r *reading) checkWhole() {
	if !r.checkSize() || r.broken["sweep"] {
		return
	}
	if !r.broken["exclude"] && !r.broken["include"] {
		r.checkConfigs()
	}
	if !r.failed() {
		r.checkLives()
	}
}

// checkSize refuses a grid that asks for more than anyone can run or read.
func (r *reading) checkSize() bool {
	configs := r.grid.configCount()
	var factors []string
	for _, a := range r.grid.Axes {
		factors = append(factors, strconv.Itoa(max(1, len(a.Values))))
	}
	loads := max(1, len(r.grid.Loads))
	if saturated(configs, loads) > maxCells {
		at := r.top["sweep"].key
		if at == nil {
			at = r.top["load"].key
		}
		product := strings.Join(factors, " × ")
		if product == "" {
			product = "1"
		}
		r.problem(at, "take values out, or try one axis after the other", "%s configs and %d loads are more than %d cells", product, loads, maxCells)
		return false
	}
	if saturated(saturated(configs, loads), r.grid.Repeats) > 10*maxCells {
		r.problem(r.top["repeats"].key, "repeat less often", "%d configs × %d loads × %d repeats are more than %d measurements", configs, loads, r.grid.Repeats, 10*maxCells)
		return false
	}
	return true
}

// configCount is the number of configs before any is excluded.
func (g *Grid) configCount() int {
	configs := 1
	for _, a := range g.Axes {
		configs = saturated(configs, max(1, len(a.Values)))
	}
	return min(configs+len(g.Include), maxInt)
}

const maxInt = 1 << 40

// saturated multiplies without overflow.
func saturated(a, b int) int {
	if b > 0 && a > maxInt/b {
		return maxInt
	}
	return a * b
}

// checkConfigs notes what matches no config, and names too long for a folder.
func (r *reading) checkConfigs() {
	g := r.grid
	used := make([]bool, len(g.Exclude))
	configs := g.expand(func(i int) { used[i] = true })
	for i, hit := range used {
		if !hit {
			r.warn(r.exclude[i], "take it out", "exclude matches only what earlier entries have taken out")
		}
	}
	if len(configs) == 0 {
		r.problem(r.top["exclude"].key, "keep at least one", "exclude leaves no config")
		return
	}
	for _, c := range configs {
		if len(c.Key) > maxFolder {
			r.problem(r.top["sweep"].key, "make bundles with short names", "the folder of config %s would have a name of %d characters, more than %d", clip(c.Key), len(c.Key), maxFolder)
			break
		}
	}
	if !r.broken["baseline"] && len(g.Baseline) > 0 && g.baselineIndex(configs) < 0 {
		r.problem(r.top["baseline"].value, "choose a config that runs", "baseline is a config that exclude takes out")
	}
	for i, u := range g.Unacceptable {
		if r.broken["unacceptable"] || matchesAny(configs, u.Match) {
			continue
		}
		var known []string
		for _, a := range g.Axes {
			known = append(known, a.Name)
		}
		for _, s := range g.Server {
			known = append(known, s.Name)
		}
		remedy := "fine if the list is meant for later grids"
		for _, p := range u.Match {
			if near := Nearest(p.Name, known); near != "" && near != p.Name {
				remedy = didYouMean(p.Name, known)
			}
		}
		r.warn(r.unwant[i], remedy, "unacceptable matches nothing: no config has %s", u.Match)
	}
}

func matchesAny(configs []Config, match Params) bool {
	for _, c := range configs {
		if c.has(match) {
			return true
		}
	}
	return false
}

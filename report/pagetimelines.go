package report

import (
	"math"
	"slices"
	"strconv"

	"sweep/sweep"
)

const (
	mostSamples  = 150_000 // of each quantity over all runs of a page
	fewestPoints = 60      // of one run
	mostPoints   = 600
)

// addTimelines thins each run so that all of them fit; of more runs than have room, those of the leading configs come first.
func (s *Summary) addTimelines(d *pageData) error {
	leading := map[string]bool{}
	for _, sheet := range s.Sheets {
		for _, row := range sheet.leading(mostTails) {
			leading[row.Config.Key] = true
		}
	}
	var runs []sweep.Record
	for _, r := range s.Night.all() {
		if _, ok := s.Night.Runs[RunID{r.Cell, r.Repeat}]; ok {
			runs = append(runs, r)
		}
	}
	if len(runs) == 0 {
		return nil
	}
	slices.SortStableFunc(runs, func(a, b sweep.Record) int { return before(leading[a.Config], leading[b.Config]) })
	runs = runs[:min(len(runs), mostSamples/fewestPoints)]
	points := min(mostPoints, mostSamples/len(runs))
	cache := map[string]map[string]*Timeline{}
	for _, r := range runs {
		all, ok := cache[r.Dir]
		if !ok {
			var err error
			if all, err = s.Night.Timelines(r); err != nil {
				return err
			}
			cache = map[string]map[string]*Timeline{r.Dir: all} // runs of one launch mostly stand together
		}
		if tl := all[r.Load.String()]; tl != nil && len(tl.T) > 1 {
			s.Night.place(tl, r)
			d.Timelines[sweep.Printable(r.Cell)+"#"+strconv.Itoa(r.Repeat)] = tl.page(points)
		}
	}
	return nil
}

// page thins a run to at most so many points, each the mean of its stretch.
func (tl *Timeline) page(most int) pageTimeline {
	size := (len(tl.T) + most - 1) / most
	p := pageTimeline{Thinned: size > 1}
	for i := 0; i < len(tl.T); i += size {
		end := min(i+size, len(tl.T))
		p.T = append(p.T, round(mean(tl.T[i:end]), 2))
	}
	thin := func(series []float64, decimals int) []*float64 {
		out := make([]*float64, 0, len(p.T))
		some := false
		for i := 0; i < len(series); i += size {
			v := mean(series[i:min(i+size, len(series))])
			if math.IsNaN(v) {
				out = append(out, nil)
				continue
			}
			v = round(v, decimals)
			out, some = append(out, &v), true
		}
		if !some {
			return nil
		}
		return out
	}
	p.Usage, p.Running, p.Queued, p.Rate = thin(tl.Usage, 3), thin(tl.Running, 1), thin(tl.Queued, 1), thin(tl.Rate, 0)
	for _, t := range tl.Retracts {
		p.Retracts = append(p.Retracts, round(t, 2))
	}
	if !math.IsNaN(tl.Open) {
		open, closed := round(tl.Open, 2), round(tl.Close, 2)
		p.Open, p.Close = &open, &closed
	}
	return p
}

// mean is the mean of what is known; NaN when nothing is.
func mean(values []float64) float64 {
	sum, n := 0.0, 0
	for _, v := range values {
		if !math.IsNaN(v) {
			sum, n = sum+v, n+1
		}
	}
	return sum / float64(n)
}

func round(v float64, decimals int) float64 {
	scale := math.Pow(10, float64(decimals))
	return math.Round(v*scale) / scale
}

// mostFigures bounds the bytes of all pictures of a page.
const mostFigures = 4 << 20

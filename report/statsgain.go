package report

import (
	"fmt"
	"slices"

	"sweep/sweep"
)

// Gain says where the best config's advantage over the baseline comes from. The best may stand at another load than
// the baseline's own best: what that brings is told apart from what the settings bring at equal load.
type Gain struct {
	Total Effect // the best at its load against the baseline at its own best load
	Load  Effect // the baseline at the best's load against the baseline at its own best load
	Equal Effect // the best against the baseline, both at the best's load
	// From and To are the baseline's best load and the best's.
	From, To  sweep.Load
	OtherLoad bool // they differ, so that Load is a part of Total
	Axes      []AxisGain
	Unknown   string // why the axes are not told apart; "" when they are
}

// AxisGain is what the change of one axis brings at equal load.
type AxisGain struct {
	Axis, From, To string
	Effect
}

// mostOrders bounds the axes whose orders are all looked at.
const mostOrders = 6

// gain splits the best's advantage. Axes do not simply add: what one brings depends on the others. Each gets the mean of
// what it brings over all orders in which the axes can be changed one after another (Shapley, "A value for n-person games",
// 1953), on the scale of logarithms, so that the parts multiply to the whole. All configs between must have been measured at that load.
func (sheet *Sheet) gain(n *Night) *Gain {
	if sheet.Best == nil || sheet.Baseline == nil || sheet.Best == sheet.Baseline || sheet.Baseline.Best == nil {
		return nil
	}
	at := sheet.Best.Best
	own, here := sheet.Baseline.Best, sheet.Baseline.At(at.Load)
	g := &Gain{From: own.Load, To: at.Load, OtherLoad: own.Load.String() != at.Load.String()}
	var ok bool
	if g.Total, ok = sheet.Noise.effect(map[*Square]float64{at: 1, own: -1}); !ok {
		return nil
	}
	if g.Equal, ok = sheet.Noise.effect(map[*Square]float64{at: 1, here: -1}); !ok {
		g.Unknown = fmt.Sprintf("the baseline was not measured at %s", poolLabel(at.Load))
		return g
	}
	if g.OtherLoad {
		g.Load, _ = sheet.Noise.effect(map[*Square]float64{here: 1, own: -1})
	}
	g.Axes, g.Unknown = sheet.axisGains(n, at.Load)
	return g
}

// changedAxes are those in which the best differs from the baseline.
func (sheet *Sheet) changedAxes() []AxisGain {
	var list []AxisGain
	for _, p := range sheet.Best.Config.Axes {
		if was, ok := sheet.Baseline.Config.Axes.Get(p.Name); ok && was != p.Value {
			list = append(list, AxisGain{Axis: p.Name, From: was, To: p.Value})
		}
	}
	return list
}

func (sheet *Sheet) axisGains(n *Night, load sweep.Load) ([]AxisGain, string) {
	if sheet.Best.Config.Label != "" || sheet.Baseline.Config.Label != "" {
		return nil, "it is a config beside the grid's axes"
	}
	axes := sheet.changedAxes()
	if len(axes) == 0 || len(axes) > mostOrders {
		return nil, fmt.Sprintf("it differs in %s", plural(len(axes), "axis"))
	}
	squares := make([]*Square, 1<<len(axes)) // by the set of axes that are changed
	for set := range squares {
		config := slices.Clone(sheet.Baseline.Config.Axes)
		for i, a := range axes {
			if set&(1<<i) != 0 {
				for k := range config {
					if config[k].Name == a.Axis {
						config[k].Value = a.To
					}
				}
			}
		}
		row := sheet.row(config)
		if row == nil || len(row.At(load).whole()) == 0 {
			return nil, fmt.Sprintf("%s was not measured at %s", n.names().title(sweep.Config{Axes: config}), poolLabel(load))
		}
		squares[set] = row.At(load)
	}
	for i := range axes {
		weights := map[*Square]float64{}
		for set := range squares {
			if set&(1<<i) == 0 {
				w := orderShare(bits(set), len(axes))
				weights[squares[set|1<<i]] += w
				weights[squares[set]] -= w
			}
		}
		axes[i].Effect, _ = sheet.Noise.effect(weights)
	}
	return axes, ""
}

// orderShare is the share of orders of n axes in which exactly a given set of size k comes before the next one: k!(n−k−1)!/n!.
func orderShare(k, n int) float64 {
	share := 1 / float64(n)
	for i := range k {
		share *= float64(i+1) / float64(n-1-i)
	}
	return share
}

func bits(set int) int {
	n := 0
	for ; set > 0; set >>= 1 {
		n += set & 1
	}
	return n
}

// row finds the config of the grid's product with these values.
func (sheet *Sheet) row(axes sweep.Params) *Row {
	want := axes.String()
	i := slices.IndexFunc(sheet.Rows, func(r *Row) bool { return r.Config.Label == "" && r.Config.Axes.String() == want })
	if i < 0 {
		return nil
	}
	return sheet.Rows[i]
}

// AxisEffect is what one value of an axis brings against the baseline's, over all pairs of configs that differ in nothing
// else, each pair at equal load, over all loads that both served: it is not what the value brings at the best's load alone.
type AxisEffect struct {
	Axis, Value, Against string
	Pairs                int          // of configs
	Loads                []sweep.Load // at which some pair was compared
	Lo, Hi               float64      // least and most that a pair gave, each over its loads
	Effect                            // geometric mean over the pairs
}

// axisEffects lists them for each axis with several values.
func (sheet *Sheet) axisEffects(n *Night) []AxisEffect {
	var list []AxisEffect
	for _, axis := range n.gridAxes() {
		values := n.axisValues(axis)
		if len(values) < 2 {
			continue
		}
		against := values[0]
		if sheet.Baseline != nil {
			if v, ok := sheet.Baseline.Config.Axes.Get(axis); ok && slices.Contains(values, v) {
				against = v
			}
		}
		for _, v := range values {
			if v == against {
				continue
			}
			if e, ok := sheet.axisEffect(axis, v, against); ok {
				list = append(list, e)
			}
		}
	}
	return list
}

func (sheet *Sheet) axisEffect(axis, value, against string) (AxisEffect, bool) {
	e := AxisEffect{Axis: axis, Value: value, Against: against}
	weights := map[*Square]float64{}
	compared := make([]bool, len(sheet.Loads))
	var pairs [][2]*Row
	for _, row := range sheet.Rows {
		if v, _ := row.Config.Axes.Get(axis); v != value || row.Config.Label != "" {
			continue
		}
		other := slices.Clone(row.Config.Axes)
		for k := range other {
			if other[k].Name == axis {
				other[k].Value = against
			}
		}
		if base := sheet.row(other); base != nil {
			pairs = append(pairs, [2]*Row{row, base})
		}
	}
	for _, p := range pairs {
		own := map[*Square]float64{}
		both := 0
		for i := range sheet.Loads {
			a, b := p[0].Squares[i], p[1].Squares[i]
			if len(a.whole()) > 0 && len(b.whole()) > 0 {
				own[a], own[b] = 1, -1
				both, compared[i] = both+1, true
			}
		}
		if both == 0 {
			continue
		}
		for q := range own {
			own[q] /= float64(both)
			weights[q] += own[q]
		}
		of, _ := sheet.Noise.effect(own)
		if e.Pairs == 0 {
			e.Lo, e.Hi = of.Change, of.Change
		}
		e.Lo, e.Hi = min(e.Lo, of.Change), max(e.Hi, of.Change)
		e.Pairs++
	}
	for i, l := range sheet.Loads {
		if compared[i] {
			e.Loads = append(e.Loads, l)
		}
	}
	for q := range weights {
		weights[q] /= float64(e.Pairs)
	}
	if e.Pairs == 0 {
		return e, false
	}
	var ok bool
	e.Effect, ok = sheet.Noise.effect(weights)
	return e, ok
}

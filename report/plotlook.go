package report

import (
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"

	"sweep/sweep"
)

// look is how a config is drawn: a colour, and a second channel for those who do not see it.
type look struct {
	color  color.NRGBA
	dashes []vg.Length
	marker marker
}

// marker is the shape of a measured point.
type marker int

const (
	disc marker = iota
	ring
	square
	triangle
)

// looks gives each config its look: with two axes hue stands for the first and dash and marker for the
// second; with more, hue and dash go by the config.
func (n *Night) looks() map[string]look {
	out := map[string]look{}
	axes := n.names().axes
	colors := hues()
	byAxes := len(axes) == 1 && len(n.axisValues(axes[0])) <= len(colors) ||
		len(axes) == 2 && len(n.axisValues(axes[0])) <= len(colors) && len(n.axisValues(axes[1])) <= 4
	next := 0
	if byAxes {
		next = len(n.axisValues(axes[0]))
	}
	for _, c := range n.Configs {
		switch {
		case c.Unacceptable != "":
			out[c.Key] = look{color: rule, dashes: dashesOf(2), marker: square}
		case byAxes && c.Label == "":
			v, _ := c.Axes.Get(axes[0])
			hue := slices.Index(n.axisValues(axes[0]), v)
			second := 0
			if len(axes) == 2 {
				w, _ := c.Axes.Get(axes[1])
				second = slices.Index(n.axisValues(axes[1]), w)
				second = secondChannel(n.axisValues(axes[1]), second)
			}
			out[c.Key] = look{color: colors[hue], dashes: dashesOf(second), marker: marker(second)}
		default:
			out[c.Key] = look{color: colors[next%len(colors)], dashes: dashesOf(next / len(colors) % 4), marker: marker(next / len(colors) % 4)}
			next++
		}
	}
	return out
}

// secondChannel draws a setting that is off dashed and open, and the first that is on solid and filled.
func secondChannel(values []string, i int) int {
	off := slices.IndexFunc(values, func(v string) bool { return v == "off" || v == "false" || v == "none" || v == "0" })
	switch {
	case off < 0:
		return i
	case i == off:
		return int(ring)
	case i < off:
		i++
	}
	if i == 1 {
		return int(disc)
	}
	return i
}

func dashesOf(i int) []vg.Length {
	return [][]vg.Length{nil, {4, 2.5}, {1.5, 2}, {6, 2, 1.5, 2}}[i]
}

// drawMarker draws a measured point with a white rim, so that it stands out from lines below it.
func (c canvas) drawMarker(l look, x, y, r vg.Length) {
	shape := func(r vg.Length, col color.Color) {
		var p vg.Path
		switch l.marker {
		case square:
			p = rectPath(vg.Rectangle{Min: vg.Point{X: x - r, Y: y - r}, Max: vg.Point{X: x + r, Y: y + r}})
		case triangle:
			p.Move(vg.Point{X: x, Y: y + 1.2*r})
			p.Line(vg.Point{X: x - 1.1*r, Y: y - 0.8*r})
			p.Line(vg.Point{X: x + 1.1*r, Y: y - 0.8*r})
			p.Close()
		default:
			p.Move(vg.Point{X: x + r, Y: y})
			p.Arc(vg.Point{X: x, Y: y}, r, 0, 2*math.Pi)
			p.Close()
		}
		c.SetColor(col)
		c.Fill(p)
	}
	shape(r+0.9, white)
	shape(r, l.color)
	if l.marker == ring {
		shape(r-1, white)
	}
}

// curveLabel names a config in few words, by the axes that vary: "mem 0.88 · hicache 48".
func (n *Night) curveLabel(c sweep.Config, without string) string {
	key := labelKey{c.Key, without}
	label, ok := n.index.labels[key]
	if !ok || c.Key == "" {
		label = n.newLabel(c, without)
		if n.index.labels == nil {
			n.index.labels = map[labelKey]string{}
		}
		n.index.labels[key] = label
	}
	return label
}

func (n *Night) newLabel(c sweep.Config, without string) string {
	if c.Label != "" {
		return sweep.Printable(c.Label)
	}
	var parts []string
	for _, axis := range n.names().axes {
		if v, ok := c.Axes.Get(axis); ok && axis != without {
			parts = append(parts, n.shortAxis(axis)+" "+v)
		}
	}
	if len(parts) == 0 {
		return sweep.Printable(c.Key)
	}
	return sweep.Printable(strings.Join(parts, " · "))
}

// axisLabels are a config's values of the axes that vary.
func (n *Night) axisLabels(c sweep.Config) []string {
	var values []string
	for _, axis := range n.names().axes {
		if v, ok := c.Axes.Get(axis); ok && c.Label == "" {
			values = append(values, sweep.Printable(v))
		}
	}
	return values
}

// shortAxis is an axis's first word where that is a word and no other axis begins with it.
func (n *Night) shortAxis(axis string) string {
	if s, ok := n.index.short[axis]; ok {
		return s
	}
	if n.index.short == nil {
		n.index.short = map[string]string{}
	}
	n.index.short[axis] = n.newShortAxis(axis)
	return n.index.short[axis]
}

func (n *Night) newShortAxis(axis string) string {
	word, _, cut := strings.Cut(axis, "-")
	if !cut || len(word) < 3 {
		return axis
	}
	for _, other := range n.gridAxes() {
		if o, _, _ := strings.Cut(other, "-"); other != axis && o == word {
			return axis
		}
	}
	return word
}

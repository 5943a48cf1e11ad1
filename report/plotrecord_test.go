package report

import (
	"fmt"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
)

// affine maps a point of the current coordinates to the canvas.
type affine struct{ a, b, c, d, x, y float64 }

func (m affine) at(p vg.Point) (float64, float64) {
	return m.a*float64(p.X) + m.c*float64(p.Y) + m.x, m.b*float64(p.X) + m.d*float64(p.Y) + m.y
}

func (m affine) rotate(r float64) affine {
	sin, cos := math.Sincos(r)
	return affine{m.a*cos + m.c*sin, m.b*cos + m.d*sin, m.c*cos - m.a*sin, m.d*cos - m.b*sin, m.x, m.y}
}

func (m affine) translate(p vg.Point) affine {
	m.x, m.y = m.at(p)
	return m
}

// box is what a text covers, in points from the canvas's lower left corner.
type box struct {
	x0, y0, x1, y1 float64
	text           string
}

// record draws and returns the boxes of all texts, and of all paths the outermost coordinates.
func record(d drawing) (texts []box, paths box) {
	var rec recorder.Canvas
	d.paint(canvas{draw.NewCanvas(&rec, d.width, d.height)})
	m := affine{a: 1, d: 1}
	var stack []affine
	paths = box{x0: math.Inf(1), y0: math.Inf(1), x1: math.Inf(-1), y1: math.Inf(-1)}
	grow := func(path vg.Path) {
		for _, p := range path {
			if p.Type == vg.CloseComp {
				continue
			}
			x, y := m.at(p.Pos)
			r := 0.0
			if p.Type == vg.ArcComp {
				r = float64(p.Radius)
			}
			paths = box{min(paths.x0, x-r), min(paths.y0, y-r), max(paths.x1, x+r), max(paths.y1, y+r), ""}
		}
	}
	for _, action := range rec.Actions {
		switch a := action.(type) {
		case *recorder.Push:
			stack = append(stack, m)
		case *recorder.Pop:
			m, stack = stack[len(stack)-1], stack[:len(stack)-1]
		case *recorder.Rotate:
			m = m.rotate(a.Angle)
		case *recorder.Translate:
			m = m.translate(a.Point)
		case *recorder.Scale:
			panic("a picture does not scale")
		case *recorder.Stroke:
			grow(a.Path)
		case *recorder.Fill:
			grow(a.Path)
		case *recorder.FillString:
			face := fonts().Lookup(a.Font, a.Size)
			// From the baseline: capitals reach 0.73 of the size, tails 0.21.
			x0, y0 := m.at(a.Point.Add(vg.Point{Y: -0.21 * a.Size}))
			x1, y1 := m.at(a.Point.Add(vg.Point{X: face.Width(a.String), Y: 0.73 * a.Size}))
			texts = append(texts, box{min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1), a.String})
		}
	}
	return texts, paths
}

// problems lists texts that overlap, and whatever lies outside the canvas.
func problems(d drawing) []string {
	texts, paths := record(d)
	var out []string
	w, h := float64(d.width), float64(d.height)
	for i, a := range texts {
		if a.x0 < 0 || a.y0 < 0 || a.x1 > w || a.y1 > h {
			out = append(out, fmt.Sprintf("outside the canvas: %q at %.1f–%.1f × %.1f–%.1f of %.0f × %.0f", a.text, a.x0, a.x1, a.y0, a.y1, w, h))
		}
		for _, b := range texts[i+1:] {
			const slack = 0.2
			if a.x0 < b.x1-slack && b.x0 < a.x1-slack && a.y0 < b.y1-slack && b.y0 < a.y1-slack {
				out = append(out, fmt.Sprintf("overlap: %q and %q", a.text, b.text))
			}
		}
	}
	if paths.x0 < 0 || paths.y0 < 0 || paths.x1 > w || paths.y1 > h {
		out = append(out, fmt.Sprintf("lines outside the canvas: %+v of %.0f × %.0f", paths, w, h))
	}
	return out
}

package report

import (
	"image/color"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Colours are opaque: transparency comes out differently from one format to another.
var (
	ink    = rgb(0x1a1a1a)
	muted  = rgb(0x5f6368)
	rule   = rgb(0x9aa0a6)
	faint  = rgb(0xdfe1e5)
	white  = rgb(0xffffff)
	bad    = rgb(0xc1121f) // failures, and nothing else
	badBg  = rgb(0xfbeceb)
	cellBg = rgb(0xf6f0ef)
	frameC = rgb(0xE69F00)
)

// hues are those of Okabe and Ito without yellow: told apart by colour-blind readers. A second channel (dash, marker,
// label) always goes with them.
func hues() []color.NRGBA {
	return []color.NRGBA{rgb(0x0072B2), rgb(0xE69F00), rgb(0x009E73), rgb(0xCC79A7), rgb(0x56B4E9), rgb(0xD55E00), rgb(0x000000)}
}

// blues is a ramp of one hue, light to dark.
func blues() []color.NRGBA {
	return []color.NRGBA{rgb(0xeef5fb), rgb(0xc6dbef), rgb(0x9ecae1), rgb(0x6baed6), rgb(0x4292c6), rgb(0x2171b5), rgb(0x08519c), rgb(0x08306b)}
}

func rgb(v uint32) color.NRGBA {
	return color.NRGBA{R: uint8(v >> 16), G: uint8(v >> 8), B: uint8(v), A: 255}
}

// over blends a share of c over white.
func over(c color.NRGBA, share float64) color.NRGBA {
	m := func(v uint8) uint8 { return uint8(float64(v)*share + 255*(1-share) + 0.5) }
	return color.NRGBA{R: m(c.R), G: m(c.G), B: m(c.B), A: 255}
}

// ramp interpolates between colours; t is 0 to 1.
func ramp(stops []color.NRGBA, t float64) color.NRGBA {
	t = max(0, min(1, t)) * float64(len(stops)-1)
	i := int(min(math.Floor(t), float64(len(stops)-2)))
	f := t - float64(i)
	mix := func(a, b uint8) uint8 { return uint8(float64(a)*(1-f) + float64(b)*f + 0.5) }
	a, b := stops[i], stops[i+1]
	return color.NRGBA{R: mix(a.R, b.R), G: mix(a.G, b.G), B: mix(a.B, b.B), A: 255}
}

// luminance is a colour's relative luminance (WCAG 2.2).
func luminance(c color.NRGBA) float64 {
	linear := func(v uint8) float64 {
		x := float64(v) / 255
		if x <= 0.03928 {
			return x / 12.92
		}
		return math.Pow((x+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c.R) + 0.7152*linear(c.G) + 0.0722*linear(c.B)
}

// inkOn is the text colour with the higher contrast on a background: the two are equal at a luminance of 0.179.
func inkOn(bg color.NRGBA) color.NRGBA {
	if luminance(bg) < 0.179 {
		return white
	}
	return ink
}

// readable darkens a colour until text in it has a contrast of 4.5 on white (WCAG 2.2, success criterion 1.4.3).
func readable(c color.NRGBA) color.NRGBA {
	for share := 1.0; share > 0; share -= 0.02 {
		m := func(v uint8) uint8 { return uint8(float64(v)*share + 0.5) }
		if d := (color.NRGBA{R: m(c.R), G: m(c.G), B: m(c.B), A: 255}); 1.05/(luminance(d)+0.05) >= 4.5 {
			return d
		}
	}
	return ink
}

var fonts = sync.OnceValue(func() *font.Cache { return font.NewCache(liberation.Collection()) })

// style is a text style of the one sans-serif family, drawn from its left end and its middle height.
func style(size float64, c color.Color, bold bool) text.Style {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)}
	if bold {
		f.Weight = xfont.WeightBold
	}
	return text.Style{Color: c, Font: f, XAlign: text.XLeft, YAlign: text.YCenter, Handler: text.Plain{Fonts: fonts()}}
}

// wrapWidth breaks text into lines that fit a width, measured with the real font; a word that alone is too
// wide is shortened in its middle.
func wrapWidth(st text.Style, s string, width vg.Length) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		word = shorten(st, word, width)
		next := word
		if line != "" {
			next = line + " " + word
		}
		if line != "" && st.Width(next) > width {
			lines = append(lines, line)
			next = word
		}
		line = next
	}
	return append(lines, line)
}

// shorten cuts text in its middle, where names differ least, until it fits a width.
func shorten(st text.Style, s string, width vg.Length) string {
	if st.Width(s) <= width {
		return s
	}
	r := []rune(s)
	if len(r) > 2*longest { // no picture is wide enough for more, and measuring takes time
		r = slices.Concat(r[:longest], r[len(r)-longest:])
	}
	cut := func(keep int) string {
		head := (keep + 1) / 2
		return string(r[:head]) + "…" + string(r[len(r)-(keep-head):])
	}
	lost := sort.Search(len(r), func(lost int) bool { return st.Width(cut(len(r)-lost)) <= width })
	if lost >= len(r)-1 {
		return "…"
	}
	return cut(len(r) - lost)
}

// longest is how much of each end of a text is looked at when it must be shortened.
const longest = 300

// canvas adds the few shapes that the pictures are made of.
type canvas struct{ draw.Canvas }

// text writes at a point. A line's middle is taken between baseline and capitals, where the eye sees it.
func (c canvas) text(st text.Style, x, y vg.Length, s string) {
	if st.YAlign == text.YCenter && st.Rotation == 0 {
		y += 0.08 * st.Font.Size
	}
	c.FillText(st, vg.Point{X: x, Y: y}, s)
}

func rectPath(r vg.Rectangle) vg.Path {
	var p vg.Path
	p.Move(r.Min)
	p.Line(vg.Point{X: r.Max.X, Y: r.Min.Y})
	p.Line(r.Max)
	p.Line(vg.Point{X: r.Min.X, Y: r.Max.Y})
	p.Close()
	return p
}

func (c canvas) fill(r vg.Rectangle, col color.Color) {
	c.SetColor(col)
	c.Fill(rectPath(r))
}

func (c canvas) outline(r vg.Rectangle, st draw.LineStyle) {
	c.SetLineStyle(st)
	c.Stroke(rectPath(r))
}

func (c canvas) line(col color.Color, width float64, dashes []vg.Length, x0, y0, x1, y1 vg.Length) {
	c.StrokeLine2(draw.LineStyle{Color: col, Width: vg.Points(width), Dashes: dashes}, x0, y0, x1, y1)
}

// cross is the mark of a failure.
func (c canvas) cross(col color.Color, x, y, r vg.Length, width float64) {
	c.line(col, width, nil, x-r, y-r, x+r, y+r)
	c.line(col, width, nil, x-r, y+r, x+r, y-r)
}

// hatch fills a rectangle with slanted lines.
func (c canvas) hatch(r vg.Rectangle, step vg.Length, st draw.LineStyle) {
	h := r.Max.Y - r.Min.Y
	inside := draw.Canvas{Canvas: c.Canvas.Canvas, Rectangle: r}
	for x := r.Min.X - h; x < r.Max.X; x += step {
		inside.StrokeLines(st, inside.ClipLinesXY([]vg.Point{{X: x, Y: r.Min.Y}, {X: x + h, Y: r.Max.Y}})...)
	}
}

// margin is the space around a picture.
const margin = vg.Length(10)

// frame fills the background, draws title, subtitle and footnote, and returns the rectangle that is left.
func (c canvas) frame(title, sub, foot string) vg.Rectangle {
	c.fill(c.Rectangle, white)
	width := c.Max.X - c.Min.X - 2*margin
	y := c.Max.Y - margin
	put := func(st text.Style, s string, most int, step vg.Length) {
		lines := wrapWidth(st, s, width)
		if len(lines) > most {
			lines[most-1] = shorten(st, strings.Join(lines[most-1:], " "), width)
			lines = lines[:most]
		}
		for _, l := range lines {
			c.text(st, c.Min.X+margin, y-step/2, l)
			y -= step
		}
	}
	put(style(13, ink, true), title, 3, 16)
	y -= 2
	put(style(9, muted, false), sub, 3, 12)
	st := style(7, muted, false)
	c.text(st, c.Min.X+margin, c.Min.Y+margin, shorten(st, foot, width))
	return vg.Rectangle{Min: vg.Point{X: c.Min.X + margin, Y: c.Min.Y + 20}, Max: vg.Point{X: c.Max.X - margin, Y: y - 12}}
}

// headHeight is what [canvas.frame] takes above the rest, so that a picture can be made high enough.
func headHeight(title, sub string, width vg.Length) vg.Length {
	width -= 2 * margin
	t := min(3, len(wrapWidth(style(13, ink, true), title, width)))
	s := min(3, len(wrapWidth(style(9, muted, false), sub, width)))
	return margin + vg.Length(16*t+12*s) + 14
}

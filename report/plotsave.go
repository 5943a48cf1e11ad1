package report

import (
	"bytes"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Picture is one plot of a night.
type Picture struct {
	Name     string // file name without its ending
	Title    string // what it shows, one sentence
	Workload string
}

// drawing is a picture that can be drawn on any canvas of its size.
type drawing struct {
	Picture
	width, height vg.Length
	skip          string // why it cannot be drawn; "" when it can
	paint         func(c canvas)
}

// drawings are the pictures of a night: for each workload the curves and the map.
func (s *Summary) drawings() []drawing {
	var all []drawing
	for _, sheet := range s.Sheets {
		suffix := ""
		if len(s.Sheets) > 1 {
			suffix = "-" + fileName(sheet.Workload)
		}
		for _, d := range []drawing{s.curves(sheet), s.heatMap(sheet)} {
			d.Name += suffix
			d.Workload = sheet.Workload
			all = append(all, d)
		}
	}
	return all
}

// fileName keeps letters, digits, dots, dashes and underscores.
func fileName(s string) string {
	out := []rune(s)
	for i, r := range out {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' && i > 0) {
			out[i] = '_'
		}
	}
	return string(out)
}

// renderPNG draws at 200 dots an inch: sharp at the full width of a page.
func renderPNG(d drawing) ([]byte, error) {
	img := vgimg.NewWith(vgimg.UseWH(d.width, d.height), vgimg.UseDPI(200))
	d.paint(canvas{draw.New(img)})
	var buf bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: img}).WriteTo(&buf); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// renderSVG keeps text as text. The library names only the one family; others of the same widths stand
// behind it for machines that lack it.
func renderSVG(d drawing) ([]byte, error) {
	svg := vgsvg.New(d.width, d.height)
	d.paint(canvas{draw.NewCanvas(svg, d.width, d.height)})
	var buf bytes.Buffer
	if _, err := svg.WriteTo(&buf); err != nil {
		return nil, err
	}
	return bytes.ReplaceAll(buf.Bytes(), []byte("font-family:Liberation Sans"),
		[]byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif")), nil
}

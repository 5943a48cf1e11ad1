package report

import (
	"bytes"
	"fmt"
	"html"
	"regexp"
	"strconv"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Picture is one plot of a night.
type Picture struct {
	Name     string // file name without its ending
	Title    string // what it shows, one sentence
	Workload string // "" for a picture of the whole night
}

// drawing is a picture that can be drawn on any canvas of its size.
type drawing struct {
	Picture
	width, height vg.Length
	skip          string // why it cannot be drawn; "" when it can
	paint         func(c canvas)
	classes       []classLatency // of a picture of requests: what it was drawn from
}

// drawings are the pictures of a night, those of each workload first.
func (s *Summary) drawings() []drawing {
	if s.pictures == nil {
		s.pictures = s.newDrawings()
	}
	return s.pictures
}

// renderSVG is a picture as SVG, drawn once.
func (s *Summary) renderSVG(d drawing) ([]byte, error) {
	if data, ok := s.svg[d.Name]; ok {
		return data, nil
	}
	data, err := renderSVG(d)
	if err != nil {
		return nil, err
	}
	if s.svg == nil {
		s.svg = map[string][]byte{}
	}
	s.svg[d.Name] = data
	return data, nil
}

func (s *Summary) newDrawings() []drawing {
	var all []drawing
	for _, sheet := range s.Sheets {
		suffix := ""
		if len(s.Sheets) > 1 {
			suffix = "-" + fileName(sheet.Workload)
		}
		for _, d := range []drawing{
			s.curves(sheet), s.heatMap(sheet), s.latency(sheet), s.knee(sheet), s.pareto(sheet),
			s.distribution(sheet, "ttft"), s.distribution(sheet, "tpot"), s.timeline(sheet),
		} {
			d.Name += suffix
			d.Workload = sheet.Workload
			all = append(all, d)
		}
	}
	return append(all, s.memoryEdge())
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

// paintPNG draws at 200 dots an inch: sharp at the full width of a page. What it returns packs the picture into a file, and uses nothing else.
func paintPNG(d drawing) (pack func() ([]byte, error)) {
	img := vgimg.NewWith(vgimg.UseWH(d.width, d.height), vgimg.UseDPI(200))
	d.paint(canvas{draw.New(img)})
	return func() ([]byte, error) {
		var buf bytes.Buffer
		if _, err := (vgimg.PngCanvas{Canvas: img}).WriteTo(&buf); err != nil {
			return nil, err
		}
		return buf.Bytes(), nil
	}
}

var (
	svgText = regexp.MustCompile(`(?s)<text ([^>]*?font-weight:(\w+)[^>]*?font-size:([\d.]+)px[^>]*)>([^<]*)</text>`)
	svgFont = []byte("font-family:Liberation Sans")
)

// renderSVG keeps text as text. The library names only the one family; others of the same widths stand
// behind it for machines that lack it, and each text says how wide it is, so that no other font makes it run into its neighbour.
func renderSVG(d drawing) ([]byte, error) {
	svg := vgsvg.New(d.width, d.height)
	d.paint(canvas{draw.NewCanvas(svg, d.width, d.height)})
	var buf bytes.Buffer
	if _, err := svg.WriteTo(&buf); err != nil {
		return nil, err
	}
	out := svgText.ReplaceAllFunc(buf.Bytes(), func(m []byte) []byte {
		part := svgText.FindSubmatch(m)
		size, err := strconv.ParseFloat(string(part[3]), 64)
		text := html.UnescapeString(string(part[4]))
		if err != nil || strings.TrimSpace(text) == "" {
			return m
		}
		width := style(size, ink, string(part[2]) == "bold").Width(text)
		return fmt.Appendf(nil, `<text textLength="%.4g" lengthAdjust="spacingAndGlyphs" %s>%s</text>`, float64(width), part[1], part[4])
	})
	return bytes.ReplaceAll(out, svgFont, []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif")), nil
}

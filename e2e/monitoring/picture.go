package monitoring

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Chart is one chart of a picture: lines over time.
type Chart struct {
	Title, Unit string
	Lines       []Line
}

// Line is a line of a chart.
type Line struct {
	Name   string
	Points []Point
}

const (
	chartWidth, chartHeight = 460.0, 230.0
	plotLeft, plotTop       = 62.0, 34.0
	plotRight, plotBottom   = 150.0, 26.0
	columns                 = 2
)

var colours = []string{"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f"}

// SVG returns the charts as one SVG document, two beside each other.
func SVG(charts []Chart) string {
	var b strings.Builder
	rows := (len(charts) + columns - 1) / columns
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" font-family="sans-serif" font-size="11">`+"\n",
		columns*chartWidth, float64(rows)*chartHeight)
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	for i, c := range charts {
		fmt.Fprintf(&b, `<g transform="translate(%.0f %.0f)">`+"\n", float64(i%columns)*chartWidth,
			float64(i/columns)*chartHeight)
		c.draw(&b)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// draw writes the chart. Its vertical axis begins at 0.
func (c Chart) draw(b *strings.Builder) {
	from, to, top := math.Inf(1), math.Inf(-1), 0.0
	for _, l := range c.Lines {
		for _, p := range l.Points {
			from, to, top = min(from, p.Time), max(to, p.Time), max(top, p.Value)
		}
	}
	if top == 0 {
		top = 1
	}
	x := func(v float64) float64 {
		return plotLeft + (v-from)/max(to-from, 1)*(chartWidth-plotLeft-plotRight)
	}
	y := func(v float64) float64 {
		return chartHeight - plotBottom - v/(top*1.05)*(chartHeight-plotTop-plotBottom)
	}
	fmt.Fprintf(b, `<text x="%.0f" y="18" font-size="13">%s</text>`+"\n", plotLeft, html.EscapeString(c.Title))
	for _, v := range []float64{0, top / 2, top} {
		fmt.Fprintf(b, `<path d="M%.1f %.1fH%.1f" stroke="#ddd"/><text x="%.1f" y="%.1f" text-anchor="end">%s</text>`+"\n",
			x(from), y(v), x(to), plotLeft-5, y(v)+4, value(v, c.Unit))
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="end">%.0f s</text>`+"\n", x(to), chartHeight-8, to-from)
	for i, l := range c.Lines {
		var points []string
		for _, p := range l.Points {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(p.Time), y(p.Value)))
		}
		colour := colours[i%len(colours)]
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", strings.Join(points, " "),
			colour)
		if i < 12 {
			fmt.Fprintf(b, `<text x="%.1f" y="%.1f" fill="%s">%s</text>`+"\n", chartWidth-plotRight+8, plotTop+6+14*float64(i),
				colour, html.EscapeString(l.Name))
		}
	}
}

// value prints a number of the unit, which is Grafana's.
func value(v float64, unit string) string {
	switch unit {
	case "bytes":
		for _, u := range []string{"B", "KiB", "MiB", "GiB"} {
			if v < 1024 {
				return fmt.Sprintf("%.3g %s", v, u)
			}
			v /= 1024
		}
		return fmt.Sprintf("%.3g TiB", v)
	case "percentunit":
		return fmt.Sprintf("%.0f %%", v*100)
	case "s":
		return fmt.Sprintf("%.2g s", v)
	case "ops":
		return fmt.Sprintf("%.2g/s", v)
	}
	return fmt.Sprintf("%.3g", v)
}

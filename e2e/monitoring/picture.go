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
	chartWidth, chartHeight = 412.0, 200.0
	plotLeft, plotTop       = 62.0, 34.0
	plotRight, plotBottom   = 180.0, 26.0
	columns                 = 2
	legendLines             = 10
	legendChars             = 28 // that fit beside the plot
)

// style has the colors of a light page, and those of a dark one. Lines have the classes a to h in turn.
const style = `<style>
  text { fill: #1f2328 } .t { font-size: 13px; font-weight: bold } .x { stroke: #d1d9e0 } polyline { fill: none; stroke-width: 1.5 }
  polyline.a { stroke: #0969da } polyline.b { stroke: #cf222e } polyline.c { stroke: #1a7f37 } polyline.d { stroke: #8250df }
  polyline.e { stroke: #bc4c00 } polyline.f { stroke: #8c564b } polyline.g { stroke: #1b7c83 } polyline.h { stroke: #59636e }
  text.a { fill: #0969da } text.b { fill: #cf222e } text.c { fill: #1a7f37 } text.d { fill: #8250df }
  text.e { fill: #bc4c00 } text.f { fill: #8c564b } text.g { fill: #1b7c83 } text.h { fill: #59636e }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .x { stroke: #3d444d }
    polyline.a { stroke: #58a6ff } polyline.b { stroke: #ff7b72 } polyline.c { stroke: #3fb950 } polyline.d { stroke: #bc8cff }
    polyline.e { stroke: #f0883e } polyline.f { stroke: #d2a48c } polyline.g { stroke: #39c5cf } polyline.h { stroke: #9198a1 }
    text.a { fill: #58a6ff } text.b { fill: #ff7b72 } text.c { fill: #3fb950 } text.d { fill: #bc8cff }
    text.e { fill: #f0883e } text.f { fill: #d2a48c } text.g { fill: #39c5cf } text.h { fill: #9198a1 }
  }
</style>
`

// SVG returns the charts as one SVG document, two beside each other.
func SVG(charts []Chart) string {
	var b strings.Builder
	rows := (len(charts) + columns - 1) / columns
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %[1]g %[2]g" font-family="system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif" font-size="11">`+"\n",
		columns*chartWidth, float64(rows)*chartHeight)
	b.WriteString("<title>The panels of the dashboard</title>\n" + style)
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
	fmt.Fprintf(b, `<text class="t" x="%.0f" y="18">%s</text>`+"\n", plotLeft, html.EscapeString(c.Title))
	for _, v := range []float64{0, top / 2, top} {
		fmt.Fprintf(b, `<path class="x" d="M%.1f %.1fH%.1f"/><text x="%.1f" y="%.1f" text-anchor="end">%s</text>`+"\n",
			x(from), y(v), x(to), plotLeft-5, y(v)+4, value(v, c.Unit))
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="end">%.0f s</text>`+"\n", x(to), chartHeight-8, to-from)
	for i, l := range c.Lines {
		var points []string
		for _, p := range l.Points {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(p.Time), y(p.Value)))
		}
		class := string(rune('a' + i%8))
		fmt.Fprintf(b, `<polyline class="%s" points="%s"/>`+"\n", class, strings.Join(points, " "))
		if i < legendLines {
			fmt.Fprintf(b, `<text class="%s" x="%.1f" y="%.1f">%s</text>`+"\n", class, chartWidth-plotRight+8,
				plotTop+6+14*float64(i), html.EscapeString(short(l.Name)))
		}
	}
}

// short cuts a name to what fits into the legend.
func short(name string) string {
	if runes := []rune(name); len(runes) > legendChars {
		return string(runes[:legendChars-1]) + "…"
	}
	return name
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

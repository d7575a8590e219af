package main

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// point is a measurement on a line of a plot. If high is above y, it is drawn as a second, thin
// line.
type point struct {
	line       string
	x, y, high float64
}

// plot is a plot of points on logarithmic axes.
type plot struct {
	title, x, y string
	points      []point
}

const (
	plotWidth, plotHeight                      = 720.0, 400.0
	marginLeft, marginRight, marginY, titleGap = 60.0, 170.0, 45.0, 22.0
)

var colours = []string{"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b"}

// lines returns the names of the lines, in the order of their first points.
func (p plot) lines() []string {
	var names []string
	for _, q := range p.points {
		if !slices.Contains(names, q.line) {
			names = append(names, q.line)
		}
	}
	return names
}

// bounds returns the minimum and maximum of both axes, as powers of ten.
func (p plot) bounds() (x0, x1, y0, y1 float64) {
	x0, y0, x1, y1 = math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, q := range p.points {
		x0, x1 = min(x0, q.x), max(x1, q.x)
		y0, y1 = min(y0, q.y), max(y1, q.y, q.high)
	}
	down := func(v float64) float64 { return math.Pow(10, math.Floor(math.Log10(v))) }
	up := func(v float64) float64 { return math.Pow(10, math.Ceil(math.Log10(v*1.001))) }
	return down(x0), up(x1), down(y0), up(y1)
}

// svg returns the plot as an SVG document.
func (p plot) svg() string {
	x0, x1, y0, y1 := p.bounds()
	toX := func(v float64) float64 {
		return marginLeft + math.Log10(v/x0)/math.Log10(x1/x0)*(plotWidth-marginLeft-marginRight)
	}
	toY := func(v float64) float64 {
		return plotHeight - marginY - math.Log10(v/y0)/math.Log10(y1/y0)*(plotHeight-2*marginY)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" font-family="sans-serif" font-size="12">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/><text x="%.0f" y="%.0f" font-size="15">%s</text>`+
		"\n", marginLeft, titleGap, html.EscapeString(p.title))
	for v := x0; v <= x1*1.001; v *= 10 {
		fmt.Fprintf(&b, `<path d="M%.1f %.1fV%.1f" stroke="#ddd"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+
			"\n",
			toX(v), toY(y0), toY(y1), toX(v), toY(y0)+16, number(v))
	}
	for v := y0; v <= y1*1.001; v *= 10 {
		fmt.Fprintf(&b, `<path d="M%.1f %.1fH%.1f" stroke="#ddd"/><text x="%.1f" y="%.1f" text-anchor="end">%s</text>`+"\n",
			toX(x0), toY(v), toX(x1), toX(x0)-5, toY(v)+4, number(v))
	}
	fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text><text x="8" y="%.1f">%s</text>`+"\n",
		toX(math.Sqrt(x0*x1)), plotHeight-8, html.EscapeString(p.x), marginY-8, html.EscapeString(p.y))
	for i, name := range p.lines() {
		colour := colours[i%len(colours)]
		var low, high []string
		for _, q := range p.points {
			if q.line != name {
				continue
			}
			low = append(low, fmt.Sprintf("%.1f,%.1f", toX(q.x), toY(q.y)))
			if q.high > q.y {
				high = append(high, fmt.Sprintf("%.1f,%.1f", toX(q.x), toY(q.high)))
			}
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", toX(q.x), toY(q.y), colour)
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(low, " "),
			colour)
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-dasharray="3 3"/>`+"\n",
			strings.Join(high, " "), colour)
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" fill="%s">%s</text>`+"\n", plotWidth-marginRight+12, marginY+18*float64(i)+8,
			colour, html.EscapeString(name))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// text returns the plot as bars, one line for each point.
func (p plot) text() string {
	const width = 40
	_, _, y0, y1 := p.bounds()
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s (bars are logarithmic)\n\n", p.title, p.y)
	for _, name := range p.lines() {
		for _, q := range p.points {
			if q.line != name {
				continue
			}
			long := func(v float64) int { return max(1, int(width*math.Log10(v/y0)/math.Log10(y1/y0))) }
			bar := strings.Repeat("#", long(q.y))
			if q.high > q.y {
				bar += strings.Repeat("-", long(q.high)-long(q.y))
			}
			fmt.Fprintf(&b, "    %-16s %5s  %-*s %s", name, number(q.x), width+2, bar, number(q.y))
			if q.high > q.y {
				fmt.Fprintf(&b, " / %s", number(q.high))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

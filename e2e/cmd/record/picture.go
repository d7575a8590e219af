package main

import (
	"encoding/xml"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// The size of a character cell and of the margin, in pixels.
const (
	cellWidth, cellHeight = 8, 18
	margin                = 16
	widestShown           = 832 // the column of a forge; a wider screen is shown smaller
)

// classes are the names in the style of what the terminal's SGR parameters make of a text.
var classes = map[string]string{"31": "red", "32": "green", "33": "yellow", "90": "gray", "1": "bold"}

// style has the colors of a light page, and those of a dark one.
const style = `<style>
  rect { fill: #f6f8fa; stroke: #d1d9e0 } text { fill: #1f2328 } .bold { font-weight: bold }
  .red { fill: #cf222e } .green { fill: #1a7f37 } .yellow { fill: #9a6700 } .gray { fill: #59636e }
  @media (prefers-color-scheme: dark) {
    rect { fill: #0d1117; stroke: #3d444d } text { fill: #c9d1d9 } .bold { fill: #ffffff }
    .red { fill: #ff7b72 } .green { fill: #7ee787 } .yellow { fill: #e3b341 } .gray { fill: #8b949e }
  }
</style>
`

var escape = regexp.MustCompile("\x1b\\[([0-9;]*)m")

// picture returns an SVG of what a terminal shows. Other escapes than colors are left out.
func picture(screen string) string {
	screen = strings.TrimRight(strings.ReplaceAll(screen, "\r", ""), "\n")
	lines, widest := strings.Split(screen, "\n"), 0
	for _, line := range lines {
		widest = max(widest, utf8.RuneCountInString(escape.ReplaceAllString(line, "")))
	}
	width, height := widest*cellWidth+2*margin, len(lines)*cellHeight+2*margin
	shown := min(width, widestShown)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" `+
		`font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="13">`+"\n", shown, height*shown/width, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n%s", title(lines[0]), style)
	fmt.Fprintf(&b, `<rect x="0.5" y="0.5" width="%d" height="%d" rx="8"/>`+"\n", width-1, height-1)
	for i, line := range lines {
		if line == "" {
			continue
		}
		length := utf8.RuneCountInString(escape.ReplaceAllString(line, "")) * cellWidth
		// textLength keeps columns aligned whatever font the reader has.
		fmt.Fprintf(&b, `<text x="%d" y="%d" xml:space="preserve" textLength="%d" lengthAdjust="spacingAndGlyphs">%s</text>`+"\n",
			margin, margin+(i+1)*cellHeight-5, length, spans(line))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// title returns a line without its colors and the prompt, as text of SVG.
func title(line string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(strings.TrimPrefix(escape.ReplaceAllString(line, ""), "$ "))) // a Builder does not fail
	return b.String()
}

// spans returns the line as text of SVG, with a tspan for what has a class of the style.
func spans(line string) string {
	var b strings.Builder
	class := ""
	text := func(s string) {
		if s == "" {
			return
		}
		if class != "" {
			fmt.Fprintf(&b, `<tspan class="%s">`, class)
			defer b.WriteString("</tspan>")
		}
		_ = xml.EscapeText(&b, []byte(s)) // a Builder does not fail
	}
	for {
		at := escape.FindStringSubmatchIndex(line)
		if at == nil {
			text(line)
			return b.String()
		}
		text(line[:at[0]])
		class = classes[line[at[2]:at[3]]]
		line = line[at[1]:]
	}
}

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
)

// colors are those of the terminal's SGR parameters, on the dark background.
var colors = map[string]string{"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "90": "#8b949e", "1": "#ffffff"}

var escape = regexp.MustCompile("\x1b\\[([0-9;]*)m")

// picture returns an SVG of what a terminal shows. Other escapes than colors are left out.
func picture(screen string) string {
	screen = strings.TrimRight(strings.ReplaceAll(screen, "\r", ""), "\n")
	lines, widest := strings.Split(screen, "\n"), 0
	for _, line := range lines {
		widest = max(widest, utf8.RuneCountInString(escape.ReplaceAllString(line, "")))
	}
	width, height := widest*cellWidth+2*margin, len(lines)*cellHeight+2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %[2]d" `+
		`font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="13">`+"\n", width, height, width)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="8" fill="#0d1117"/>`+"\n", width, height)
	for i, line := range lines {
		if line == "" {
			continue
		}
		length := utf8.RuneCountInString(escape.ReplaceAllString(line, "")) * cellWidth
		// textLength keeps columns aligned whatever font the reader has.
		fmt.Fprintf(&b, `<text x="%d" y="%d" xml:space="preserve" fill="#c9d1d9" textLength="%d" lengthAdjust="spacingAndGlyphs">%s</text>`+"\n",
			margin, margin+(i+1)*cellHeight-5, length, spans(line))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// spans returns the line as text of SVG, with a tspan for what has a color.
func spans(line string) string {
	var b strings.Builder
	color := ""
	text := func(s string) {
		if s == "" {
			return
		}
		if color != "" {
			fmt.Fprintf(&b, `<tspan fill="%s">`, color)
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
		color = colors[line[at[2]:at[3]]]
		line = line[at[1]:]
	}
}

package view

import (
	"strings"
	"unicode/utf8"
)

// Style is how a user wants to read.
type Style struct {
	Wide, NoHeaders bool
	// Color is set for terminals.
	Color bool
	// Width is that of the terminal in characters; 0 for no terminal, whose lines are not broken.
	Width int
}

// Paint is a color.
type Paint string

// The colors, as SGR parameters of ECMA-48.
const (
	Red    Paint = "31"
	Green  Paint = "32"
	Yellow Paint = "33"
	Gray   Paint = "90"
	Bold   Paint = "1"
)

// Paint returns the text in the color, or as it is without colors.
func (s Style) Paint(p Paint, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return "\x1b[" + string(p) + "m" + text + "\x1b[0m"
}

// Wrapped breaks a text at spaces into lines of the terminal's width. The first line follows lead
// and the others are indented by as much. A text that fits, and one with little room beside lead, is
// one line.
func (s Style) Wrapped(lead, text string) string {
	text = Printable(text)
	indent := utf8.RuneCountInString(lead)
	room := s.Width - indent
	if s.Width == 0 || room < 20 || utf8.RuneCountInString(text) <= room {
		return strings.TrimRight(lead+text, " ") + "\n"
	}
	var b strings.Builder
	line, used := lead, 0
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		if used > 0 && used+1+n > room {
			b.WriteString(line + "\n")
			line, used = strings.Repeat(" ", indent), 0
		}
		if used > 0 {
			line += " "
			used++
		}
		line += word
		used += n
	}
	b.WriteString(line + "\n")
	return b.String()
}

package view

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Table is a table of texts. Columns that are Wide are printed for -o wide only.
type Table struct {
	Columns []Column
	Rows    [][]string
}

// Column is a column of a table.
type Column struct {
	Title string
	Wide  bool
	// Right aligns numbers.
	Right bool
	// Optional leaves the column out if no row has a value in it.
	Optional bool
}

// Columns returns columns of these titles. A title that begins with + is Wide, one that begins with
// ? is Optional, and one that ends with > is aligned to the right.
func Columns(titles ...string) (all []Column) {
	for _, t := range titles {
		all = append(all, Column{Title: strings.TrimSuffix(strings.TrimLeft(t, "+?"), ">"), Wide: strings.HasPrefix(t, "+"),
			Optional: strings.HasPrefix(t, "?"), Right: strings.HasSuffix(t, ">")})
	}
	return all
}

// none is printed for a row without a value.
const none = "-"

// has reports whether a row has a value in the column.
func (t *Table) has(column int) bool {
	return slices.ContainsFunc(t.Rows, func(row []string) bool { return row[column] != none })
}

// Add adds a row, which has a value for each column.
func (t *Table) Add(values ...any) {
	row := make([]string, len(t.Columns))
	for i := range row {
		if row[i] = none; i < len(values) {
			if text := Printable(fmt.Sprint(values[i])); text != "" {
				row[i] = text
			}
		}
	}
	t.Rows = append(t.Rows, row)
}

// gap separates two columns.
const gap = "   "

// Print prints the table. It prints nothing if there are no rows.
func (t *Table) Print(out io.Writer, s Style) error {
	var shown []int
	for i, c := range t.Columns {
		if (!c.Wide || s.Wide) && (!c.Optional || t.has(i)) {
			shown = append(shown, i)
		}
	}
	rows := t.Rows
	if len(rows) == 0 {
		return nil
	}
	if !s.NoHeaders {
		titles := make([]string, len(t.Columns))
		for i, c := range t.Columns {
			titles[i] = c.Title
		}
		rows = slices.Insert(slices.Clone(rows), 0, titles)
	}
	width := make([]int, len(t.Columns))
	for _, row := range rows {
		for i, text := range row {
			width[i] = max(width[i], utf8.RuneCountInString(text))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := ""
		for n, i := range shown {
			text := row[i]
			if pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(row[i])); t.Columns[i].Right {
				text = pad + text
			} else if n < len(shown)-1 {
				text += pad
			}
			if n > 0 {
				line += gap
			}
			if n == len(shown)-1 { // the last one has the long texts
				b.WriteString(s.Wrapped(line, text))
				break
			}
			line += text
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// Printable returns the text, quoted if it has characters that a terminal would interpret.
func Printable(text string) string {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// barWidth is the length of a bar.
const barWidth = 20

// Bar returns a bar of used of total, with the share in percent; "" if total is 0.
func Bar(used, total int64) string {
	if total <= 0 {
		return ""
	}
	share := min(1, max(0, float64(used)/float64(total)))
	full := int(share*barWidth + 0.5)
	return fmt.Sprintf("%s%s %3.0f%%", strings.Repeat("█", full), strings.Repeat("░", barWidth-full), share*100)
}

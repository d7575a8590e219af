package view

import (
	"bytes"
	"testing"
)

func TestTable(t *testing.T) {
	table := Table{Columns: Columns("NAME", "SIZE>", "+PATH", "WHY")}
	table.Add("a", 10, "/a", "the first reason that there is")
	table.Add("bcd", "", "/b")
	table.Add("e\x1b", 5)
	for name, row := range map[string]struct {
		style Style
		want  string
	}{
		"": {Style{}, "NAME      SIZE   WHY\na           10   the first reason that there is\nbcd          -   -\n\"e\\x1b\"      5   -\n"},
		"wide, no headers": {Style{Wide: true, NoHeaders: true},
			"a         10   /a   the first reason that there is\nbcd        -   /b   -\n\"e\\x1b\"    5   -    -\n"},
		"a terminal":        {Style{Width: 40}, "NAME      SIZE   WHY\na           10   the first reason that\n                 there is\nbcd          -   -\n\"e\\x1b\"      5   -\n"},
		"a narrow terminal": {Style{Width: 30}, "NAME      SIZE   WHY\na           10   the first reason that there is\nbcd          -   -\n\"e\\x1b\"      5   -\n"},
	} {
		var out bytes.Buffer
		if err := table.Print(&out, row.style); err != nil || out.String() != row.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, out.String(), row.want)
		}
	}
	var out bytes.Buffer
	if err := (&Table{Columns: Columns("A")}).Print(&out, Style{}); err != nil || out.Len() > 0 {
		t.Errorf("no rows: %v, %q", err, out.String())
	}
}

func TestBar(t *testing.T) {
	for want, row := range map[string][2]int64{
		"░░░░░░░░░░░░░░░░░░░░   0%": {0, 10}, "██████████░░░░░░░░░░  50%": {5, 10}, "████████████████████ 100%": {12, 10}, "": {1, 0},
	} {
		if got := Bar(row[0], row[1]); got != want {
			t.Errorf("%v: %q, want %q", row, got, want)
		}
	}
}

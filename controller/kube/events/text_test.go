package events

import (
	"fmt"
	"strings"
	"testing"
)

// A text that is too long has as many of its parts as fit, and the number of the others.
func TestFit(t *testing.T) {
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf("claim c-%03d is not bound", i)
	}
	for name, row := range map[string]struct {
		text, want string
		max        int
	}{
		"short":        {"a; b", "a; b", 4},
		"one too much": {"aaaa; bbbb; cccccccccccccc", "aaaa; bbbb; and 1 more", 25},
		"one part":     {strings.Repeat("é", 20), strings.Repeat("é", 8) + "…", 20},
		"none fits":    {strings.Repeat("a", 30) + "; b", strings.Repeat("a", 17) + "…", 20},
	} {
		if got := Fit(row.text, row.max); got != row.want || len(got) > row.max {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
	if got := Fit(strings.Join(many, "; "), MaxNote); len(got) > MaxNote || len(got) < MaxNote-40 || !strings.HasSuffix(got, "; and 962 more") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

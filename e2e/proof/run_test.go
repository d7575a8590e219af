package proof

import (
	"slices"
	"strings"
	"testing"
)

// Steps that begin together wait for each other here, so they end only if they run at the same time.
func TestTogether(t *testing.T) {
	var out strings.Builder
	r := &Runner{Root: t.TempDir(), Tiers: &Tiers{}, Out: &out}
	meets := func(mine, other string) []string {
		return []string{"echo begin " + mine, "touch " + mine + "; timeout 60 sh -c 'until [ -e " + other + " ]; do sleep 0.01; done'",
			"echo end " + mine}
	}
	all := r.together(t.Context(), []step{{name: "a", commands: meets("a", "b")},
		{name: "b", joins: "a", commands: append(meets("b", "a"), "exit 3")}})
	if len(all) != 2 || all[0].err != nil || all[1].err == nil || all[0].joined != "" || all[1].joined != "a" || all[1].cpu != 0 {
		t.Errorf("%+v", all)
	}
	var said []string
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "begin") || strings.HasPrefix(line, "end") || strings.Contains(line, "FAILED") {
			said = append(said, strings.Fields(line)[0]+" "+strings.Fields(line)[1])
		}
	}
	if want := []string{"begin a", "end a", "begin b", "end b", "==> b:"}; !slices.Equal(said, want) {
		t.Errorf("%q of %s, want %q", said, out.String(), want)
	}
}

// A step that joins another one comes after it, with nothing between but what joins it, too.
func TestJoins(t *testing.T) {
	first := ""
	for _, s := range tier1 {
		switch s.joins {
		case "":
			first = s.name
		case first:
		default:
			t.Errorf("%s joins %s, but the step before is %s", s.name, s.joins, first)
		}
	}
}

package migrate

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
)

// Entry is the verdict about one PV.
type Entry struct {
	PV        string  `json:"pv"`
	Claim     string  `json:"claim,omitempty"` // namespace/name
	Directory string  `json:"directory"`
	To        string  `json:"to,omitempty"` // csi or hostpath
	Verdict   Verdict `json:"verdict"`
	Reason    string  `json:"reason,omitempty"`
}

// Report is the plan of a node at the last check.
type Report struct {
	Node    string               `json:"node"`
	Mode    settings.MigrateMode `json:"mode"`
	Entries []Entry              `json:"volumes"`
	// Checked is when the agent made the plan, the zero time before its first check. It does not
	// watch pods: a plan may name one that ended within checkEvery.
	Checked time.Time `json:"checked,omitzero"`
}

// Age describes how old the plan is, and how old it may become.
func (r Report) Age(now time.Time) string {
	if r.Checked.IsZero() {
		return "the agent has not checked yet"
	}
	return fmt.Sprintf("checked %s ago; pods that start or end are noticed within %s",
		max(0, now.Sub(r.Checked)).Round(time.Second), checkEvery+pace)
}

// Print writes a line with the number of PVs by verdict, and the plan as a table.
func (r Report) Print(out io.Writer) error {
	fmt.Fprintf(out, "node %s, --migrate-to-csi=%s: %s\n", r.Node, r.Mode, r.sum())
	if len(r.Entries) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PV\tCLAIM\tDIRECTORY\tTO\tVERDICT\tREASON")
	for _, e := range r.Entries {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", e.PV, cmp.Or(e.Claim, "-"), e.Directory, cmp.Or(e.To, "-"), e.Verdict,
			e.Reason)
	}
	return table.Flush()
}

// verdicts are the verdicts in the order of the summary.
var verdicts = []Verdict{Ready, Moving, Stopped, Waiting, Refused, Left, Migrated}

func (r Report) sum() string {
	counts := r.counts()
	var parts []string
	for _, v := range verdicts {
		if counts[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[v], v))
		}
	}
	switch {
	case parts == nil && r.Mode == settings.MigrateOff:
		return "no migration in progress; this mode checks no other PVs, plan does"
	case parts == nil:
		return "no PV that is, or was, a hostPath PV"
	}
	return strings.Join(parts, ", ")
}

func (r Report) counts() map[Verdict]int {
	counts := map[Verdict]int{}
	for _, e := range r.Entries {
		counts[e.Verdict]++
	}
	return counts
}

package migrate

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
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

// moves reports whether the agent begins migrations in this mode.
func moves(m settings.MigrateMode) bool {
	return m == settings.MigrateRun || m == settings.MigrateBack || m == settings.MigrateAnnotated
}

// The backends in the journal and in the plan.
const (
	toCSI      = "csi"
	toHostPath = "hostpath"
)

// target returns the backend that the PV should have, "" for its present one. The
// annotation takes precedence over the mode: only administrators may write PVs.
func target(m settings.MigrateMode, pv *corev1.PersistentVolume) (string, error) {
	mode := settings.MigrateMode(pv.Annotations[contract.AnnMigrate])
	switch mode {
	case "":
		mode = m
	case settings.MigrateOff, settings.MigrateRun, settings.MigrateBack:
	default:
		return "", fmt.Errorf("annotation %s is %q; it must be one of %q", contract.AnnMigrate, mode,
			[]settings.MigrateMode{settings.MigrateRun, settings.MigrateBack, settings.MigrateOff})
	}
	switch mode {
	case settings.MigrateRun, settings.MigratePlan:
		return toCSI, nil
	case settings.MigrateBack:
		return toHostPath, nil
	}
	return "", nil
}

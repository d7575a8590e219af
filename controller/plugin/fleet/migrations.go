package fleet

import (
	"cmp"
	"slices"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Migration is a volume whose PV is, was, or shall be replaced by one of the other kind.
type Migration struct {
	Namespace string `json:"namespace,omitempty"`
	Claim     string `json:"claim,omitempty"`
	PV        string `json:"pv"`
	Node      string `json:"node,omitempty"`
	// To is csi or hostpath; "" if it is not known.
	To string `json:"to,omitempty"`
	// Step is stopped, cutover, prepared, waiting, left (hostPath PVs that nothing selects), or done.
	Step string `json:"step"`
	// Why is why it stopped, waits, or is not known.
	Why     string    `json:"why,omitempty"`
	Changed time.Time `json:"changed,omitzero"`
}

// The steps besides those of record.MigrationStep.
const (
	stopped = "stopped"
	waiting = "waiting"
	left    = "left"
)

// stepOrder is the order of steps in a table: those that need an administrator come first.
var stepOrder = []string{stopped, string(record.MigrationCutover), string(record.MigrationPrepared), waiting, left,
	string(record.MigrationDone)}

// Migrations returns the volumes of a stock that are, or were, hostPath volumes, with the state of
// their migration.
func Migrations(s *Stock) []Migration {
	var all []Migration
	for _, v := range Volumes(s) {
		if m, ok := migrationOf(&v); ok {
			all = append(all, m)
		}
	}
	slices.SortStableFunc(all, func(a, b Migration) int {
		return cmp.Or(cmp.Compare(slices.Index(stepOrder, a.Step), slices.Index(stepOrder, b.Step)),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Claim, b.Claim), cmp.Compare(a.PV, b.PV))
	})
	return all
}

// Done reports whether the volume has its CSI PV.
func (m *Migration) Done() bool { return m.Step == string(record.MigrationDone) && m.To == "csi" }

// migrationOf describes the migration of a volume. The journal of the pool decides, if it is known;
// otherwise the PV shows whether it was replaced.
func migrationOf(v *Volume) (m Migration, ok bool) {
	m = Migration{Namespace: v.Namespace, Claim: v.Claim, PV: v.PV, Node: v.Node, Why: v.Unknown}
	if j := v.Migration; j != nil {
		m.To, m.Step, m.Changed, m.Why = j.To, string(j.Step), j.Changed, j.Stopped
		if j.Stopped != "" && j.Step != record.MigrationDone {
			m.Step = stopped
		}
		return m, true
	}
	pv := v.pv
	switch {
	case pv == nil:
		return m, false
	case pv.Annotations[contract.AnnReplaces] != "":
		m.Step, m.To, m.Why = string(record.MigrationDone), "hostpath", ""
		if pv.Spec.CSI != nil {
			m.To = "csi"
		}
		return m, true
	}
	m.Step = left
	switch asked := pv.Annotations[contract.AnnMigrate]; asked {
	case "run", "back":
		m.Step, m.To = waiting, map[string]string{"run": "csi", "back": "hostpath"}[asked]
		m.Why = cmp.Or(m.Why, "the PV's annotation "+contract.AnnMigrate+" asks for it")
	case "off":
		m.Why = "the PV's annotation " + contract.AnnMigrate + " is off"
	}
	return m, pv.Spec.CSI == nil && identity.Provisioned(pv) || m.Step != left
}

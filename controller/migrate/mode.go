package migrate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/class"
)

// Mode defines what happens to PVs without the annotation class.AnnMigrate.
type Mode string

// The modes. In each of them the agent finishes migrations that cannot be cancelled any
// more.
const (
	Off       Mode = "off"       // nothing
	Plan      Mode = "plan"      // nothing; the plan shows what Run would do
	Run       Mode = "run"       // hostPath PVs are replaced by CSI PVs
	Back      Mode = "back"      // those CSI PVs are replaced by hostPath PVs
	Annotated Mode = "annotated" // nothing; PVs with the annotation are migrated
)

// ParseMode parses a mode. The error lists the modes.
func ParseMode(text string) (Mode, error) {
	all := []Mode{Off, Plan, Run, Back, Annotated}
	if !slices.Contains(all, Mode(text)) {
		return Off, fmt.Errorf("%q is none of %q", text, all)
	}
	return Mode(text), nil
}

// moves reports whether the agent begins migrations in this mode.
func (m Mode) moves() bool { return m == Run || m == Back || m == Annotated }

// The backends in the journal and in the plan.
const (
	toCSI      = "csi"
	toHostPath = "hostpath"
)

// target returns the backend that the PV should have, "" for its present one. The
// annotation takes precedence over the mode: only administrators may write PVs.
func (m Mode) target(pv *corev1.PersistentVolume) (string, error) {
	mode := Mode(pv.Annotations[class.AnnMigrate])
	switch mode {
	case "":
		mode = m
	case Off, Run, Back:
	default:
		return "", fmt.Errorf("annotation %s is %q; it must be one of %q", class.AnnMigrate, mode, []Mode{Run, Back, Off})
	}
	switch mode {
	case Run, Plan:
		return toCSI, nil
	case Back:
		return toHostPath, nil
	}
	return "", nil
}

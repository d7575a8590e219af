package migrate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/class"
)

// Mode is what happens to PVs that no annotation speaks of.
type Mode string

// The modes. In any of them a migration that is past the point of return is
// finished.
const (
	Off       Mode = "off"       // nothing
	Plan      Mode = "plan"      // nothing; what Run would do is shown
	Run       Mode = "run"       // hostPath PVs become CSI PVs
	Back      Mode = "back"      // those become hostPath PVs again
	Annotated Mode = "annotated" // nothing; annotated PVs are moved
)

// ParseMode reads a mode. The error names those that there are.
func ParseMode(text string) (Mode, error) {
	all := []Mode{Off, Plan, Run, Back, Annotated}
	if !slices.Contains(all, Mode(text)) {
		return Off, fmt.Errorf("%q is none of %q", text, all)
	}
	return Mode(text), nil
}

// moves reports whether migrations are begun.
func (m Mode) moves() bool { return m == Run || m == Back || m == Annotated }

// What a PV can be, in the journal and in the plan.
const (
	toCSI      = "csi"
	toHostPath = "hostpath"
)

// wanted returns what the PV shall be, "" for what it is. The annotation wins:
// PVs are written by administrators only.
func (m Mode) wanted(pv *corev1.PersistentVolume) (string, error) {
	asked := Mode(pv.Annotations[class.AnnMigrate])
	switch asked {
	case "":
		asked = m
	case Off, Run, Back:
	default:
		return "", fmt.Errorf("annotation %s is %q; it is one of %q", class.AnnMigrate, asked, []Mode{Run, Back, Off})
	}
	switch asked {
	case Run, Plan:
		return toCSI, nil
	case Back:
		return toHostPath, nil
	}
	return "", nil
}

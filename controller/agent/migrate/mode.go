package migrate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
)

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

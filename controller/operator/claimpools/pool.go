package claimpools

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Pool is a pool whose disk is the volume of a claim on each node.
type Pool struct {
	Name string
	// Path is the directory of the pool, at which the filesystem is mounted.
	Path string
	// Template describes the claims. It is nil for a pool that stays as it is while PVs use it.
	Template *corev1.PersistentVolumeClaimSpec
}

// Node is a node on which an agent runs.
type Node struct {
	Name string
	// Offered are the pools that the agent offers, if it is ready.
	Offered []string
}

// Reasons of pools that are not ready. The last two stay until a user changes the template.
const (
	NotReady    = "StoragePoolNotReady"
	Unsupported = "StoragePoolUnsupported"
	Shared      = "SharedPoolUnsupported"
)

// Refused returns why there cannot be a pool on claims of the template, as a reason and a message,
// or "".
func Refused(template *corev1.PersistentVolumeClaimSpec) (reason, message string) {
	switch {
	case slices.Contains(template.AccessModes, corev1.ReadWriteMany):
		return Shared, "nodes cannot share a pool; remove pvcTemplate, or request ReadWriteOnce"
	case slices.Contains(template.AccessModes, corev1.ReadOnlyMany):
		return Unsupported, "a pool is written to; request ReadWriteOnce in pvcTemplate"
	case isBlock(template):
		return Unsupported, "a pool needs a filesystem, and pvcTemplate has volumeMode Block; for a new pool, remove " +
			"volumeMode. If the pool has claims already, they stay block devices: add a pool of another name and path"
	}
	return "", ""
}

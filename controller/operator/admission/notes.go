package admission

import (
	"slices"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
)

// Notes are settings of the resource that have no effect.
func Notes(cr *v1beta1.HostPathProvisioner) (all []string) {
	for _, gate := range slices.Sorted(slices.Values(cr.Spec.FeatureGates)) {
		if gate == "Snapshotting" {
			all = append(all, "snapshots are not offered yet")
		} else {
			all = append(all, "feature gate "+gate+" is unknown")
		}
	}
	for _, p := range cr.Spec.StoragePools {
		if p.SnapshotProvider != "" {
			all = append(all, "pool "+p.Name+": snapshotProvider has no effect yet")
		}
		if p.OverlayClassName != "" {
			all = append(all, "pool "+p.Name+": overlayClassName has no effect")
		}
	}
	return all
}

package contract

import storagev1 "k8s.io/api/storage/v1"

// WaitsForAttacher reports whether pods with volumes of the driver wait until an attacher has
// attached them, which no program of this project does. Kubernetes takes a CSIDriver without
// attachRequired for one that has true. The field cannot be changed, so the object is to be
// replaced.
func WaitsForAttacher(d *storagev1.CSIDriver) bool {
	return d.Spec.AttachRequired == nil || *d.Spec.AttachRequired
}

package recovery

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// importer begins the annotations of KubeVirt's importer, and importedFor is the kind of the owner of
// its claims. It would write an image over the data of a volume.
const (
	importer    = "cdi.kubevirt.io/"
	importedFor = "DataVolume"
)

// unfit returns why a claim that waits must not get the PV, "" if it may. other is the name of a PV
// that was made for the claim, "" if there is none.
func unfit(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, other string) string {
	if pv == nil {
		return "there is no PV to compare it with"
	}
	s := claim.Spec
	switch {
	case contract.Of(claim) != pv.Spec.StorageClassName:
		return fmt.Sprintf("its class is %q, and that of the volume %q", contract.Of(claim), pv.Spec.StorageClassName)
	case slices.ContainsFunc(s.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return !slices.Contains(pv.Spec.AccessModes, m)
	}):
		return fmt.Sprintf("its access modes are %q, and those of the volume %q", s.AccessModes, pv.Spec.AccessModes)
	case s.VolumeMode != nil && *s.VolumeMode != corev1.PersistentVolumeFilesystem:
		return fmt.Sprintf("its volumeMode is %s", *s.VolumeMode)
	case contract.Bytes(claim) > contract.WholeBytes(pv.Spec.Capacity.Storage()):
		return fmt.Sprintf("it requests %s, and the volume has %s",
			s.Resources.Requests.Storage(), pv.Spec.Capacity.Storage())
	case s.Selector != nil:
		return "it has a selector"
	case s.DataSource != nil || s.DataSourceRef != nil:
		return "it has a data source, which would be written over the data"
	case s.VolumeAttributesClassName != nil && *s.VolumeAttributesClassName != "":
		return "it names a class of attributes"
	case other != "":
		return fmt.Sprintf("PV %s was made for it", other)
	}
	return imported(claim)
}

// unfinished is imported for a claim that names the PV already, as one that was applied from a backup
// does: an importer leaves it alone if it says that its import has ended.
func unfinished(claim *corev1.PersistentVolumeClaim) string {
	if claim.Annotations[importer+"storage.pod.phase"] == string(corev1.PodSucceeded) {
		return ""
	}
	return imported(claim)
}

// imported returns why an importer may write over the volume of a claim, "" if none does.
func imported(claim *corev1.PersistentVolumeClaim) string {
	for key := range claim.Annotations {
		if strings.HasPrefix(key, importer) {
			return "it has annotations of " + strings.TrimSuffix(importer, "/") + ", which would import over the data"
		}
	}
	if slices.ContainsFunc(claim.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == importedFor }) {
		return "it is owned by a " + importedFor + ", for which an image would be imported over the data"
	}
	return ""
}

// MadeFor reports whether a PV was made for a claim.
func MadeFor(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	return contract.ClaimUID(pv) == string(claim.UID) || pv.Name == contract.PVName(claim)
}

package provision

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/claims"
	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/volume"
)

// hostPathShape is the shape of class.HostPathProvisioner: all volumes in one
// pool, and PVs that name the directory's path.
type hostPathShape struct {
	*Controller
	in     *volume.Pool
	prefix bool
}

func (s *hostPathShape) provisioner() string { return class.HostPathProvisioner }

func (s *hostPathShape) rule() claims.Rule { return claims.PlaceHostPath }

func (s *hostPathShape) check(claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass) error {
	if err := class.CheckSupported(claim, class.HostPathModes); err != nil {
		return err
	}
	return class.CheckHostPath(sc)
}

func (s *hostPathShape) pool(*storagev1.StorageClass) *volume.Pool { return s.in }

// A claim that an annotation places is never given back: the library would
// write its prepared copy to the API server.
func (s *hostPathShape) givesBack(claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass, r *refusal) bool {
	return r.topic == topicSpace && class.Delayed(sc) && !class.NamesNode(claim)
}

func (s *hostPathShape) ignored(*corev1.PersistentVolumeClaim) string { return "" }

func (s *hostPathShape) directory(pv string, claim *corev1.PersistentVolumeClaim) string {
	return class.Directory(pv, claim.Name, s.prefix)
}

func (s *hostPathShape) newPV(o lib.ProvisionOptions, pool *volume.Pool, v volume.Volume) *corev1.PersistentVolume {
	return class.HostPathPV(o.PVName, v.Path, o.PVC, o.StorageClass, s.here(pool), s.policyOf(o.StorageClass))
}

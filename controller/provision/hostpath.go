package provision

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/claims"
	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/volume"
)

// hostPath makes all volumes in one pool, and PVs that name the directory's path.
type hostPath struct{ in *volume.Pool }

func newHostPathBackend(pool *volume.Pool, prefix bool) *backend {
	return &backend{
		volumes: hostPath{in: pool}, provisioner: class.HostPathProvisioner, rule: claims.PlaceHostPath, prefix: prefix,
		check: checkHostPath,
	}
}

func checkHostPath(claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass) error {
	if err := class.CheckSupported(claim, class.HostPathModes); err != nil {
		return err
	}
	return class.CheckHostPath(sc)
}

func (h hostPath) pool(*storagev1.StorageClass) *volume.Pool { return h.in }

// givesBack keeps a claim that an annotation places: the library would write its
// prepared copy to the API server.
func (h hostPath) givesBack(claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass, r *refusal) bool {
	return r.reason == refusedSpace && class.Delayed(sc) && !class.NamesNode(claim)
}

func (h hostPath) newPV(s served) *corev1.PersistentVolume {
	return class.HostPathPV(s.name, s.volume.Path, s.claim, s.class, s.at, s.policy)
}

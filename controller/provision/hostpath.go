package provision

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/claims"
	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/pvs"
	"kubevirt.io/hostpath-provisioner/volume"
)

// hostPath makes volumes in the pools of one dialect, and PVs that name the directory's
// path.
type hostPath struct{ pvs.Served }

func newHostPathBackend(s pvs.Served) *backend {
	return &backend{
		volumes: hostPath{s}, provisioner: s.Provisioner, ignoresNode: !s.ByAnnotation,
		rule: claims.Rule{ByAnnotation: s.ByAnnotation, OnlyNode: s.OnlyNode},
	}
}

func (h hostPath) check(claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass) error {
	return h.Check(claim, sc)
}

func (h hostPath) directory(claim *corev1.PersistentVolumeClaim) string { return h.Directory(claim) }

// pools returns all pools of the dialect, or the one whose path the class names.
func (h hostPath) pools(sc *storagev1.StorageClass) []*volume.Pool {
	path := h.pathOf(sc)
	if path == "" {
		return h.Pools
	}
	for i, pool := range h.Pools {
		if pool.Path() == path {
			return h.Pools[i : i+1]
		}
	}
	return nil
}

// pathOf returns the path that the class names, "" if it names none.
func (h hostPath) pathOf(sc *storagev1.StorageClass) string {
	if h.PathParameter == "" {
		return ""
	}
	return sc.Parameters[h.PathParameter]
}

func (h hostPath) missing(sc *storagev1.StorageClass) string {
	var paths []string
	for _, pool := range h.Pools {
		paths = append(paths, pool.Path())
	}
	return fmt.Sprintf("no pool in %s, which class %q names in its parameter %s; it has pools in %q",
		h.pathOf(sc), sc.Name, h.PathParameter, paths)
}

// givesBack keeps a claim that an annotation places: the library would write its
// prepared copy to the API server.
func (h hostPath) givesBack(claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass, r *refusal) bool {
	return r.reason == refusedSpace && class.Delayed(sc) && (!h.ByAnnotation || !class.NamesNode(claim))
}

func (h hostPath) newPV(s served) *corev1.PersistentVolume {
	return h.PV(s.name, s.volume.Path, s.claim, s.class, s.at, s.policy)
}

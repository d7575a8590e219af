package provision

import (
	"fmt"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/agent/pvs"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
)

// hostPath makes volumes in the pools of one dialect, and PVs that name the directory's
// path.
type hostPath struct{ pvs.Served }

func newHostPathBackend(s pvs.Served) *backend {
	return &backend{volumes: hostPath{s}, provisioner: s.Provisioner, dialect: s.Dialect, byHostname: true}
}

func (h hostPath) check(claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass) error {
	return h.Check(claim, sc)
}

func (h hostPath) directory(claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass) string {
	return h.Directory(claim, sc)
}

// pools returns the dialect's pools for volumes of the class, or the one of these whose
// path the class names.
func (h hostPath) pools(sc *storagev1.StorageClass) []*volume.Pool {
	pools := h.Pools
	if h.Paths != nil {
		paths, _ := h.Paths(sc.Name)
		pools = slices.DeleteFunc(slices.Clone(pools), func(p *volume.Pool) bool { return !slices.Contains(paths, p.Path()) })
	}
	path := h.pathOf(sc)
	if path == "" {
		return pools
	}
	for i, pool := range pools {
		if pool.Path() == path {
			return pools[i : i+1]
		}
	}
	return nil
}

func (h hostPath) all() []*volume.Pool { return h.Pools }

// pathOf returns the path that the class names, "" if it names none.
func (h hostPath) pathOf(sc *storagev1.StorageClass) string {
	if h.PathParameter == "" || sc.Parameters[h.PathParameter] == "" {
		return ""
	}
	return filepath.Clean(sc.Parameters[h.PathParameter])
}

func (h hostPath) missing(sc *storagev1.StorageClass) string {
	var paths []string
	for _, pool := range h.Pools {
		paths = append(paths, pool.Path())
	}
	if h.Paths != nil {
		var err error
		if paths, err = h.Paths(sc.Name); err != nil {
			return fmt.Sprintf("no pool for class %q: %v", sc.Name, err)
		}
	}
	return fmt.Sprintf("no pool in %s, which class %q names in its parameter %s; it has pools in %q; use a class of one of these, or keep the pods off this node",
		h.pathOf(sc), sc.Name, h.PathParameter, paths)
}

// givesBack keeps a claim that an annotation places: the library would write its
// prepared copy to the API server.
func (h hostPath) givesBack(claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass, r *refusal) bool {
	return r.reason == refusedSpace && contract.Delayed(sc) && (!h.ByAnnotation || !contract.NamesNode(claim))
}

func (h hostPath) newPV(s served) *corev1.PersistentVolume {
	return h.PV(s.name, s.volume.Path, s.claim, s.class, s.at, s.policy)
}

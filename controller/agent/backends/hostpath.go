package backends

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/volume"
)

// Served is a dialect whose claims and PVs the agent serves, and the pools of their volumes.
type Served struct {
	contract.Dialect
	Pools []*volume.Pool
	// Paths returns the paths of the pools for new volumes of a class. The error is for
	// the user of a claim. If Paths is nil, all Pools serve every class.
	Paths func(class string) ([]string, error)
}

// PoolAt returns the pool that is the parent of path, and the last element of path. The
// pool is nil if there is none. PoolAt compares the path and does not open it.
func PoolAt(pools []*volume.Pool, path string) (*volume.Pool, string) {
	name := filepath.Base(path)
	for _, pool := range pools {
		if filepath.Join(pool.Path(), name) == path {
			return pool, name
		}
	}
	return nil, ""
}

// hostPath is a dialect on a node. A PV names the path of its directory, which is in one of the
// dialect's pools.
type hostPath struct {
	node Node
	Served
}

// HostPath returns the backend of a dialect.
func HostPath(node Node, s Served) *Backend {
	h := &hostPath{node: node, Served: s}
	return &Backend{Provisioner: s.Provisioner, Dialect: s.Dialect, Pools: s.Pools, Claims: h, PVs: h}
}

// PoolsFor returns the dialect's pools for volumes of the class, or the one whose path that names.
func (h hostPath) PoolsFor(sc *storagev1.StorageClass) []*volume.Pool {
	var paths []string
	if h.Paths != nil {
		paths, _ = h.Paths(sc.Name)
	}
	path := h.pathOf(sc)
	return slices.DeleteFunc(slices.Clone(h.Pools), func(p *volume.Pool) bool {
		return h.Paths != nil && !slices.Contains(paths, p.Path()) || path != "" && path != p.Path()
	})
}

// pathOf returns the path that the class names, "" if it names none.
func (h hostPath) pathOf(sc *storagev1.StorageClass) string {
	if h.PathParameter == "" || sc.Parameters[h.PathParameter] == "" {
		return ""
	}
	return filepath.Clean(sc.Parameters[h.PathParameter])
}

func (h hostPath) Missing(sc *storagev1.StorageClass) string {
	paths := volume.Paths(h.Pools)
	if h.Paths != nil {
		var err error
		if paths, err = h.Paths(sc.Name); err != nil {
			return fmt.Sprintf("no pool for class %q: %v", sc.Name, err)
		}
	}
	return fmt.Sprintf("no pool in %s, which class %q names in its parameter %s; it has pools in %q; use a class of one "+
		"of these, or keep the pods off this node",
		h.pathOf(sc), sc.Name, h.PathParameter, paths)
}

// GivesBack keeps a claim that an annotation places: the library would write its
// prepared copy to the API server.
func (h hostPath) GivesBack(claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass, w Why) bool {
	_, by := contract.NodeOf(claim, sc)
	return w.NoSpace && contract.Delayed(sc) && by != contract.AnnProvisionOnNode
}

func (h hostPath) NewPV(m Made) *corev1.PersistentVolume {
	return h.PV(m.Name, m.Volume.Path, m.Claim, m.Class, m.At, m.Policy)
}

// OfThisNode returns true for every PV that no agent has labelled if the provisioner is
// for clusters of one node, so that an event is recorded about a PV of another node.
func (h hostPath) OfThisNode(pv *corev1.PersistentVolume) bool {
	if pv.Annotations[contract.AnnProvisionedBy] != h.Provisioner {
		return false
	}
	return h.Names(pv, At(h.node)) || h.OnlyNode && pv.Labels[contract.LabelNode] == ""
}

// PoolOf ignores a PV that OfThisNode returns for the event alone.
func (h hostPath) PoolOf(pv *corev1.PersistentVolume) (*volume.Pool, string) {
	if h.OnlyNode && !h.Names(pv, At(h.node)) {
		return nil, ""
	}
	return PoolAt(h.Pools, contract.DirectoryOf(pv))
}

func (h hostPath) Validate(pv *corev1.PersistentVolume) (*volume.Pool, string, error) {
	path, err := h.Dialect.Validate(pv, At(h.node))
	if err != nil {
		return nil, "", err
	}
	pool, name := PoolAt(h.Pools, path)
	if pool == nil {
		return nil, "", fmt.Errorf("its path %q is not a directory right below the pool's, %s", path,
			strings.Join(volume.Paths(h.Pools), " or "))
	}
	if err := CheckPool(pv, pool); err != nil {
		return nil, "", err
	}
	if err := volume.CheckName(name); err != nil {
		return nil, "", err
	}
	return pool, name, nil
}

func (h hostPath) Marks(pv *corev1.PersistentVolume) identity.PV {
	all, here, host := CommonMarks(pv, h.node), At(h.node), contract.Hostname(pv)
	all.Affinity = identity.Name{Mark: "its node affinity to " + corev1.LabelHostname, Value: host,
		Own: here.IsNamed(host), Host: true}
	all.Unpinned = h.IsUnpinned(pv)
	for _, m := range h.NodeAnnotations(pv, here) {
		all.Annotations = append(all.Annotations, identity.Name{
			Mark: "annotation " + m.Key, Value: m.Value, Own: m.Own, Host: m.Host,
		})
	}
	return all
}

// Adoptable requires that the PV and the directory are named after the claim, because any
// writer of PVs can choose the path.
func (h hostPath) Adoptable(pv *corev1.PersistentVolume, _ *volume.Pool, directory string) error {
	return h.CheckNames(pv, directory)
}

// Deletable returns nil: Validate has checked the provisioner of the PV.
func (h hostPath) Deletable(*corev1.PersistentVolume) error { return nil }

// At returns the node as PVs name it.
func At(node Node) contract.Place {
	return contract.Place{Node: node.Name(), Hostname: node.Hostname(), Former: node.Former()}
}

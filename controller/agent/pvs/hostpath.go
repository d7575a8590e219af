package pvs

import (
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/volume"
)

// Served is a dialect whose claims and PVs the agent serves, and the pools of their
// volumes.
type Served struct {
	contract.Dialect
	Pools []*volume.Pool
	// Paths returns the paths of the pools for new volumes of a class. The error is for
	// the user of a claim. If Paths is nil, all Pools serve every class.
	Paths func(class string) ([]string, error)
}

// poolAt returns the pool that is the parent of path, and the last element of path. The
// pool is nil if there is none. poolAt compares the path and does not open it.
func poolAt(pools []*volume.Pool, path string) (*volume.Pool, string) {
	name := filepath.Base(path)
	for _, pool := range pools {
		if filepath.Join(pool.Path(), name) == path {
			return pool, name
		}
	}
	return nil, ""
}

// hostPath implements rules for hostPath and local PVs, as their dialect has them. A PV
// names the path of its directory, which is in one of the dialect's pools.
type hostPath struct {
	node  Node
	nodes *otherNodes
	Served
}

func newHostPathBackend(node Node, nodes *otherNodes, s Served) *backend {
	return &backend{rules: hostPath{node: node, nodes: nodes, Served: s}, provisioner: s.Provisioner}
}

// ofThisNode returns true for every PV that no agent has labelled if the provisioner is
// for clusters of one node, so that an event is recorded about a PV of another node.
func (h hostPath) ofThisNode(pv *corev1.PersistentVolume) bool {
	if pv.Annotations[contract.AnnProvisionedBy] != h.Provisioner {
		return false
	}
	return h.Names(pv, at(h.node)) || h.OnlyNode && pv.Labels[contract.LabelNode] == ""
}

// names ignores a PV that ofThisNode returns for the event alone.
func (h hostPath) names(pv *corev1.PersistentVolume) (*volume.Pool, string) {
	if h.OnlyNode && !h.Names(pv, at(h.node)) {
		return nil, ""
	}
	return poolAt(h.Pools, contract.DirectoryOf(pv))
}

func (h hostPath) validate(pv *corev1.PersistentVolume) (*volume.Pool, string, error) {
	path, err := h.Validate(pv, at(h.node))
	if err != nil {
		return nil, "", err
	}
	pool, name := poolAt(h.Pools, path)
	if pool == nil {
		var paths []string
		for _, pool := range h.Pools {
			paths = append(paths, pool.Path())
		}
		return nil, "", fmt.Errorf("its path %q is not a directory right below the pool's, %s", path, strings.Join(paths, " or "))
	}
	if err := checkPool(pv, pool); err != nil {
		return nil, "", err
	}
	if err := volume.CheckName(name); err != nil {
		return nil, "", err
	}
	marks := h.marks(pv)
	marks.Volume = true
	return pool, name, h.nodes.whose(marks, h.node)
}

func (h hostPath) marks(pv *corev1.PersistentVolume) identity.PV {
	all, here, host := commonMarks(pv, h.node), at(h.node), contract.Hostname(pv)
	all.Affinity = identity.Name{Mark: "its node affinity to " + corev1.LabelHostname, Value: host, Own: here.IsNamed(host), Host: true}
	all.Unpinned = h.IsUnpinned(pv)
	for _, m := range h.NodeAnnotations(pv, here) {
		all.Annotations = append(all.Annotations, identity.Name{
			Mark: "annotation " + m.Key, Value: m.Value, Own: m.Own, Host: h.Provisioner != contract.HostPathProvisioner,
		})
	}
	return all
}

// adoptable requires that the PV and the directory are named after the claim, because any
// writer of PVs can choose the path.
func (h hostPath) adoptable(pv *corev1.PersistentVolume, _ *volume.Pool, directory string) error {
	return h.CheckNames(pv, directory)
}

// deletable returns nil: validate has checked the provisioner of the PV.
func (h hostPath) deletable(*corev1.PersistentVolume) error { return nil }

// at returns the node as PVs name it.
func at(node Node) contract.Place {
	return contract.Place{Node: node.Name(), Hostname: node.Hostname(), Former: node.Former()}
}

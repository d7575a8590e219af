package identity

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
)

// Holder is what keeps the disk of a pool mounted on a node.
type Holder struct {
	Pool string
	// Path is the directory of the pool on the node.
	Path string
	Node string
	// Hostname is the Node's hostname label, "" if the Node does not exist.
	Hostname string
}

// Use is an object that needs the disk of a pool on a node.
type Use struct {
	// Object is the object's kind and name, for messages.
	Object string
	// PV is the name of the PV, "" for a pod.
	PV string
	// Pool is the pool that the object names. If it is "", Path is a directory on the node.
	Pool, Path string
	// Nodes and Hostnames are the marks of its node that the object has.
	Nodes, Hostnames []string
	// Anywhere is set if the object does not require one node.
	Anywhere bool
}

// UseOfPV returns what a PV needs. ok is false for a PV of another driver that is no directory of a
// node.
func UseOfPV(pv *corev1.PersistentVolume) (u Use, ok bool) {
	u.Object, u.PV = "PV "+pv.Name, pv.Name
	if node := pv.Labels[contract.LabelNode]; node != "" {
		u.Nodes = append(u.Nodes, node)
	}
	if node := pv.Annotations[contract.AnnProvisionOnNode]; node != "" {
		u.Nodes = append(u.Nodes, node)
	}
	if pv.Spec.CSI != nil {
		node := contract.TopologyOf(pv)
		u.Pool, u.Nodes, u.Anywhere = contract.PoolName(pv.Spec.CSI.VolumeAttributes), append(u.Nodes, node), node == ""
		return u, Provisioned(pv)
	}
	u.Path = contract.DirectoryOf(pv)
	host := contract.Hostname(pv)
	u.Hostnames, u.Anywhere = []string{host}, host == ""
	return u, u.Path != ""
}

// UsesOfPod returns what the ephemeral inline volumes of a pod need. A pod that has ended, or has
// no node, needs nothing.
func UsesOfPod(pod *corev1.Pod) (all []Use) {
	if pod.Spec.NodeName == "" {
		return nil
	}
	for _, pool := range InlinePools(pod) {
		all = append(all, Use{Object: "pod " + pod.Namespace + "/" + pod.Name, Pool: pool,
			Nodes: []string{pod.Spec.NodeName}})
	}
	return all
}

// InlinePools returns the pools of the inline volumes of a pod that has not ended, each once.
func InlinePools(pod *corev1.Pod) (pools []string) {
	if contract.PodEnded(pod) {
		return nil
	}
	for _, v := range pod.Spec.Volumes {
		if v.CSI == nil || v.CSI.Driver != contract.CSIProvisioner {
			continue
		}
		if pool := contract.PoolName(v.CSI.VolumeAttributes); !slices.Contains(pools, pool) {
			pools = append(pools, pool)
		}
	}
	return pools
}

// MayEnd answers whether a holder may end, after which the pool's disk is unmounted and detached.
// It may (Ours) if nothing uses the disk, and may not (Foreign) if an object does. It is Unclear if
// an object of the pool does not say on which node it is, or gives two. The uses have to be read
// from the API server after no agent of the node offers the pool any more: until then an agent
// creates volumes in it. Whether the Node exists makes no difference: it may come back.
func (h Holder) MayEnd(uses []Use) Finding {
	var used, unclear []string
	for _, u := range uses {
		switch h.needs(u) {
		case Ours:
			used = append(used, u.Object)
		case Unclear:
			unclear = append(unclear, u.Object)
		}
	}
	switch {
	case len(used) > 0:
		return Finding{Foreign, fmt.Sprintf("in use by %s; delete the volumes that are not needed any more",
			first(append(used, unclear...)))}
	case len(unclear) > 0:
		return Finding{Unclear, fmt.Sprintf("perhaps in use by %s: the node affinity and the label %s do not name one "+
			"other node; correct the label, or delete what is not needed any more", first(unclear), contract.LabelNode)}
	}
	return Finding{Answer: Ours}
}

// needs reports whether the object needs the holder: Foreign if it is of another pool or node.
func (h Holder) needs(u Use) Answer {
	if u.Pool != "" && u.Pool != h.Pool || u.Pool == "" && !within(u.Path, h.Path) {
		return Foreign
	}
	if h.Node == "" {
		return Unclear
	}
	here, elsewhere := 0, 0
	count := func(values []string, mine ...string) {
		for _, value := range values {
			switch {
			case value == "":
			case slices.Contains(mine, value):
				here++
			default:
				elsewhere++
			}
		}
	}
	count(u.Nodes, h.Node, contract.LabelValue(h.Node))
	if h.Hostname != "" || slices.Contains(u.Hostnames, h.Node) {
		count(u.Hostnames, h.Hostname, h.Node)
	} else if len(u.Hostnames) > 0 && elsewhere == 0 { // an absent Node had a hostname that is not known
		return Unclear
	}
	switch {
	case here > 0 && elsewhere == 0:
		return Ours
	case here == 0 && elsewhere > 0 && !u.Anywhere:
		return Foreign
	}
	return Unclear
}

// within reports whether the path is the directory, or below it.
func within(path, dir string) bool {
	path = filepath.Clean(path)
	return dir != "" && (path == dir || strings.HasPrefix(path, dir+"/"))
}

// first lists up to five names.
func first(names []string) string {
	slices.Sort(names)
	return events.Names(names, 5)
}

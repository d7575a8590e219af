package fleet

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
)

// annDisks is how agents of raw disks mark Nodes.
const annDisks = "local-pv-provisioner.cybozu.io/pv-spec-configmap"

// Disk is a raw disk as its agent and its PV have it.
type Disk struct {
	Node string `json:"node"`
	agents.Device
	Class string `json:"class,omitempty"`
	// Claim is namespace/name of the claim that the PV is bound to.
	Claim string `json:"claim,omitempty"`
	// Unknown says why no agent reports the disk of the PV; "" if one does.
	Unknown string `json:"unknown,omitempty"`
}

// Disks joins the disks of the agents with PVs, by node and device. PVs whose agent did not answer
// are among them. notAsked says why no agent was asked; "" if they were.
func Disks(nodes cluster.List[corev1.Node], listed []agents.Listed[agents.Device],
	pvs cluster.List[corev1.PersistentVolume], notAsked string) (all []Disk) {
	byName := map[string]*corev1.PersistentVolume{}
	for i := range pvs.Items {
		byName[pvs.Items[i].Name] = &pvs.Items[i]
	}
	why, reported := map[string]string{}, map[string]bool{}
	for _, l := range listed {
		why[l.Agent.Node] = cmp.Or(l.Problem, "the agent of the node does not report it")
		for _, d := range l.Items {
			disk := Disk{Node: l.Agent.Node, Device: d}
			disk.add(byName[d.PV])
			reported[d.PV] = true
			all = append(all, disk)
		}
	}
	nodeOf := nodeOf(nodes)
	for name, pv := range byName {
		if !IsDiskPV(pv) || reported[name] {
			continue
		}
		node := nodeOf(pv)
		disk := Disk{Node: node, Unknown: cmp.Or(notAsked, why[node], "no agent of raw disks runs on the node"),
			Device: agents.Device{PV: name, Bytes: contract.WholeBytes(pv.Spec.Capacity.Storage()), State: "unknown"}}
		if pv.Spec.Local != nil {
			disk.Device.Device = pv.Spec.Local.Path
		}
		disk.add(pv)
		all = append(all, disk)
	}
	slices.SortFunc(all, func(a, b Disk) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Device.Device, b.Device.Device), cmp.Compare(a.PV, b.PV))
	})
	return all
}

func (d *Disk) add(pv *corev1.PersistentVolume) {
	if pv == nil {
		return
	}
	d.Class = pv.Spec.StorageClassName
	if ref := pv.Spec.ClaimRef; ref != nil {
		d.Claim = strings.TrimPrefix(ref.Namespace+"/"+ref.Name, "/")
	}
}

// IsDiskPV reports whether a PV is that of a raw disk.
func IsDiskPV(pv *corev1.PersistentVolume) bool { return pv.Labels[contract.LabelDisk] != "" }

// WantsDisks reports whether a Node names the ConfigMap of its raw disks.
func WantsDisks(n *corev1.Node) bool { return n.Annotations[annDisks] != "" }

package fleet

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Stock is what was read about volumes.
type Stock struct {
	Facts
	PVs    cluster.List[corev1.PersistentVolume]
	Claims cluster.List[corev1.PersistentVolumeClaim]
	// Pods are those that may use claims. Without them Volume.Pod is "".
	Pods cluster.List[corev1.Pod]
}

// Volume is a volume as its pool, its PV and its claim have it. Sizes are in bytes.
type Volume struct {
	Namespace string `json:"namespace,omitempty"`
	Claim     string `json:"claim,omitempty"`
	PV        string `json:"pv,omitempty"`
	Class     string `json:"class,omitempty"`
	Node      string `json:"node,omitempty"`
	Pool      string `json:"pool,omitempty"`
	// Name is that of the directory, and Path the directory; "" if no agent reports it.
	Name string `json:"name,omitempty"`
	Path string `json:"path,omitempty"`
	// State is that of the volume: bound, released, migrating, orphan, missing, and so on.
	State string `json:"state"`
	Size  int64  `json:"size"`
	// Used and Quota are as the kernel has them; nil if they are not known. A Quota of 0 is none, and
	// Used is then not known.
	Used  *int64 `json:"used,omitempty"`
	Quota *int64 `json:"quota,omitempty"`
	// Unknown says why no agent reports the volume; "" if one does, or if none was asked.
	Unknown string `json:"unknown,omitempty"`
	// Pod is one that uses the claim, as namespace/name.
	Pod     string    `json:"pod,omitempty"`
	Created time.Time `json:"created,omitzero"`

	Migration *inspect.Migration `json:"migration,omitempty"`
	// pv is the object of that name; nil if it was not read.
	pv *corev1.PersistentVolume
}

// Full returns which share of its quota the volume uses, from 0 to 1; -1 if it is not known.
func (v *Volume) Full() float64 {
	if v.Used == nil || v.Quota == nil || *v.Quota <= 0 {
		return -1
	}
	return float64(*v.Used) / float64(*v.Quota)
}

// Volumes returns the volumes that pools or PVs have, the one with the most use first.
func Volumes(s *Stock) []Volume {
	pvs := map[string]*corev1.PersistentVolume{}
	for i := range s.PVs.Items {
		pvs[s.PVs.Items[i].Name] = &s.PVs.Items[i]
	}
	all, recorded := s.recorded(pvs)
	why, nodeOf := s.whyUnreported(), nodeOf(s.Nodes)
	for name, pv := range pvs {
		if recorded[name] || !s.serves(pv) {
			continue
		}
		v := Volume{PV: name, Node: nodeOf(pv), Created: pv.CreationTimestamp.Time, pv: pv,
			Size: contract.WholeBytes(pv.Spec.Capacity.Storage()), Pool: poolOf(pv)}
		v.Unknown = why(v.Node)
		v.describe(record.Record{})
		all = append(all, v)
	}
	s.addClaims(all)
	slices.SortFunc(all, func(a, b Volume) int {
		return cmp.Or(cmp.Compare(orNone(b.Used), orNone(a.Used)), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Claim, b.Claim), cmp.Compare(a.Node, b.Node), cmp.Compare(a.PV, b.PV), cmp.Compare(a.Name, b.Name))
	})
	return all
}

func orNone(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

// recorded returns the volumes that the agents report, and the names of their PVs.
func (s *Stock) recorded(pvs map[string]*corev1.PersistentVolume) (all []Volume, names map[string]bool) {
	names = map[string]bool{}
	for _, p := range s.Pools {
		for i := range p.Reports {
			pool := &p.Reports[i].Pool
			for _, r := range p.Reports[i].Volumes {
				v := Volume{Namespace: r.Owner.Namespace, Claim: r.Owner.Name, PV: r.PV, Node: p.Agent.Node,
					Pool: cmp.Or(pool.Name, pool.Path), Name: r.Name, Path: strings.TrimSuffix(pool.Path, "/") + "/" + r.Name,
					Size: r.Bytes, Quota: &r.Quota, Created: r.Created, Migration: r.Migration, pv: pvs[r.PV]}
				if r.Quota > 0 {
					v.Used = &r.Used
				}
				v.describe(record.Record{State: r.State, Orphan: r.Orphan})
				if r.Missing {
					v.State = "missing"
				}
				all = append(all, v)
				names[r.PV] = true
			}
		}
	}
	return all, names
}

// describe sets the state and the class of the volume, and its claim if the PV names one.
func (v *Volume) describe(r record.Record) {
	v.State = string(r.State)
	if pv := v.pv; pv != nil {
		v.Class = pv.Spec.StorageClassName
		if ref := pv.Spec.ClaimRef; ref != nil {
			v.Namespace, v.Claim = ref.Namespace, ref.Name
		}
		switch {
		case pv.DeletionTimestamp != nil:
			v.State = "terminating"
		case pv.Status.Phase != "":
			v.State = strings.ToLower(string(pv.Status.Phase))
		}
	}
	switch m := v.Migration; {
	case r.Orphan.Why != "":
		v.State = "orphan"
	case m != nil && m.Step != record.MigrationDone && m.Stopped != "":
		v.State = "stopped"
	case m != nil && m.Step != record.MigrationDone:
		v.State = "migrating"
	}
}

// addClaims adds the pods that use the claims of the volumes, and the classes of those without a PV.
func (s *Stock) addClaims(all []Volume) {
	classes := map[string]string{}
	for i := range s.Claims.Items {
		c := &s.Claims.Items[i]
		classes[c.Namespace+"/"+c.Name] = contract.Of(c)
	}
	users := contract.ClaimUsers(s.Pods.Items)
	for i := range all {
		v := &all[i]
		v.Pod = users[v.Namespace+"/"+v.Claim]
		v.Class = cmp.Or(v.Class, classes[v.Namespace+"/"+v.Claim])
	}
}

// serves reports whether a PV is that of a provisioner of this project, or of an agent.
func (s *Facts) serves(pv *corev1.PersistentVolume) bool {
	if identity.Provisioned(pv) || pv.Annotations[contract.AnnPool] != "" {
		return true
	}
	return pv.Spec.CSI != nil && s.Agents.Find(func(a *cluster.Agent) bool { return a.Serves(pv.Spec.CSI.Driver) }) != nil
}

// poolOf returns the name of the PV's pool, "" if only its UUID is known.
func poolOf(pv *corev1.PersistentVolume) string {
	if pv.Spec.CSI == nil {
		return ""
	}
	return contract.PoolName(pv.Spec.CSI.VolumeAttributes)
}

// nodeOf returns a function that returns the name of a PV's node, or the hostname that the PV requires
// if no node has it.
func nodeOf(nodes cluster.List[corev1.Node]) func(*corev1.PersistentVolume) string {
	known := cluster.NodesOf(nodes)
	return func(pv *corev1.PersistentVolume) string { return cmp.Or(known(pv), contract.Hostname(pv)) }
}

// whyUnreported returns a function that returns why no agent reports a volume of a node.
func (s *Facts) whyUnreported() func(node string) string {
	answered, problems := map[string]bool{}, map[string]string{}
	for _, p := range s.Pools {
		answered[p.Agent.Node] = true
		if p.Problem != "" {
			problems[p.Agent.Node] = p.Problem
		}
	}
	exists := map[string]bool{}
	for _, n := range s.Nodes.Items {
		exists[n.Name] = true
	}
	return func(node string) string {
		switch {
		case node == "":
			return "its PV names no node"
		case problems[node] != "":
			return problems[node]
		case answered[node]:
			return "no pool of the node has it"
		case s.Nodes.Known() && !exists[node]:
			return "the node does not exist"
		case !s.Agents.Known() || s.NoPools != "":
			return ""
		}
		return "no agent runs on the node"
	}
}

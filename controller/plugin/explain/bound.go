package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/advice"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
)

// age is how long ago it was: 0s for what a clock that is ahead recorded.
func age(now, since time.Time) string { return duration.HumanDuration(max(0, now.Sub(since))) }

// bound explains a claim that names a PV.
func (e *explanation) bound() {
	pv, name := e.PV.It, e.Claim.Spec.VolumeName
	switch {
	case e.PV.Absent():
		e.lost()
		return
	case pv == nil:
		return
	case e.ofAnother(pv) != "":
		e.add(Cause, "give the PV to this claim, or let another claim have its name: see \"Retained volumes\" in "+
			"docs/operations.md", "PV %s %s, not to this one", name, e.ofAnother(pv))
		return
	}
	if pv.Spec.ClaimRef == nil && e.Claim.Status.Phase != corev1.ClaimBound {
		e.unbound(pv)
		return
	}
	e.where(pv)
	e.deletedPV(pv)
	e.volume(pv)
	e.growing()
	e.scheduler()
}

// ofAnother says which claim has the PV, "" if it is this one, or none. A PV may be reserved by the name of
// a claim alone, and keep the UID of a former claim of the same name.
func (e *explanation) ofAnother(pv *corev1.PersistentVolume) string {
	ref := pv.Spec.ClaimRef
	switch {
	case ref == nil || ref.UID == e.Claim.UID:
		return ""
	case ref.Namespace != e.Claim.Namespace || ref.Name != e.Claim.Name:
		return fmt.Sprintf("is bound to claim %s/%s", ref.Namespace, ref.Name)
	case ref.UID != "":
		return fmt.Sprintf("is bound to a former claim %s/%s, which was deleted", ref.Namespace, ref.Name)
	}
	return ""
}

// unbound explains a claim that names a PV which is not bound to it.
func (e *explanation) unbound(pv *corev1.PersistentVolume) {
	if why := e.mismatch(pv); why != "" {
		e.add(Cause, "correct the PV, or name another in the claim", "the claim names PV %s, and is not bound to it: %s",
			pv.Name, why)
		return
	}
	e.add(Note, "wait a minute and run this again", "the claim names PV %s, which is not bound to it yet", pv.Name)
}

// mismatch says why Kubernetes does not bind the claim to the PV that it names; "" if it does.
func (e *explanation) mismatch(pv *corev1.PersistentVolume) string {
	mode := func(m *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
		return ptr.Deref(m, corev1.PersistentVolumeFilesystem)
	}
	has := pv.Spec.Capacity.Storage()
	switch want := mode(e.Claim.Spec.VolumeMode); {
	case pv.Spec.StorageClassName != e.answer.Class:
		return fmt.Sprintf("the PV has class %s, and the claim class %s", cmp.Or(pv.Spec.StorageClassName, `""`),
			cmp.Or(e.answer.Class, `""`))
	case contract.WholeBytes(has) < e.answer.Size:
		return fmt.Sprintf("the PV has %s, and the claim requests %s", contract.Size(contract.WholeBytes(has)),
			contract.Size(e.answer.Size))
	case mode(pv.Spec.VolumeMode) != want:
		return fmt.Sprintf("the PV has volumeMode %s, and the claim %s", mode(pv.Spec.VolumeMode), want)
	}
	for _, m := range e.Claim.Spec.AccessModes {
		if !slices.Contains(pv.Spec.AccessModes, m) {
			return fmt.Sprintf("the PV lacks access mode %s", m)
		}
	}
	return ""
}

// lost explains a claim whose PV does not exist. Its data may: an agent that replaces the PV, or an
// orphan, has it.
func (e *explanation) lost() {
	l := advice.Loss{Claim: &e.Claim, Nodes: e.Nodes, Agents: e.Agents, Pools: e.Pools, NoPools: e.NoPools}
	if c := e.Class.It; c != nil {
		l.Provisioner, l.ClassSince = c.Provisioner, c.CreationTimestamp
		if !isDialect(c.Provisioner) {
			l.Pool = contract.PoolName(c.Parameters)
		}
	}
	what := fmt.Sprintf("the claim names PV %s, which does not exist", e.Claim.Spec.VolumeName)
	places := l.Places()
	for _, p := range places {
		e.add(Cause, p.Do(), "%s: %s", what, p.What())
	}
	if len(places) == 0 {
		e.add(Cause, l.GiveUp(), "%s", what)
	}
}

// reportedElsewhere reports whether another pool has the volume.
func (e *explanation) reportedElsewhere(in inspect.Report, volume inspect.Volume) bool {
	for _, p := range e.Pools {
		for _, r := range p.Reports {
			if r.Pool.ID != in.Pool.ID && slices.ContainsFunc(r.Volumes,
				func(v inspect.Volume) bool { return v.PV == volume.PV && !v.Missing }) {
				return true
			}
		}
	}
	return false
}

// where says on which node the volume is, and who chose the node.
func (e *explanation) where(pv *corev1.PersistentVolume) {
	node := e.node()
	if node == "" {
		e.add(Note, "", "its volume is PV %s, which names no node", pv.Name)
		return
	}
	at := "a CSI volume"
	if path := contract.DirectoryOf(pv); path != "" {
		at = path
	}
	why := "the scheduler chose the node for the first pod that used the claim"
	if _, by := e.chosenNode(); by == contract.AnnProvisionOnNode {
		why = "the annotation " + contract.AnnProvisionOnNode + " of the claim names the node"
	} else if e.Claim.Annotations[contract.AnnSelectedNode] == "" {
		why = "the claim was bound to a PV that existed"
	}
	e.add(Note, "", "its volume is on node %s: PV %s, %s; %s", node, pv.Name, at, why)
	n := e.nodeNamed(node)
	switch {
	case !e.Nodes.Known():
	case n == nil:
		e.add(Warning, "bring the node back with its disk; if it is gone for good, see docs/node-gone.md",
			"node %s does not exist: no pod that uses this claim can start", node)
		return
	case cluster.Renamed(pv, n) != "":
		e.add(Warning, cluster.SetBack, "PV %s %s", pv.Name, cluster.Renamed(pv, n))
	case !contract.NodeReady(n):
		e.add(Warning, "kubectl describe node "+node, "node %s is not ready: its pods, and this volume, cannot be reached",
			node)
	}
	e.judgeAll(node)
}

// volume adds what the agent knows of the volume itself.
func (e *explanation) volume(pv *corev1.PersistentVolume) {
	for _, p := range e.Pools {
		for _, r := range p.Reports {
			for _, v := range r.Volumes {
				if v.PV == pv.Name || v.Owner.UID == string(e.Claim.UID) {
					e.recorded(r, v, p.Problem)
				}
			}
		}
	}
}

// deletedPV warns of a PV that was deleted under its claim. A migration does that, and makes the next one.
func (e *explanation) deletedPV(pv *corev1.PersistentVolume) {
	if pv.DeletionTimestamp == nil || e.migrates(pv) {
		return
	}
	e.add(Warning, advice.Deleted(pv), "PV %s was deleted %s ago", pv.Name, age(e.Now, pv.DeletionTimestamp.Time))
}

// migrates reports whether an agent moves the volume of the PV to the other kind.
func (e *explanation) migrates(pv *corev1.PersistentVolume) bool {
	return slices.ContainsFunc(e.Pools, func(p agents.Pools) bool {
		return slices.ContainsFunc(p.Reports, func(r inspect.Report) bool {
			return slices.ContainsFunc(r.Volumes,
				func(v inspect.Volume) bool { return v.PV == pv.Name && v.Migration != nil })
		})
	})
}

// unread says why a pool that was not read may have a volume, "" if all were read. problem is that of the
// agent which reported the volume.
func (e *explanation) unread(problem string) string {
	if problem == "" && slices.ContainsFunc(e.Agents.Items, func(a cluster.Agent) bool {
		return a.Process == cluster.NodeAgent && !slices.ContainsFunc(e.Pools,
			func(p agents.Pools) bool { return p.Agent.Namespace == a.Namespace && p.Agent.Pod == a.Pod })
	}) {
		return "those of other nodes"
	}
	return problem
}

// recorded adds what a pool has of the volume. problem is why not all pools of the agent were read.
func (e *explanation) recorded(r inspect.Report, v inspect.Volume, problem string) {
	facts := []string{fmt.Sprintf("directory %s of %s", v.Name, r.Pool.Path)}
	if v.Used > 0 || v.Quota > 0 {
		facts = append(facts, fmt.Sprintf("%s used of its quota of %s", contract.Size(v.Used), contract.Size(v.Quota)))
	}
	e.add(Note, "", "%s", strings.Join(facts, ", "))
	switch {
	case v.Missing:
		e.add(Warning, advice.Missing(r, v, e.reportedElsewhere(r, v), e.unread(problem)), "the directory of the volume is missing")
	case v.Quota == 0 && r.Pool.NoQuotas != "":
		e.add(Warning, "see docs/quotas.md", "no quota bounds what the volume takes: %s", r.Pool.NoQuotas)
	case v.Quota > 0 && v.Used > v.Quota/10*9:
		e.add(Warning, "request more, if its class has allowVolumeExpansion", "the volume is nearly full: %s of %s",
			contract.Size(v.Used), contract.Size(v.Quota))
	}
	if m := v.Migration; m != nil && m.Stopped != "" {
		e.add(Warning, "remove the cause; the migration then goes on: see docs/migration.md",
			"its migration to %s stopped: %s", m.To, m.Stopped)
	}
}

// growing explains a request above the size.
func (e *explanation) growing() {
	has := e.Claim.Status.Capacity.Storage()
	if has.IsZero() || contract.WholeBytes(has) >= e.answer.Size {
		return
	}
	what := fmt.Sprintf("the claim has %s and requests %s", contract.Size(contract.WholeBytes(has)),
		contract.Size(e.answer.Size))
	switch {
	case e.Class.It != nil && (e.Class.It.AllowVolumeExpansion == nil || !*e.Class.It.AllowVolumeExpansion):
		e.add(Warning, "set allowVolumeExpansion: true in the class", "%s, and class %s does not allow growth", what,
			e.Class.It.Name)
	default:
		e.add(Warning, "the events below have the reason", "%s: the volume has not grown yet", what)
	}
}

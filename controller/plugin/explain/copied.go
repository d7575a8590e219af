package explain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/advice"
)

// copied explains a claim whose volume is made as a copy of another claim's, on the node of that one.
func (e *explanation) copied() bool {
	source, _ := contract.CopiedClaim(&e.Claim)
	from, pv := e.Source.It, e.SourcePV.It
	look := fmt.Sprintf("kubectl hpp explain %s -n %s", source.Name, source.Namespace)
	switch {
	case !e.Source.Known():
	case from == nil:
		e.add(Cause, "create claim "+source.Name+", or "+advice.CreateAgain(&e.Claim, "another dataSource"),
			"claim %s, whose volume is to be copied, does not exist", source.Name)
	case from.Status.Phase == corev1.ClaimLost:
		e.add(Cause, advice.CreateAgain(&e.Claim, "another dataSource"), "claim %s, whose volume is to be copied, is Lost: its PV %s is "+
			"gone", source.Name, from.Spec.VolumeName)
	case from.Status.Phase != corev1.ClaimBound:
		e.add(Cause, look, "claim %s, whose volume is to be copied, is not bound to a PV", source.Name)
	case !e.SourcePV.Known():
	case pv == nil:
		e.add(Cause, look, "PV %s of claim %s, whose volume is to be copied, does not exist", from.Spec.VolumeName, source.Name)
	case pv.Spec.CSI == nil || pv.Spec.CSI.Driver != e.Class.It.Provisioner:
		e.add(Cause, advice.CreateAgain(&e.Claim, "a source of provisioner "+e.Class.It.Provisioner+", or without one"),
			"the volume of claim %s is not of provisioner %s, which copies only its own", source.Name, e.Class.It.Provisioner)
	case e.node() != "":
		return e.copiedOn(source.Name)
	}
	return false
}

// copiedOn explains a copy whose source is on the claim's node.
func (e *explanation) copiedOn(source string) bool {
	node := e.node()
	e.add(Note, "", "the volume is made as a copy of that of claim %s, on node %s, which has it", source, node)
	if e.nodeNamed(node) == nil && e.Nodes.Known() {
		e.add(Cause, "bring node "+node+" back, or "+advice.CreateAgain(&e.Claim, "another dataSource"),
			"node %s, which has the volume of claim %s, does not exist any more", node, source)
		return false
	}
	pod := e.pod()
	if contract.Delayed(e.Class.It) && e.Users.Known() && pod == nil {
		return e.consumer()
	}
	e.judgeAll(node)
	if all := e.answer.Nodes; pod != nil && len(all) == 1 && all[0].Excluded != "" {
		e.add(Cause, "let the pod run on node "+node+", or copy the data yourself",
			"pod %s may not run on node %s, where the copy is made: %s", pod.Name, node, all[0].Excluded)
		return false
	}
	return e.candidates(node)
}

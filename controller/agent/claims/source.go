package claims

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
)

// checkSource records an event if no agent can make the claim's volume as a copy of its source: the
// source does not exist, has no volume yet, or has one that is on no node with an agent of its class.
func (r *unservedRecorder) checkSource(ctx context.Context, p *pendingClaim) answer {
	why, err := r.uncopied(ctx, p)
	switch {
	case err != nil:
		return answer{true, recheckDelay}
	case why == "":
		return answer{true, existsFor}
	}
	topic := events.Worded(topicSource, why) // the source may change, and the message with it
	if !r.events.Exists(ctx, p.ref, topic) {
		r.warn(ctx, p, topic, why)
	}
	return answer{true, existsFor}
}

// uncopied returns why no agent copies the source of the claim, "" if that of the source's node does.
func (r *unservedRecorder) uncopied(ctx context.Context, p *pendingClaim) (why string, err error) {
	if p.source.Namespace != p.ref.Namespace {
		return contract.CheckCSI(p.claim()).Error(), nil
	}
	source, err := live.NamedClaim(ctx, r.client, p.source.Namespace, p.source.Name)
	switch {
	case err != nil:
		return "", err
	case source == nil:
		return fmt.Sprintf("the claim %q, whose volume is to be copied for this one, does not exist: create it, or create "+
			"this claim again with another dataSource", p.source.Name), nil
	case source.Status.Phase != corev1.ClaimBound:
		return NotBound(source), nil
	}
	pv, err := live.PV(ctx, r.client, source.Spec.VolumeName)
	if err != nil {
		return "", err
	}
	sc := r.class(p.class)
	switch {
	case sc == nil:
		return "", nil // it may be created again
	case pv == nil:
		return fmt.Sprintf("the PV %q of the claim %q, whose volume is to be copied for this one, does not exist",
			source.Spec.VolumeName, source.Name), nil
	case pv.Spec.CSI == nil || pv.Spec.CSI.Driver != sc.Provisioner:
		return NotOfDriver(source.Name, pv, sc.Provisioner), nil
	}
	if node := contract.TopologyOf(pv); node != "" {
		if missing, _ := r.isMissingNode(ctx, node); missing {
			return fmt.Sprintf("the volume of the claim %q, which is to be copied for this one, is on node %q, which does not "+
				"exist; a copy is made on the node of its source: bring that node back", source.Name, node), nil
		}
	}
	return "", nil
}

// claim returns a claim that has only the source of p.
func (p *pendingClaim) claim() *corev1.PersistentVolumeClaim {
	return heldClaim{namespace: p.ref.Namespace, name: p.ref.Name, class: p.class, source: p.source}.claim(p.ref.UID)
}

// NotBound returns the message about a claim whose source has no volume yet, or none any more.
func NotBound(source *corev1.PersistentVolumeClaim) string {
	if source.Status.Phase == corev1.ClaimLost {
		return fmt.Sprintf("the claim %q, whose volume is to be copied for this one, is Lost: its PV %q is gone; create this "+
			"claim again with another dataSource", source.Name, source.Spec.VolumeName)
	}
	return fmt.Sprintf("the claim %q, whose volume is to be copied for this one, is not bound to a PV: the copy is made once "+
		"it is", source.Name)
}

// NotOfDriver returns the message about a claim whose source has a volume that the driver cannot copy.
func NotOfDriver(source string, pv *corev1.PersistentVolume, driver string) string {
	kind := "not of a CSI driver"
	if pv.Spec.CSI != nil {
		kind = "of CSI driver " + pv.Spec.CSI.Driver
	}
	return fmt.Sprintf("the volume of the claim %q, which is to be copied for this one, is %s, and the class is of %s, "+
		"which copies only its own volumes: use a claim of that driver as the source, or copy the data yourself", source, kind,
		driver)
}

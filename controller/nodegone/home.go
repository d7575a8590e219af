package nodegone

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/live"
)

// home is the node that has a volume, as its PV names it.
type home struct {
	node     string    // the Node's name
	hostname string    // the label that the affinity of a hostPath PV requires; "" for a CSI PV
	uid      types.UID // the Node's UID, "" if no agent recorded it
}

// homeOf returns the home of a PV. ok is false if the PV is not one of the provisioners', or names no node.
func homeOf(pv *corev1.PersistentVolume) (h home, ok bool) {
	h.uid = types.UID(pv.Annotations[class.AnnNodeUID])
	if pv.Spec.CSI != nil {
		h.node = class.TopologyOf(pv)
		return h, h.node != "" && pv.Spec.CSI.Driver == class.CSIProvisioner
	}
	h.node, h.hostname = pv.Annotations[class.AnnProvisionOnNode], class.Hostname(pv)
	return h, h.node != "" && h.hostname != "" && pv.Annotations[class.AnnProvisionedBy] == class.HostPathProvisioner
}

// isNode reports whether a Node with that UID may be the home.
func (h home) isNode(uid types.UID) bool { return h.uid == "" || h.uid == uid }

// gone reads from the API server why the home is gone; "" if it is not, or may not be. A node with an agent that is ready is not:
// after its Node was deleted, a node works on until Kubernetes has collected its pods.
func (r *Reconciler) gone(ctx context.Context, h home) (why string, err error) {
	if why, err = r.nodeGone(ctx, h); why == "" || err != nil {
		return "", err
	}
	if ready, err := r.agentReady(ctx, h.node); ready || err != nil {
		return "", err
	}
	return why, nil
}

// nodeGone returns why the Node of the home does not exist any more; "" if it may.
func (r *Reconciler) nodeGone(ctx context.Context, h home) (why string, err error) {
	node, err := live.Node(ctx, r.Live, h.node)
	switch {
	case err != nil:
		return "", err
	case node != nil && h.isNode(node.UID):
		return "", nil
	case node != nil:
		return fmt.Sprintf("node %s does not exist any more: another one has its name", h.node), nil
	case h.hostname != "":
		return r.hostnameGone(ctx, h)
	}
	return fmt.Sprintf("node %s does not exist any more", h.node), nil
}

// hostnameGone returns why the home is gone, "" if any other Node has the hostname that the PV requires. A Node of the home's own
// name with another UID is not the home: it was created after nodeGone found no Node of that name.
func (r *Reconciler) hostnameGone(ctx context.Context, h home) (why string, err error) {
	selector, err := labels.ValidatedSelectorFromSet(labels.Set{corev1.LabelHostname: h.hostname})
	if err != nil {
		return "", err
	}
	named, err := r.Live.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return "", live.Unanswered{Request: "list nodes with hostname " + h.hostname, Err: err}
	}
	for _, node := range named.Items {
		if node.Name != h.node || h.isNode(node.UID) {
			return "", nil
		}
	}
	return fmt.Sprintf("node %s does not exist any more", h.node), nil
}

// agentReady reads from the API server whether the node has an agent that is ready.
func (r *Reconciler) agentReady(ctx context.Context, node string) (bool, error) {
	pods, err := r.Live.CoreV1().Pods(r.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return false, live.Unanswered{Request: "list pods of node " + node, Err: err}
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if class.OfDaemonSet(pod) && class.PodReady(pod) {
			return true, nil
		}
	}
	return false, nil
}

package waiting

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

var (
	// patienceForPod is patience for a claim that waits for the scheduler, which may take a while.
	patienceForPod = timing.Scaled(time.Minute)
	// podsEvery is for how long a list of the pods of a namespace counts.
	podsEvery = timing.Scaled(10 * time.Minute)
)

const topicPodNamesNode = "pod names node"

// namespacePods are the pods of a namespace that use claims and name their node.
type namespacePods struct {
	at time.Time
	// node describes pod and node, by claim. An entry goes once it was acted on.
	node map[string]string
}

// checkPod records that no scheduler will choose a node for the claim, because its pod names one by
// spec.nodeName and so is not scheduled. It lists the pods of the claim's namespace, a page at a
// time and once in ten minutes for all of its claims.
func (r *Reconciler) checkPod(ctx context.Context, claim *corev1.PersistentVolumeClaim,
	sc *storagev1.StorageClass) error {
	pods := r.podsOf(ctx, claim.Namespace)
	if pods.node[claim.Name] == "" {
		return nil
	}
	// The pod may have been scheduled since the claim came into the cache, and name its node by that.
	now, err := live.Claim(ctx, r.Live, record.Owner{Namespace: claim.Namespace, Name: claim.Name, UID: string(claim.UID)})
	if err != nil {
		return err
	}
	by := pods.node[claim.Name]
	delete(pods.node, claim.Name)
	if now == nil || now.Spec.VolumeName != "" {
		return nil
	}
	if node, _ := contract.NodeOf(now, sc); node != "" {
		return nil
	}
	do := "leave spec.nodeName out, and use spec.nodeSelector"
	if d := contract.DialectOf(sc.Provisioner); d != nil && d.ByAnnotation {
		do += ", or annotate this claim with " + contract.AnnProvisionOnNode + ": <node>"
	}
	r.warn(ctx, claim, topicPodNamesNode, fmt.Sprintf(
		"%s itself (spec.nodeName), so no scheduler chooses a node for this claim: %s", by, do))
	return nil
}

// podsOf returns the pods of a namespace as of the last ten minutes. It keeps those of claims that wait:
// a tenant may have pods without end, with thousands of volumes each.
// What could not be listed is not known for ten minutes: each claim of the namespace asks for the same.
func (r *Reconciler) podsOf(ctx context.Context, namespace string) namespacePods {
	maps.DeleteFunc(r.pods, func(_ string, p namespacePods) bool { return time.Since(p.at) >= podsEvery })
	if p, ok := r.pods[namespace]; ok {
		return p
	}
	p := namespacePods{at: time.Now(), node: map[string]string{}}
	err := live.EachPod(ctx, r.Live, namespace, fields.Everything(), func(pod *corev1.Pod) bool {
		if pod.Spec.NodeName == "" {
			return true
		}
		for key := range contract.ClaimUsers([]corev1.Pod{*pod}) {
			claim := key[len(pod.Namespace)+1:]
			if _, waits := r.since[types.NamespacedName{Namespace: namespace, Name: claim}]; !waits {
				continue
			}
			p.node[claim] = fmt.Sprintf("pod %s names its node %s", pod.Name, pod.Spec.NodeName)
		}
		return true
	})
	if err != nil && ctx.Err() == nil {
		klog.ErrorS(err, "Cannot list the pods of claims that wait", "namespace", namespace)
	}
	if r.pods == nil {
		r.pods = map[string]namespacePods{}
	}
	r.pods[namespace] = p
	return p
}

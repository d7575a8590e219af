package former

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/operator/agentstatus"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
)

// older are the objects of the existing operator that one agent for both kinds of volumes replaces,
// its DaemonSet first.
var older = []struct{ apiVersion, kind, name string }{
	{"apps/v1", "DaemonSet", "hostpath-provisioner"},
	{"rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "hostpath-provisioner"},
	{"rbac.authorization.k8s.io/v1", "ClusterRole", "hostpath-provisioner"},
	{"v1", "ServiceAccount", "hostpath-provisioner-admin"},
}

// removeOlder deletes objects of the existing operator. It returns their DaemonSet until that is
// gone; the others follow.
func (r Agents) removeOlder(ctx context.Context) (*unstructured.Unstructured, error) {
	for _, old := range older {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion(old.apiVersion)
		o.SetKind(old.kind)
		key := client.ObjectKey{Name: old.name}
		if old.kind == "DaemonSet" || old.kind == "ServiceAccount" {
			key.Namespace = r.Installed.Namespace
		}
		err := r.Client.Get(ctx, key, o)
		switch {
		case apierrors.IsNotFound(err), err == nil && o.GetLabels()[apply.ManagedBy] != apply.Owner:
			continue
		case err != nil:
			return nil, err
		case o.GetDeletionTimestamp() == nil:
			if err := r.Applier.Delete(ctx, o); err != nil {
				return nil, err
			}
		}
		if old.kind == "DaemonSet" {
			return o, nil
		}
	}
	return nil, nil
}

// olderPods returns what the pods of the existing operator's DaemonSet keep from being installed:
// all agents, or those of some nodes if only pods are left that nothing can end.
func (r Agents) olderPods(ctx context.Context, set *unstructured.Unstructured,
	pods []corev1.Pod) (waiting string, without []string, err error) {
	waiting = "the pods of the older DaemonSet " + set.GetName()
	for i := range pods {
		if !metav1.IsControlledBy(&pods[i], set) {
			continue
		}
		stranded, err := r.Stranded(ctx, &pods[i])
		if err != nil {
			return "", nil, err
		}
		if !stranded {
			endless, err := r.endless(ctx, set, pods)
			return waiting + endless, nil, err
		}
		without = append(without, pods[i].Spec.NodeName)
	}
	if len(without) == 0 { // the DaemonSet itself is on its way
		return waiting, nil, nil
	}
	return "", without, nil
}

// endless names the pods of the DaemonSet that do not end although their nodes are ready, "" if there
// are none.
func (r Agents) endless(ctx context.Context, set *unstructured.Unstructured, pods []corev1.Pod) (string, error) {
	var names []string
	for i := range pods {
		pod := &pods[i]
		if !metav1.IsControlledBy(pod, set) || !agentstatus.Endless(pod, r.Now()) {
			continue
		}
		stranded, err := r.Stranded(ctx, pod)
		if err != nil {
			return "", err
		}
		if !stranded {
			names = append(names, agentstatus.Named(pod))
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	slices.Sort(names)
	return ", of which some are deleted and do not end: " + events.Names(names, events.Listed) + ",", nil
}

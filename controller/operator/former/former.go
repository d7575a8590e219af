// Package former removes the agents that those of the operator replace, an older operator's and those of
// a DaemonSet that is made again, and says which nodes get no agent before the former one's pod there
// has ended: two agents on one node would serve a claim twice.
package former

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/operator/agentstatus"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
)

// Agents are what the operator's agents replace.
type Agents struct {
	// Installed reads the DaemonSet from a cache, and pods from the API server.
	Installed installed.Reader
	// Client reads the cache, and writes.
	Client client.Client
	// Live reads Nodes from the API server.
	Live client.Reader
	// Applier deletes objects.
	Applier apply.Applier
	Now     func() time.Time
}

// Found is what is left of former agents.
type Found struct {
	// Waiting is what has to be gone before the agents are installed, or "".
	Waiting string
	// Without are the nodes that get no agent yet: a pod of a former agent is there.
	Without []string
	// Absent are nodes that the DaemonSet leaves out since they had such a pod, and that do not exist. To
	// leave them out no more changes its template, and replaces all agents, for a node that needs none.
	Absent []string
}

// listed is how many names a message has.
const listed = 10

// older are the objects of the existing operator that one agent for both kinds of volumes replaces,
// its DaemonSet first.
var older = []struct{ apiVersion, kind, name string }{
	{"apps/v1", "DaemonSet", "hostpath-provisioner"},
	{"rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "hostpath-provisioner"},
	{"rbac.authorization.k8s.io/v1", "ClusterRole", "hostpath-provisioner"},
	{"v1", "ServiceAccount", "hostpath-provisioner-admin"},
}

// Remove removes what the agents replace, and returns what is left.
func (r Agents) Remove(ctx context.Context) (found Found, err error) {
	old, err := r.removeOlder(ctx)
	if err != nil {
		return found, err
	}
	set, err := r.Installed.DaemonSet(ctx)
	if err != nil {
		return found, err
	}
	var leftOut []string
	replacing := set == nil || set.DeletionTimestamp != nil
	if !replacing {
		leftOut = LeftOutBy(set)
		replacing = len(leftOut) > 0
	}
	if old == nil && !replacing {
		return found, nil
	}
	pods, err := r.Installed.Pods(ctx)
	if err != nil {
		return found, err
	}
	if old != nil {
		if found.Waiting, found.Without, err = r.olderPods(ctx, old, pods); err != nil {
			return Found{}, err
		}
	}
	if replacing {
		without, err := r.formerPods(ctx, set, leftOut, pods)
		if err != nil {
			return Found{}, err
		}
		found.Without = append(found.Without, without...)
	}
	slices.Sort(found.Without)
	found.Without = slices.Compact(found.Without)
	found.Absent, err = r.absent(ctx, leftOut, found.Without)
	return found, err
}

// absent returns the nodes that are left out, have no pod of a former agent, and do not exist.
func (r Agents) absent(ctx context.Context, leftOut, without []string) (absent []string, err error) {
	for _, name := range leftOut {
		if slices.Contains(without, name) || slices.Contains(absent, name) {
			continue
		}
		err := r.Live.Get(ctx, client.ObjectKey{Name: name}, &corev1.Node{})
		switch {
		case apierrors.IsNotFound(err):
			absent = append(absent, name)
		case err != nil:
			return nil, fmt.Errorf("read node %s: %w", name, err)
		}
	}
	return absent, nil
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
	return ", of which some are deleted and do not end: " + events.Names(names, listed) + ",", nil
}

// formerPods returns the nodes with a pod of an agents' DaemonSet that was replaced by set. While
// that is deleted, it stays until its pods have ended, and with it its name; if only pods are left
// that nothing can end, it goes without them. leftOut are the nodes that set leaves out already.
func (r Agents) formerPods(ctx context.Context, set *appsv1.DaemonSet, leftOut []string,
	pods []corev1.Pod) (without []string, err error) {
	deleted := set != nil && set.DeletionTimestamp != nil
	ends := 0
	for i := range pods {
		pod := &pods[i]
		by := metav1.GetControllerOf(pod)
		if by == nil || by.Kind != "DaemonSet" || by.Name != installed.DaemonSetName || pod.Spec.NodeName == "" {
			continue
		}
		own := set != nil && by.UID == set.UID
		if own && !deleted {
			continue
		}
		stranded, err := r.Stranded(ctx, pod)
		switch {
		case err != nil:
			return nil, err
		case own && !stranded:
			return nil, nil // the DaemonSet waits for it
		case own:
			ends++
		case !stranded && !slices.Contains(leftOut, pod.Spec.NodeName):
			continue
		}
		without = append(without, pod.Spec.NodeName)
	}
	if ends > 0 {
		return without, r.orphan(ctx, set)
	}
	return without, nil
}

// Stranded reports whether nothing can end a pod that is deleted: its node is not ready, or does
// not exist, according to the API server.
func (r Agents) Stranded(ctx context.Context, pod *corev1.Pod) (bool, error) {
	if pod.DeletionTimestamp == nil || pod.Spec.NodeName == "" {
		return false, nil
	}
	node := &corev1.Node{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read node %s: %w", pod.Spec.NodeName, err)
	}
	return !contract.NodeReady(node), nil
}

// orphan removes the finalizer by which a deleted DaemonSet waits for its pods.
func (r Agents) orphan(ctx context.Context, set *appsv1.DaemonSet) error {
	if !slices.Contains(set.Finalizers, metav1.FinalizerDeleteDependents) {
		return nil
	}
	rest := slices.DeleteFunc(slices.Clone(set.Finalizers),
		func(f string) bool { return f == metav1.FinalizerDeleteDependents })
	patch, err := live.UnchangedPatch(set, map[string]any{"finalizers": rest}, nil)
	if err != nil {
		return err
	}
	err = r.Client.Patch(ctx, set, client.RawPatch(types.MergePatchType, patch))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("let DaemonSet %s go without its pods on nodes that do not answer: %w", set.Name, err)
	}
	return nil
}

// NotOn returns the affinity without the nodes.
func NotOn(nodes []string, affinity *corev1.Affinity) *corev1.Affinity {
	if len(nodes) == 0 {
		return affinity
	}
	var fields []corev1.NodeSelectorRequirement
	for _, node := range nodes { // a field takes one value
		fields = append(fields, corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField,
			Operator: corev1.NodeSelectorOpNotIn, Values: []string{node}})
	}
	a := &corev1.Affinity{}
	if affinity != nil {
		a = affinity.DeepCopy()
	}
	if a.NodeAffinity == nil {
		a.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		required = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: fields}}}
		a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = required
		return a
	}
	for i := range required.NodeSelectorTerms {
		// an empty one matches no node
		if term := &required.NodeSelectorTerms[i]; len(term.MatchExpressions)+len(term.MatchFields) > 0 {
			term.MatchFields = append(term.MatchFields, fields...)
		}
	}
	return a
}

// LeftOutBy returns the nodes that the DaemonSet leaves out by their names, as NotOn writes it.
func LeftOutBy(set *appsv1.DaemonSet) (nodes []string) {
	a := set.Spec.Template.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpNotIn {
				nodes = append(nodes, field.Values...)
			}
		}
	}
	return nodes
}

// Package former removes the agents that those of the operator replace, an older operator's and those of
// a DaemonSet that is made again. A node gets no agent before the former one's pod there has ended: two
// agents on one node would serve a claim twice.
//
//	former.go   what is left of former agents
//	older.go    the DaemonSet of an older operator, and its pods
//	leftout.go  leaves nodes out of the agents' DaemonSet, and admits them again
package former

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
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
	return found, nil
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

// Ending returns the nodes on which agents are still to end, which keep the DaemonSet. Those
// that nothing can end are not among them.
func (r Agents) Ending(ctx context.Context) (nodes []string, err error) {
	set, err := r.Installed.DaemonSet(ctx)
	if err != nil || set == nil {
		return nil, err
	}
	pods, err := r.Installed.Pods(ctx)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		pod := &pods[i]
		if !metav1.IsControlledBy(pod, set) {
			continue
		}
		stranded, err := r.Stranded(ctx, pod)
		if err != nil {
			return nil, err
		}
		if !stranded {
			nodes = append(nodes, cmp.Or(pod.Spec.NodeName, "pod "+pod.Name))
		}
	}
	slices.Sort(nodes)
	return nodes, nil
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

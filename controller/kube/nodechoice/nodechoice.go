// Package nodechoice has what agents and the operator do alike about the node of a claim that
// waits: the words of their events, and how a claim is given back to the scheduler. Whichever of
// them is first records the event, because both take its name from the same topic.
package nodechoice

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
)

// recordWithin bounds how long note may outlive its context.
const recordWithin = 2 * time.Second

// GiveBack removes the scheduler's choice of a node from an unbound claim, so that the
// scheduler chooses again, and records an event. why is what happened to the node.
//
// The caller has read the claim and the node from the API server. The claim is changed only
// as it was read: if it was changed since, the error is a conflict.
func GiveBack(ctx context.Context, client kubernetes.Interface, recorder *events.Recorder,
	claim *corev1.PersistentVolumeClaim, why string) error {
	if _, err := Unchoose(ctx, client, claim); err != nil {
		return fmt.Errorf("remove the annotation %s: %w", contract.AnnSelectedNode, err)
	}
	note(ctx, recorder, claim, claim.Annotations[contract.AnnSelectedNode], why)
	return nil
}

// note records that the claim was given back, also if the process ends meanwhile: no other one
// knows.
func note(ctx context.Context, recorder *events.Recorder, claim *corev1.PersistentVolumeClaim, node, why string) {
	outliving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(recordWithin, cancel) })()
	recorder.Note(outliving, events.Claim(claim), topicNodeGone+" "+node, events.NodeGone, fmt.Sprintf(
		"node %s, which the scheduler had chosen for this claim, %s: the scheduler chooses again", node, why))
}

// Unchoose removes the scheduler's choice of a node from a claim, of which it reads only name, UID
// and version. If the claim was changed since, the error is a conflict. An older ClusterRole allows
// to update claims and not to patch them: Unchoose then reads the claim and updates it.
//
// Three seconds later Unchoose wakes the scheduler again, unless ctx has ended.
func Unchoose(ctx context.Context, client kubernetes.Interface,
	claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
	given, err := choose(ctx, client, claim, "")
	if err == nil && given != nil && given.Annotations[contract.AnnStorageProvisioner] != "" {
		at := given.DeepCopy()
		time.AfterFunc(wakeAfter, func() { wake(ctx, client, at) })
	}
	return given, err
}

// wakeAfter is long after the scheduler has chosen again as a rule, and before a user wonders.
const wakeAfter = 3 * time.Second

// wake changes a claim that is as it was given back, so that the scheduler looks at its pod again. The
// change that gave it back may be lost: the scheduler tries the pod with what it remembered of the claim
// before, and then not for five minutes (https://github.com/kubernetes/kubernetes/issues/93552).
//
// The provisioner's name is removed, which the controller-manager writes when a node is chosen. If the
// claim was changed since, by the scheduler as a rule, the answer is a conflict. Without the permission of
// this version's policies the pod waits.
func wake(ctx context.Context, client kubernetes.Interface, given *corev1.PersistentVolumeClaim) {
	if ctx.Err() != nil {
		return
	}
	_, err := annotate(ctx, client, given, contract.AnnStorageProvisioner, "")
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		klog.FromContext(ctx).V(2).Info("Cannot wake the scheduler for a claim that was given back", "claim", klog.KObj(given),
			"err", err)
	}
}

// Choose replaces the scheduler's choice of a node, as Unchoose removes it: the scheduler keeps to the
// node that it finds.
func Choose(ctx context.Context, client kubernetes.Interface, claim *corev1.PersistentVolumeClaim, node string) error {
	_, err := choose(ctx, client, claim, node)
	return err
}

// choose writes the node that is chosen; "" removes the choice.
func choose(ctx context.Context, client kubernetes.Interface, claim *corev1.PersistentVolumeClaim,
	node string) (*corev1.PersistentVolumeClaim, error) {
	patched, err := annotate(ctx, client, claim, contract.AnnSelectedNode, node)
	if !apierrors.IsForbidden(err) {
		return patched, err
	}
	now, err := live.NamedClaim(ctx, client, claim.Namespace, claim.Name)
	switch {
	case err != nil:
		return nil, err
	case now == nil || now.UID != claim.UID || now.ResourceVersion != claim.ResourceVersion:
		return nil, apierrors.NewConflict(corev1.Resource("persistentvolumeclaims"), claim.Name,
			fmt.Errorf("the claim was changed since version %s", claim.ResourceVersion))
	}
	if delete(now.Annotations, contract.AnnSelectedNode); node != "" {
		metav1.SetMetaDataAnnotation(&now.ObjectMeta, contract.AnnSelectedNode, node)
	}
	return client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, now, metav1.UpdateOptions{})
}

// annotate writes one annotation of a claim that is as it was read; "" removes it.
func annotate(ctx context.Context, client kubernetes.Interface, claim *corev1.PersistentVolumeClaim,
	key, value string) (*corev1.PersistentVolumeClaim, error) {
	var written any // nil removes an annotation
	if value != "" {
		written = value
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": claim.UID, "resourceVersion": claim.ResourceVersion, "annotations": map[string]any{key: written},
	}})
	if err != nil {
		return nil, err
	}
	return client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType, patch,
		metav1.PatchOptions{})
}

const delayed = storagev1.VolumeBindingWaitForFirstConsumer

// Agents and operators of all versions hash the topic into the name of the event, so that one of
// them records it. Do not change these values.
const (
	topicUnassigned  = "nobodys"
	topicNodeMissing = "elsewhere"
	topicUnscheduled = "unscheduled"
	topicNodeGone    = "node gone"
)

// NodeMissing returns the topic and the message of the event about a claim whose annotation
// names a node that does not exist.
func NodeMissing(node string) (topic, message string) {
	return topicNodeMissing, fmt.Sprintf(
		"the annotation %s names node %q, which does not exist: correct it (kubectl get nodes lists them)",
		contract.AnnProvisionOnNode, node)
}

// NoNode returns the topic and the message of the event about a claim of the class that names
// no node although the class binds at once.
func NoNode(sc *storagev1.StorageClass) (topic, message string) {
	if sc.Provisioner == contract.HostPathProvisioner {
		return Unassigned()
	}
	return Unscheduled(sc.Name)
}

// Unassigned is NoNode of a class of the hostPath provisioner.
func Unassigned() (topic, message string) {
	return topicUnassigned, fmt.Sprintf(
		"no node is named for this claim: annotate it with %s: <node>, or use a class with volumeBindingMode %s",
		contract.AnnProvisionOnNode, delayed)
}

// Unscheduled is NoNode of a class of the CSI driver.
func Unscheduled(className string) (topic, message string) {
	return topicUnscheduled, fmt.Sprintf(
		"no node will be chosen for this claim: only the scheduler may choose one, and class %q has no "+
			"volumeBindingMode %s; a class cannot be edited: delete it and create it again with that mode, or use another "+
			"class", className, delayed)
}

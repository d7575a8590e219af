package live

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

// IsPossible reports whether an object can have that name, which a user may have written
// into an annotation. For some that it cannot have, client-go returns an error that no retry
// changes. What deletes does not ask: it keeps what an error leaves unclear.
func IsPossible(name string) bool {
	return len(name) <= validation.DNS1123SubdomainMaxLength && len(content.IsPathSegmentName(name)) == 0
}

// found returns the answer to a request, nil if there is no such object. An error is an Unanswered.
func found[T any](o *T, err error, request string) (*T, error) {
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, Unanswered{Request: request, Err: err}
	}
	return o, nil
}

// PV returns the PV of that name, nil if there is none. An error is an Unanswered.
func PV(ctx context.Context, client kubernetes.Interface, name string) (*corev1.PersistentVolume, error) {
	pv, err := client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	return found(pv, err, "read PV "+name)
}

// Claim returns the claim that owns a volume, nil if it is gone, even if a claim of
// another UID has its name. If a sidecar passed only the claim's UID on, Claim reads
// all claims. An error is an Unanswered.
func Claim(ctx context.Context, client kubernetes.Interface, o record.Owner) (*corev1.PersistentVolumeClaim, error) {
	if o.Name == "" {
		return claimByUID(ctx, client, o.UID)
	}
	claim, err := NamedClaim(ctx, client, o.Namespace, o.Name)
	if claim == nil || string(claim.UID) != o.UID {
		return nil, err
	}
	return claim, nil
}

// ClaimOf returns the claim that a PV names by its UID, nil if it names none or if that
// claim is gone. An error is an Unanswered.
func ClaimOf(ctx context.Context, client kubernetes.Interface,
	pv *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, error) {
	ref := pv.Spec.ClaimRef
	if ref == nil || ref.UID == "" {
		return nil, nil
	}
	claim, err := NamedClaim(ctx, client, ref.Namespace, ref.Name)
	if claim == nil || claim.UID != ref.UID {
		return nil, err
	}
	return claim, nil
}

// NamedClaim returns the claim of that name, nil if there is none. An error is an Unanswered.
func NamedClaim(ctx context.Context, client kubernetes.Interface, namespace,
	name string) (*corev1.PersistentVolumeClaim, error) {
	claim, err := client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	return found(claim, err, "read claim "+namespace+"/"+name)
}

// Node returns the Node of that name, nil if there is none. An error is an Unanswered.
func Node(ctx context.Context, client kubernetes.Interface, name string) (*corev1.Node, error) {
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	return found(node, err, "read node "+name)
}

// Cluster returns the cluster's identity, which is the UID of the namespace kube-system, or "" if
// the agent may not read it or if it does not exist. An error is an Unanswered.
func Cluster(ctx context.Context, client kubernetes.Interface) (string, error) {
	system, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", Unanswered{Request: "read namespace " + metav1.NamespaceSystem + ", whose UID identifies the cluster",
			Err: err}
	}
	return string(system.UID), nil
}

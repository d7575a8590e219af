package live

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"

	"kubevirt.io/hostpath-provisioner/volume/fault"
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

// Claim returns the claim that owns a volume, nil if it is gone, even if a claim of another UID has
// its name. If a sidecar passed only its UID on, Claim reads all. An error is an Unanswered.
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

// Capacity returns the CSIStorageCapacity of that name, nil if there is none. An error is an
// Unanswered.
func Capacity(ctx context.Context, client kubernetes.Interface, namespace,
	name string) (*storagev1.CSIStorageCapacity, error) {
	o, err := client.StorageV1().CSIStorageCapacities(namespace).Get(ctx, name, metav1.GetOptions{})
	return found(o, err, "read CSIStorageCapacity "+name)
}

// Node returns the Node of that name, nil if there is none. An error is an Unanswered.
func Node(ctx context.Context, client kubernetes.Interface, name string) (*corev1.Node, error) {
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	return found(node, err, "read node "+name)
}

// Cluster returns the cluster's identity, which is the UID of the namespace kube-system, or "" if
// the agent may not read it or if it does not exist. An error is an Unanswered.
func Cluster(ctx context.Context, client kubernetes.Interface) (string, error) {
	return NamespaceUID(ctx, client, metav1.NamespaceSystem)
}

// NamespaceUID returns the UID of a namespace, "" if the agent may not read it or if it does not exist.
// An error is an Unanswered.
func NamespaceUID(ctx context.Context, client kubernetes.Interface, name string) (string, error) {
	namespace, _, err := Namespace(ctx, client, name)
	if namespace == nil {
		return "", err
	}
	return string(namespace.UID), nil
}

// Namespace returns the namespace of that name, nil if there is none or the agent may not read it, which
// forbidden reports. An error is an Unanswered.
func Namespace(ctx context.Context, client kubernetes.Interface, name string) (namespace *corev1.Namespace,
	forbidden bool, err error) {
	namespace, err = client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsForbidden(err) {
		return nil, true, nil
	}
	namespace, err = found(namespace, err, "read namespace "+name)
	return namespace, false, err
}

// Unchanged returns options that delete the object as it was read: the API server answers
// with a conflict if the object was written since, or if another one has its name.
func Unchanged(o metav1.Object) metav1.DeleteOptions {
	uid, version := o.GetUID(), o.GetResourceVersion()
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}}
}

// IgnoreMoved returns nil for the error of a write to an object that changed or is gone: the watch
// brings the change.
func IgnoreMoved(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// NodeWithHostname returns the name of a Node with that hostname label, "" if there is none or the
// hostname is "". The error is an Unanswered, or says that no label can have the value.
func NodeWithHostname(ctx context.Context, c kubernetes.Interface, hostname string) (string, error) {
	if hostname == "" {
		return "", nil
	}
	selector, err := labels.ValidatedSelectorFromSet(labels.Set{corev1.LabelHostname: hostname})
	if err != nil {
		return "", err
	}
	named, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: selector.String(), Limit: 1})
	if err != nil {
		return "", Unanswered{Request: "list nodes with hostname " + hostname, Err: err}
	}
	if len(named.Items) == 0 {
		return "", nil
	}
	return named.Items[0].Name, nil
}

// UnchangedPatch returns a merge patch that changes fields of an object's metadata and spec, as the
// object was read: the API server answers with a conflict if it was written since, or if another one
// has its name. A nil map changes nothing; a nil value removes a field.
func UnchangedPatch(o metav1.Object, meta, spec map[string]any) ([]byte, error) {
	of := map[string]any{"uid": o.GetUID(), "resourceVersion": o.GetResourceVersion()}
	maps.Copy(of, meta)
	change := map[string]any{"metadata": of}
	if spec != nil {
		change["spec"] = spec
	}
	return json.Marshal(change)
}

// PatchPV sends UnchangedPatch of a PV, and returns the PV as it then is. The error is the client's.
func PatchPV(ctx context.Context, client kubernetes.Interface, pv *corev1.PersistentVolume,
	meta, spec map[string]any, o metav1.PatchOptions) (*corev1.PersistentVolume, error) {
	patch, err := UnchangedPatch(pv, meta, spec)
	if err != nil {
		return nil, err
	}
	return client.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, types.MergePatchType, patch, o)
}

// Unanswered is the error of a failed read. It matches volume.ErrNotReady: the caller
// retries, as with a pool that is not ready.
type Unanswered struct {
	Request string // such as "read PV data"
	Err     error  // from the client
}

func (e Unanswered) Error() string { return e.Request + ": " + e.Err.Error() }

// Unwrap returns the client's error.
func (e Unanswered) Unwrap() error { return e.Err }

// Is reports whether target is volume.ErrNotReady.
func (e Unanswered) Is(target error) bool { return target == fault.ErrNotReady }

// Permanent reports whether the API server refused a request in a way that only a change elsewhere
// ends: of a permission, an admission policy, a webhook, or the object. An admission policy without
// a reason answers Invalid, and a webhook without a code BadRequest. A webhook that is down is not
// among them: the server reports an internal error.
func Permanent(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsMethodNotSupported(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// Transient reports whether an error is that of an API server that is slow, busy or away.
func Transient(err error) bool {
	var network net.Error
	return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) ||
		errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout() ||
		utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err)
}

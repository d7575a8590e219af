package operator

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
)

// owner is the field owner of all that the operator applies.
const owner = "hostpath-provisioner-operator"

// outcome is what apply did.
type outcome string

const (
	unchanged outcome = ""
	created   outcome = "Create"
	updated   outcome = "Update"
	replaced  outcome = "Replace" // deleted; the next pass creates it
	delayed   outcome = "Delay"   // others change the object again and again; a later pass writes it
)

// apply makes the cluster's object the desired one. It writes nothing if the object does not differ. Labels, annotations and
// finalizers of others stay, and so do the fields that are shared; other fields that others set are removed. It delays the write
// of an object that others change again after each one. After a write, want has the new generation.
func (r *Reconciler) apply(ctx context.Context, cr *v1beta1.HostPathProvisioner, want *unstructured.Unstructured) (outcome, error) {
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(want.GroupVersionKind())
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(want), have)
	switch {
	case apierrors.IsNotFound(err):
		return r.unlessContested(cr, want, have, created, func() error { return r.write(ctx, want) })
	case err != nil:
		return unchanged, fmt.Errorf("read %s %s: %w", want.GetKind(), want.GetName(), err)
	case have.GetDeletionTimestamp() != nil:
		return unchanged, nil // it is created again once it is gone
	case !replaceable(want, have):
		return r.unlessContested(cr, want, have, replaced, func() error {
			want.SetGeneration(have.GetGeneration() + 1) // that of an object with a deletion timestamp
			return r.replace(ctx, have)
		})
	}
	foreign, err := foreignFields(have)
	if err != nil {
		return unchanged, err
	}
	if foreign == nil && same(want, have) {
		return unchanged, nil
	}
	return r.unlessContested(cr, want, have, updated, func() error {
		if foreign != nil {
			if err := r.takeOver(ctx, have, foreign); err != nil {
				return err
			}
		}
		return r.write(ctx, want)
	})
}

// unlessContested does what makes the object the desired one, unless it has to wait because of others that change the object again
// and again. The first time in a delay it records an event about it.
func (r *Reconciler) unlessContested(cr *v1beta1.HostPathProvisioner, want, have *unstructured.Unstructured, what outcome, do func() error) (outcome, error) {
	if wait, first := r.contest.admit(want, r.Now()); wait > 0 {
		if first {
			r.Events.Eventf(cr, want, corev1.EventTypeWarning, "ResourceContested", "Reconcile", "%s", contested(want, have, wait))
		}
		return delayed, nil
	}
	if err := do(); err != nil {
		return what, err
	}
	r.contest.wrote(want, r.Now())
	return what, nil
}

// write applies the object.
func (r *Reconciler) write(ctx context.Context, want *unstructured.Unstructured) error {
	answer := want.DeepCopy() // the client writes the answer into the object that it is given
	err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(answer), client.FieldOwner(owner), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", want.GetKind(), want.GetName(), err)
	}
	want.SetGeneration(answer.GetGeneration())
	return nil
}

// same reports whether the object in the cluster has all that is wanted.
func same(want, have *unstructured.Unstructured) bool {
	for key, value := range want.Object {
		if key != "metadata" && !contains(value, have.Object[key]) {
			return false
		}
	}
	if have.GetAnnotations()[applied] != want.GetAnnotations()[applied] {
		return false
	}
	labels := have.GetLabels()
	for key, value := range want.GetLabels() {
		if labels[key] != value {
			return false
		}
	}
	for _, ref := range want.GetOwnerReferences() {
		isIt := func(have metav1.OwnerReference) bool { return equality.Semantic.DeepEqual(have, ref) }
		if !slices.ContainsFunc(have.GetOwnerReferences(), isIt) {
			return false
		}
	}
	return true
}

// contains reports whether have has every field of want, with lists of the same length: the API server adds fields with
// defaults, and never an item of a list.
func contains(want, have any) bool {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok && have != nil {
			return false
		}
		for key, value := range w {
			if !contains(value, h[key]) {
				return false
			}
		}
		return true
	case []any:
		h, _ := have.([]any)
		if len(w) != len(h) {
			return false
		}
		for i := range w {
			if !contains(w[i], h[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(want, have)
}

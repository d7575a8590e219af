package apply

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	reasons "kubevirt.io/hostpath-provisioner/controller/kube/events"
)

// Owner is the field owner of all that the operator applies.
const Owner = "hostpath-provisioner-operator"

type outcome string

const (
	unchanged outcome = ""
	created   outcome = "Create"
	updated   outcome = "Update"
	replaced  outcome = "Replace" // deleted; the next pass creates it
	delayed   outcome = "Delay"   // others change the object again and again; a later pass writes it
)

// The reasons of events of what was done, and of what failed. An outcome without one has no event.
var (
	succeeded = map[outcome]string{created: reasons.CreateResourceSuccess, updated: reasons.UpdateResourceSuccess}
	failed    = map[outcome]string{created: reasons.CreateResourceFailed, updated: reasons.UpdateResourceFailed,
		replaced: reasons.ReplaceResourceFailed}
)

// Applier makes objects of the cluster the desired ones. It writes under one field owner, records
// an event for each write, and writes an object that others change back less and less often.
type Applier struct {
	client  client.Client
	events  events.EventRecorder
	now     func() time.Time
	contest *contest
}

// New returns an Applier that reads and writes through the client, and has written nothing yet.
func New(through client.Client, recorder events.EventRecorder, now func() time.Time) Applier {
	return Applier{through, recorder, now, &contest{objects: map[string]*disputed{}}}
}

// Through returns the applier with another client. What it writes counts as written by both.
func (a Applier) Through(other client.Client) Applier {
	a.client = other
	return a
}

// Apply applies the objects in order, and records events on the object that they are for.
func (a Applier) Apply(ctx context.Context, about client.Object,
	objects ...*unstructured.Unstructured) error {
	for _, want := range objects {
		if err := Seal(want); err != nil {
			return fmt.Errorf("encode %s: %w", want.GetKind(), err)
		}
		did, err := a.applyOne(ctx, about, want)
		if apierrors.IsConflict(err) {
			return err
		}
		if err != nil {
			reason := cmp.Or(failed[did], reasons.UpdateResourceFailed)
			a.events.Eventf(about, want, corev1.EventTypeWarning, reason, "Reconcile", "%v", err)
			return err
		}
		if reason := succeeded[did]; reason != "" {
			a.events.Eventf(about, want, corev1.EventTypeNormal, reason, "Reconcile",
				"%sd %s %s", did, want.GetKind(), want.GetName())
		}
	}
	return nil
}

// applyOne writes nothing if the object does not differ. Labels, annotations and finalizers of
// others stay, and so do the fields that are shared; other fields that others set are removed.
// After a write, want has the new generation.
func (a Applier) applyOne(ctx context.Context, about client.Object,
	want *unstructured.Unstructured) (outcome, error) {
	have, err := a.Read(ctx, want)
	switch {
	case apierrors.IsNotFound(err):
		return a.unlessContested(about, want, have, created, func() error { return a.write(ctx, want) })
	case err != nil:
		return unchanged, fmt.Errorf("read %s %s: %w", want.GetKind(), want.GetName(), err)
	case have.GetDeletionTimestamp() != nil:
		return unchanged, nil // it is created again once it is gone
	case !replaceable(want, have):
		return a.unlessContested(about, want, have, replaced, func() error {
			want.SetGeneration(have.GetGeneration() + 1) // that of an object with a deletion timestamp
			return a.Delete(ctx, have)
		})
	}
	foreign, err := foreignFields(have)
	if err != nil {
		return unchanged, err
	}
	if foreign == nil && same(want, have) {
		return unchanged, nil
	}
	return a.unlessContested(about, want, have, updated, func() error {
		if foreign != nil {
			if err := a.takeOver(ctx, have, foreign); err != nil {
				return err
			}
		}
		return a.write(ctx, want)
	})
}

// Differs reports whether apply would change the object, which exists.
func (a Applier) Differs(ctx context.Context, want *unstructured.Unstructured) (bool, error) {
	have, err := a.Read(ctx, want)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if err := Seal(want); err != nil {
		return false, err
	}
	foreign, err := foreignFields(have)
	return foreign != nil || !same(want, have), err
}

// Read returns the cluster's object of that kind and name.
func (a Applier) Read(ctx context.Context, like *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(like.GroupVersionKind())
	return have, a.client.Get(ctx, client.ObjectKeyFromObject(like), have)
}

// unlessContested calls write, unless the object has to wait because others change it again and
// again. It records an event about that once in a delay.
func (a Applier) unlessContested(about client.Object, want, have *unstructured.Unstructured, what outcome,
	write func() error) (outcome, error) {
	if wait, first := a.contest.admit(want, a.now()); wait > 0 {
		if first {
			a.events.Eventf(about, want, corev1.EventTypeWarning, reasons.ResourceContested, "Reconcile", "%s",
				contested(want, have, wait))
		}
		return delayed, nil
	}
	if err := write(); err != nil {
		return what, err
	}
	a.contest.wrote(want, a.now())
	return what, nil
}

// Again returns the time after which a write that was delayed may happen, 0 if there is none.
func (a Applier) Again() time.Duration { return a.contest.again(a.now()) }

// write applies the object.
func (a Applier) write(ctx context.Context, want *unstructured.Unstructured) error {
	answer := want.DeepCopy() // the client writes the answer into the object that it is given
	err := a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(answer), client.FieldOwner(Owner),
		client.ForceOwnership)
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

// contains reports whether have has every field of want, with lists of the same length: the API
// server adds fields with defaults, and never an item of a list.
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

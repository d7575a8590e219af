package cluster

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// EventsOf lists the events of an object, the newest first. Events of an earlier object of the name
// are not among them. The UID of a Node in an event may be its name, as the kubelet and the agents
// record it.
func (r Reader) EventsOf(ctx context.Context, kind, namespace, name string, uid types.UID) List[corev1.Event] {
	where := namespace
	if where == "" { // of objects without a namespace
		where = metav1.NamespaceDefault
	}
	all := r.events(ctx, where, fields.Set{"involvedObject.kind": kind, "involvedObject.name": name})
	all.Items = slices.DeleteFunc(all.Items, func(e corev1.Event) bool {
		of := e.InvolvedObject.UID
		return of != "" && of != uid && string(of) != name
	})
	return all
}

// EventsFor lists the events about nodes of these reasons, the newest first.
func (r Reader) EventsFor(ctx context.Context, reasons ...string) (all List[corev1.Event]) {
	for _, reason := range reasons {
		some := r.events(ctx, metav1.NamespaceDefault, fields.Set{"involvedObject.kind": "Node", "reason": reason})
		all.Items, all.Unknown = append(all.Items, some.Items...), cmp.Or(all.Unknown, some.Unknown)
	}
	newestFirst(all.Items)
	return all
}

func (r Reader) events(ctx context.Context, namespace string, selected fields.Set) List[corev1.Event] {
	all := each("events", func(f func(*corev1.Event)) error {
		return pages(ctx, metav1.ListOptions{FieldSelector: selected.AsSelector().String()},
			func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return r.Client.CoreV1().Events(namespace).List(ctx, o)
			}, f)
	})
	newestFirst(all.Items)
	return all
}

func newestFirst(all []corev1.Event) {
	slices.SortStableFunc(all, func(a, b corev1.Event) int { return cmp.Compare(Last(&b).Unix(), Last(&a).Unix()) })
}

// Last returns when an event was recorded last.
func Last(e *corev1.Event) time.Time {
	if e.Series != nil && !e.Series.LastObservedTime.IsZero() {
		return e.Series.LastObservedTime.Time
	}
	for _, t := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time} {
		if !t.IsZero() {
			return t
		}
	}
	return e.CreationTimestamp.Time
}

package cluster

import (
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// List is a list of objects, or the reason why it is unknown. The zero value is an empty list.
type List[T any] struct {
	Items []T `json:"items,omitempty"`
	// Unknown says why the list could not be read, such as "may not list nodes"; "" if it was.
	Unknown string `json:"unknown,omitempty"`
}

// Known reports whether the list was read.
func (l List[T]) Known() bool { return l.Unknown == "" }

// Find returns the first object that is accepted, nil if there is none.
func (l List[T]) Find(accept func(*T) bool) *T {
	for i := range l.Items {
		if accept(&l.Items[i]) {
			return &l.Items[i]
		}
	}
	return nil
}

// Object is one object, nil if it does not exist, or the reason why it is unknown.
type Object[T any] struct {
	It      *T
	Unknown string
}

// Known reports whether the object, or its absence, was read.
func (o Object[T]) Known() bool { return o.Unknown == "" }

// Absent reports whether the object is known not to exist.
func (o Object[T]) Absent() bool { return o.It == nil && o.Known() }

// mayNot begins the reason of what the user's rights forbid.
const mayNot = "may not "

// unknown returns the reason in words: what was refused, or what failed.
func unknown(verb, resource string, err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return mayNot + verb + " " + resource
	case apierrors.IsUnauthorized(err):
		err = errLogin
	}
	return fmt.Sprintf("cannot %s %s: %v", verb, resource, err)
}

// absent reports whether the error is the API server's answer for an object that does not exist. A
// 404 of a proxy, or of another server, is none: it is not about an object.
func absent(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// noKind reports whether the error is the answer for a kind of objects that the cluster does not have.
func noKind(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

// Together calls the functions at once and returns when all have.
func Together(functions ...func()) {
	var all sync.WaitGroup
	for _, f := range functions {
		all.Go(f)
	}
	all.Wait()
}

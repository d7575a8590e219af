package cluster

import (
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return mayNot + verb + " " + resource
	}
	return fmt.Sprintf("cannot %s %s: %v", verb, resource, err)
}

// absent reports whether the error is the answer for an object, or a kind of objects, that does not
// exist.
func absent(err error) bool {
	return apierrors.IsNotFound(err) || meta.IsNoMatchError(err)
}

// Together calls the functions at once and returns when all have.
func Together(functions ...func()) {
	var all sync.WaitGroup
	for _, f := range functions {
		all.Go(f)
	}
	all.Wait()
}

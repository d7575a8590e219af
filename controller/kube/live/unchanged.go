package live

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Unchanged returns options that delete the object as it was read: the API server answers
// with a conflict if the object was written since, or if another one has its name.
func Unchanged(o metav1.Object) metav1.DeleteOptions {
	uid, version := o.GetUID(), o.GetResourceVersion()
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}}
}

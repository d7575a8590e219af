package torture

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// copies lets the volumes of a class be copied while they are used, on a filesystem that shares no blocks, too.
func copies(class *storagev1.StorageClass) {
	grow := true
	class.AllowVolumeExpansion = &grow
	class.Parameters["copy"], class.Parameters["consistency"] = "allowed", "fuzzy"
}

// copy creates a claim that is to be a copy of another one's volume. That is used on: of its files those are
// expected in the copy that are in the volume now, and still are when the copy is seen Bound.
func (t *tenant) copy(from *claim) {
	t.made++
	cl := &claim{kind: from.kind, name: fmt.Sprintf("t%d-%d", t.number, t.made), policy: from.kind.policy, size: from.size,
		from: from, files: slices.Clone(from.files)}
	t.make(cl, "")
	t.claims = append(t.claims, cl)
	t.Logf("%s: a copy of %s with %d files, %d bytes, UID %s", cl.name, from.name, len(cl.files), cl.size, cl.uid)
}

// unexpect notes that a file of the volume is removed, which copies of it that are under way need not have.
func (t *tenant) unexpect(from *claim, file string) {
	for _, cl := range t.those(func(cl *claim) bool { return cl.from == from && cl.directory == "" }) {
		cl.files = slices.DeleteFunc(cl.files, func(f string) bool { return f == file })
	}
}

// uncopyable reports whether a claim waits for the copy of a volume that is gone, that has grown beyond the
// claim, or on whose node there is no room.
func (s *Sight) uncopyable(c *corev1.PersistentVolumeClaim) bool {
	if c.Spec.DataSource == nil {
		return false
	}
	i := slices.IndexFunc(s.Claims, func(o corev1.PersistentVolumeClaim) bool { return o.Name == c.Spec.DataSource.Name })
	if i < 0 || s.Claims[i].DeletionTimestamp != nil || s.Claims[i].Status.Phase != corev1.ClaimBound {
		return true
	}
	want := c.Spec.Resources.Requests.Storage().Value()
	return s.Claims[i].Status.Capacity.Storage().Value() > want || want+slack >= s.room(&s.Claims[i])
}

package apiserver

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// collector is one round of the garbage collector.
type collector struct {
	*Server
	who    string
	all    []item
	owners map[types.UID]item
}

// item is an object and where it is.
type item struct {
	*table
	*stored
	metav1.ObjectMeta
}

// meta returns the metadata as its Go type.
func (o *stored) meta() (m metav1.ObjectMeta) {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(meta(o.object), &m); err != nil {
		panic(err) // it was converted before
	}
	return m
}

// Collect does, as the client who, what the controller-manager's garbage collector and namespace
// controller would do by now: it deletes objects whose owners are all absent, deletes or frees the
// dependents of an owner that waits for that, and empties namespaces that are deleted. Each call does
// one step of a chain of owners.
func (s *Server) Collect(who string) {
	g := &collector{Server: s, who: who, owners: map[types.UID]item{}}
	s.mu.Lock()
	for _, r := range s.served {
		t := s.tables[r.Name]
		if t.Resource != r {
			continue // another version of one
		}
		for _, o := range t.all() {
			i := item{t, o, o.meta()}
			g.all = append(g.all, i)
			g.owners[i.UID] = i
		}
	}
	s.mu.Unlock()
	for _, i := range g.all {
		switch waits := func(finalizer string) bool { return slices.Contains(i.Finalizers, finalizer) }; {
		case i.DeletionTimestamp == nil:
			g.owned(i)
		case waits(metav1.FinalizerOrphanDependents):
			for _, d := range g.dependents(i) {
				g.change(d, func(m *metav1.ObjectMeta) { m.OwnerReferences = drop(m.OwnerReferences, refersTo(i.UID)) })
			}
			g.change(i, without(metav1.FinalizerOrphanDependents))
		case waits(metav1.FinalizerDeleteDependents):
			if !g.deleteAll(g.dependents(i), metav1.DeletePropagationForeground) {
				g.change(i, without(metav1.FinalizerDeleteDependents))
			}
		case i.table.Name == "namespaces":
			in := drop(g.all, func(d item) bool { return d.Namespace != i.ObjectMeta.Name })
			if !g.deleteAll(in, metav1.DeletePropagationBackground) {
				c := g.call(i, "update")
				_, _ = c.commit(func(old Object) (Object, error) { // tried again by the next call
					old = fork(old)
					delete(old, "spec")
					return old, nil
				})
			}
		}
	}
}

func drop[T any](l []T, out func(T) bool) []T { return slices.DeleteFunc(slices.Clone(l), out) }

func refersTo(uid types.UID) func(metav1.OwnerReference) bool {
	return func(r metav1.OwnerReference) bool { return r.UID == uid }
}

func without(finalizer string) func(*metav1.ObjectMeta) {
	return func(m *metav1.ObjectMeta) {
		m.Finalizers = drop(m.Finalizers, func(f string) bool { return f == finalizer })
	}
}

// owned deletes an object whose owners are all absent, and removes references to some that are.
func (g *collector) owned(i item) {
	present := drop(i.OwnerReferences, func(r metav1.OwnerReference) bool { return g.absent(i, r) })
	switch {
	case len(present) == len(i.OwnerReferences):
	case len(present) == 0:
		g.deleteAll([]item{i}, metav1.DeletePropagationBackground)
	default:
		g.change(i, func(m *metav1.ObjectMeta) { m.OwnerReferences = present })
	}
}

// absent reports whether the owner does not exist. One of a kind that is not served, and one in a
// namespace of an object without one, count as present: the real collector gives up on them.
func (g *collector) absent(i item, r metav1.OwnerReference) bool {
	kind := schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
	at := slices.IndexFunc(g.served, func(s Resource) bool { return s.gvk() == kind })
	if at < 0 || g.served[at].has(Namespaced) && i.Namespace == "" {
		return false
	}
	owner, ok := g.owners[r.UID]
	return !ok || owner.table.Kind != r.Kind || owner.ObjectMeta.Name != r.Name ||
		owner.Namespace != "" && owner.Namespace != i.Namespace
}

// dependents returns the objects that the item owns.
func (g *collector) dependents(i item) []item {
	return drop(g.all, func(d item) bool { return !slices.ContainsFunc(d.OwnerReferences, refersTo(i.UID)) })
}

// deleteAll deletes the objects that are not yet deleted, and reports whether there were any at all.
func (g *collector) deleteAll(items []item, policy metav1.DeletionPropagation) bool {
	for _, i := range items {
		if i.DeletionTimestamp == nil {
			o := &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(i.UID)), PropagationPolicy: &policy}
			_, _ = g.call(i, "delete").delete(o) // tried again by the next call
		}
	}
	return len(items) > 0
}

func (g *collector) call(i item, verb string) *call {
	r := Request{Who: g.who, Verb: verb, Resource: i.table.Name, Namespace: i.Namespace, Name: i.ObjectMeta.Name}
	return &call{Request: r, server: g.Server, table: i.table, version: i.Version}
}

// change changes the metadata, unless the object has changed since.
func (g *collector) change(i item, modify func(*metav1.ObjectMeta)) {
	c := g.call(i, "patch")
	_, _ = c.commit(func(old Object) (Object, error) { // tried again by the next call
		m := i.ObjectMeta
		modify(&m)
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&m)
		if err != nil || old == nil {
			return nil, err
		}
		o := fork(old)
		o["metadata"] = fields
		return c.next(old, o)
	})
}

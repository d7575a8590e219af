package apiserver

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// collector is one round of the garbage collector.
type collector struct {
	*Server
	who    string
	tables map[schema.GroupKind]*table
	all    []item
	owners map[types.UID]item
	wrote  int
}

// item is an object and where it is.
type item struct {
	*table
	*stored
	metav1.ObjectMeta
}

// Collect does what the controller-manager's garbage collector and namespace controller would do by
// now: it deletes objects whose owners are all absent, ends deletions that wait for dependents or
// orphan them, and empties namespaces that are deleted. Each call does one step of a chain. It writes
// as the client who, and returns how many writes succeeded.
func (s *Server) Collect(who string) int {
	g := &collector{Server: s, who: who, tables: map[schema.GroupKind]*table{}, owners: map[types.UID]item{}}
	s.mu.Lock()
	for _, name := range s.names() {
		t := s.tables[name]
		g.tables[t.kind()] = t
		for _, o := range t.all() {
			g.all = append(g.all, item{t, o, o.meta()})
		}
	}
	s.mu.Unlock()
	for _, i := range g.all {
		g.owners[i.UID] = i
	}
	for _, i := range g.all {
		g.item(i)
	}
	return g.wrote
}

// item does the next step for one object.
func (g *collector) item(i item) {
	switch {
	case i.DeletionTimestamp != nil && slices.Contains(i.Finalizers, metav1.FinalizerOrphanDependents):
		for _, d := range g.dependents(i, false) {
			g.change(d, func(m *metav1.ObjectMeta) { m.OwnerReferences = without(m.OwnerReferences, i.UID) })
		}
		g.change(i, func(m *metav1.ObjectMeta) { drop(&m.Finalizers, metav1.FinalizerOrphanDependents) })
	case i.DeletionTimestamp != nil && slices.Contains(i.Finalizers, metav1.FinalizerDeleteDependents):
		for _, d := range g.dependents(i, false) {
			if d.DeletionTimestamp == nil {
				g.delete(d, metav1.DeletePropagationForeground)
			}
		}
		if len(g.dependents(i, true)) == 0 {
			g.change(i, func(m *metav1.ObjectMeta) { drop(&m.Finalizers, metav1.FinalizerDeleteDependents) })
		}
	case i.table.Name == "namespaces" && i.DeletionTimestamp != nil:
		g.empty(i)
	case i.DeletionTimestamp == nil && len(i.OwnerReferences) > 0:
		g.owned(i)
	}
}

// owned deletes an object whose owners are all absent, and removes references to some that are.
func (g *collector) owned(i item) {
	absent := slices.DeleteFunc(slices.Clone(i.OwnerReferences), func(r metav1.OwnerReference) bool { return !g.absent(i, r) })
	switch {
	case len(absent) == len(i.OwnerReferences):
		g.delete(i, metav1.DeletePropagationBackground)
	case len(absent) > 0:
		g.change(i, func(m *metav1.ObjectMeta) {
			for _, r := range absent {
				m.OwnerReferences = without(m.OwnerReferences, r.UID)
			}
		})
	}
}

// absent reports whether the owner does not exist. One of a kind that is not served, and one in a
// namespace of an object without, count as present: the real collector gives up on them.
func (g *collector) absent(i item, r metav1.OwnerReference) bool {
	t := g.tables[schema.FromAPIVersionAndKind(r.APIVersion, r.Kind).GroupKind()]
	if t == nil || t.has(Namespaced) && i.Namespace == "" {
		return false
	}
	owner, ok := g.owners[r.UID]
	return !ok || owner.table != t || owner.Name != r.Name || t.has(Namespaced) && owner.Namespace != i.Namespace
}

// dependents returns the objects that the item owns, or only those that block its deletion.
func (g *collector) dependents(i item, blocking bool) []item {
	return slices.DeleteFunc(slices.Clone(g.all), func(d item) bool {
		return !slices.ContainsFunc(d.OwnerReferences, func(r metav1.OwnerReference) bool {
			return r.UID == i.UID && (!blocking || r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion)
		})
	})
}

// empty deletes what is in a namespace, and the namespace when nothing is left.
func (g *collector) empty(ns item) {
	left := 0
	for _, i := range g.all {
		if i.Namespace == ns.ObjectMeta.Name {
			left++
			if i.DeletionTimestamp == nil {
				g.delete(i, metav1.DeletePropagationBackground)
			}
		}
	}
	if left == 0 {
		c := g.call(ns, "update")
		c.Subresource = "finalize"
		_, _ = c.change(func(o Object) (Object, error) { // a failure is tried again by the next call
			o = fork(o)
			o["spec"] = Object{}
			return o, nil
		})
		g.wrote++
	}
}

func (g *collector) call(i item, verb string) *call {
	r := Request{Who: g.who, Verb: verb, Resource: i.table.Name, Namespace: i.Namespace, Name: i.ObjectMeta.Name}
	return &call{Request: r, server: g.Server, ctx: context.Background(), table: i.table, version: i.Version}
}

func (g *collector) delete(i item, policy metav1.DeletionPropagation) {
	c := g.call(i, "delete")
	if _, err := c.delete(metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(i.UID)), PropagationPolicy: &policy}); err == nil {
		g.wrote++
	}
}

// change changes the metadata, unless the object has changed since.
func (g *collector) change(i item, modify func(*metav1.ObjectMeta)) {
	c := g.call(i, "patch")
	_, err := c.change(func(Object) (Object, error) {
		m := *i.ObjectMeta.DeepCopy()
		modify(&m)
		o := fork(i.object)
		fields, err := toObject(&m)
		o["metadata"] = fields
		return o, err
	})
	if err == nil {
		g.wrote++
	}
}

func without(refs []metav1.OwnerReference, uid types.UID) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(refs), func(r metav1.OwnerReference) bool { return r.UID == uid })
}

func drop(finalizers *[]string, name string) {
	*finalizers = slices.DeleteFunc(slices.Clone(*finalizers), func(f string) bool { return f == name })
}

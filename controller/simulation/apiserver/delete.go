package apiserver

import (
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// deleteBy calls a method with the options of body and query.
func (c *call) deleteBy(method func(metav1.DeleteOptions) (answer, error)) (answer, error) {
	var o metav1.DeleteOptions
	if len(c.body) > 0 {
		if err := utiljson.Unmarshal(c.body, &o); err != nil {
			return answer{}, bad("%v", err)
		}
	}
	if policy := c.query.Get("propagationPolicy"); policy != "" {
		o.PropagationPolicy = (*metav1.DeletionPropagation)(&policy)
	}
	if len(o.DryRun) > 0 {
		c.query.Set("dryRun", metav1.DryRunAll)
	}
	return method(o)
}

// delete deletes the object, or marks it as deleted if finalizers or a grace period keep it.
func (c *call) delete(o metav1.DeleteOptions) (answer, error) {
	kept := false
	a, err := c.commit(func(old Object) (Object, error) {
		if old == nil {
			return nil, c.notFound()
		}
		next := c.deleted(old, o)
		kept = next != nil
		return next, c.precondition(old, o.Preconditions)
	})
	if err == nil && !kept && !c.table.has(ReturnsGone) {
		a.value = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
			Details: &metav1.StatusDetails{Name: c.Name, Group: c.table.group().Group, Kind: c.table.Name,
				UID: types.UID(text(a.object.object, "metadata.uid"))}}
	}
	return a, err
}

// precondition refuses the deletion of another object or another version of it.
func (c *call) precondition(o Object, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	for field, want := range map[string]*string{"uid": (*string)(p.UID), "resourceVersion": p.ResourceVersion} {
		if is := text(o, "metadata."+field); want != nil && *want != is {
			return c.conflict("the %s in the precondition (%s) does not match the one in record (%s)", field, *want, is)
		}
	}
	return nil
}

// deleted returns the object with the marks of a deletion, or nil if nothing keeps it.
func (c *call) deleted(was Object, o metav1.DeleteOptions) Object {
	next := fork(was)
	m := meta(next)
	grace, from := c.grace(was, o), c.server.now()
	if before := text(m, "deletionTimestamp"); before != "" {
		had := number(m, "deletionGracePeriodSeconds")
		if had > 0 && (o.GracePeriodSeconds == nil || grace >= had) || had == 0 && held(was) {
			return was // a grace period can only be shortened
		}
		ends, _ := time.Parse(time.RFC3339, before) // the server wrote it
		if began := ends.Add(-time.Duration(had) * time.Second); began.Add(time.Duration(grace) * time.Second).After(from) {
			from = began
		} else {
			grace = min(grace, 1)
		}
	} else {
		if c.table.has(Generation) {
			m["generation"] = number(m, "generation") + 1
		}
		if p := o.PropagationPolicy; p != nil && *p == metav1.DeletePropagationForeground {
			finalize(m, metav1.FinalizerDeleteDependents)
		} else if p != nil && *p == metav1.DeletePropagationOrphan {
			finalize(m, metav1.FinalizerOrphanDependents)
		}
	}
	if grace == 0 && !held(next) {
		return nil
	}
	m["deletionTimestamp"] = from.Add(time.Duration(grace) * time.Second).Format(time.RFC3339)
	m["deletionGracePeriodSeconds"] = grace
	if c.table.Name == "namespaces" {
		delete(m, "deletionGracePeriodSeconds")
		next["status"] = Object{"phase": "Terminating"}
	}
	return next
}

// grace is the grace period of a deletion in seconds: only pods on a node have one.
func (c *call) grace(o Object, options metav1.DeleteOptions) int64 {
	phase := text(o, "status.phase")
	switch {
	case c.table.Name != "pods" || text(o, "spec.nodeName") == "" || phase == "Succeeded" || phase == "Failed":
		return 0
	case options.GracePeriodSeconds == nil:
		return number(o, "spec.terminationGracePeriodSeconds")
	}
	if *options.GracePeriodSeconds < 0 {
		return 1
	}
	return *options.GracePeriodSeconds
}

// deleteCollection deletes what the selectors choose, one after the other.
func (c *call) deleteCollection(o metav1.DeleteOptions) (answer, error) {
	return c.list(func(item *stored) error {
		one := *c
		one.Name, one.Namespace = text(item.object, "metadata.name"), item.ns
		_, err := one.delete(o)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// collector is one round of the garbage collector.
type collector struct {
	*Server
	who    string
	served []Resource
	all    []item
	owners map[types.UID]item
}

// item is an object and where it is.
type item struct {
	*table
	metav1.ObjectMeta
}

// Collect does, as the client who, what the controller-manager's garbage collector and namespace
// controller would do by now: it deletes objects whose owners are all absent, deletes or frees the
// dependents of an owner that waits for that, and empties namespaces that are deleted. Each call does
// one step of a chain of owners.
func (s *Server) Collect(who string) {
	g := s.collector(who)
	for _, i := range g.all {
		g.step(i)
	}
}

// Empty does what the namespace controller would do by now about one namespace that is deleted, and
// nothing about owners.
func (s *Server) Empty(who, namespace string) {
	g := s.collector(who)
	for _, i := range g.all {
		if i.table.Name == "namespaces" && i.Name == namespace {
			g.step(i)
		}
	}
}

// collector returns a collector of what there is now.
func (s *Server) collector(who string) *collector {
	g := &collector{Server: s, who: who, owners: map[types.UID]item{}}
	s.mu.Lock()
	g.served = s.served
	for _, r := range s.served {
		for _, o := range s.tables[r.Name].all() {
			i := item{table: s.tables[r.Name]}
			err := runtime.DefaultUnstructuredConverter.FromUnstructured(meta(o.object), &i.ObjectMeta)
			if _, again := g.owners[i.UID]; err == nil && !again {
				g.all, g.owners[i.UID] = append(g.all, i), i
			}
		}
	}
	s.mu.Unlock()
	return g
}

// step does what is to be done about one object. What fails is done by the next round.
func (g *collector) step(i item) {
	mine := func(r metav1.OwnerReference) bool { return r.UID == i.UID }
	dependents := drop(g.all, func(d item) bool { return !slices.ContainsFunc(d.OwnerReferences, mine) })
	switch absent := func(r metav1.OwnerReference) bool { return g.absent(i, r) }; {
	case i.DeletionTimestamp == nil && slices.ContainsFunc(i.OwnerReferences, absent):
		if rest := drop(i.OwnerReferences, absent); len(rest) > 0 {
			g.change(i, func(m *metav1.ObjectMeta) { m.OwnerReferences = rest })
		} else {
			g.deleteAll([]item{i}, metav1.DeletePropagationBackground)
		}
	case i.DeletionTimestamp == nil:
	case slices.Contains(i.Finalizers, metav1.FinalizerOrphanDependents):
		for _, d := range dependents {
			g.change(d, func(m *metav1.ObjectMeta) { m.OwnerReferences = drop(m.OwnerReferences, mine) })
		}
		g.release(i, metav1.FinalizerOrphanDependents)
	case slices.Contains(i.Finalizers, metav1.FinalizerDeleteDependents):
		if !g.deleteAll(dependents, metav1.DeletePropagationForeground) {
			g.release(i, metav1.FinalizerDeleteDependents)
		}
	case i.table.Name == "namespaces":
		in := drop(g.all, func(d item) bool { return d.Namespace != i.Name })
		if !g.deleteAll(in, metav1.DeletePropagationBackground) {
			c := g.call(i, "update")
			_, _ = c.commit(func(old Object) (Object, error) {
				if old == nil || text(old, "metadata.uid") != string(i.UID) {
					return nil, c.notFound() // another round was sooner
				}
				old = fork(old)
				delete(old, "spec")
				return old, nil
			})
		}
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
	return !ok || owner.Kind != r.Kind || owner.Name != r.Name ||
		owner.Namespace != "" && owner.Namespace != i.Namespace
}

// deleteAll deletes the objects that are not yet deleted, and reports whether there were any at all.
func (g *collector) deleteAll(items []item, policy metav1.DeletionPropagation) bool {
	for _, i := range items {
		if i.DeletionTimestamp == nil {
			o := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(i.UID)), PropagationPolicy: &policy}
			_, _ = g.call(i, "delete").delete(o)
		}
	}
	return len(items) > 0
}

// change changes the metadata, unless the object has changed since.
func (g *collector) change(i item, modify func(*metav1.ObjectMeta)) {
	c := g.call(i, "patch")
	_, _ = c.commit(func(old Object) (Object, error) {
		m := i.ObjectMeta
		modify(&m)
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&m)
		if err != nil || old == nil {
			return nil, c.notFound()
		}
		o := fork(old)
		o["metadata"] = fields
		return c.next(old, o)
	})
}

// release removes a finalizer.
func (g *collector) release(i item, finalizer string) {
	g.change(i, func(m *metav1.ObjectMeta) {
		m.Finalizers = drop(m.Finalizers, func(f string) bool { return f == finalizer })
	})
}

func (g *collector) call(i item, verb string) *call {
	r := Request{Who: g.who, Verb: verb, Resource: i.table.Name, Namespace: i.Namespace, Name: i.Name}
	return &call{Request: r, server: g.Server, table: i.table, version: i.Version}
}

func drop[T any](l []T, out func(T) bool) []T { return slices.DeleteFunc(slices.Clone(l), out) }

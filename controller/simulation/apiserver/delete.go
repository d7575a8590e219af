package apiserver

import (
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// delete deletes the object, or marks it as deleted if finalizers or a grace period keep it. Options
// are those of the body unless they are given.
func (c *call) delete(o *metav1.DeleteOptions) (answer, error) {
	if o == nil {
		var err error
		if o, err = c.deleteOptions(); err != nil {
			return answer{}, err
		}
	}
	kept := false
	a, err := c.commit(func(old Object) (Object, error) {
		if old == nil {
			return nil, apierrors.NewNotFound(c.table.group(), c.Name)
		}
		next := c.deleted(old, o)
		kept = next != nil
		return next, c.precondition(old, o.Preconditions)
	})
	if err == nil && !kept && !c.table.has(ReturnsGone) {
		a.value = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
			Details: &metav1.StatusDetails{Name: c.Name, Group: c.table.group().Group, Kind: c.table.Name, UID: a.object.meta().UID}}
	}
	return a, err
}

// deleteOptions reads the options from body and query.
func (c *call) deleteOptions() (*metav1.DeleteOptions, error) {
	o := &metav1.DeleteOptions{}
	if len(c.body) > 0 {
		if err := utiljson.Unmarshal(c.body, o); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if policy := c.query.Get("propagationPolicy"); policy != "" {
		o.PropagationPolicy = (*metav1.DeletionPropagation)(&policy)
	}
	if len(o.DryRun) > 0 {
		c.query.Set("dryRun", metav1.DryRunAll)
	}
	return o, nil
}

// precondition refuses the deletion of another object or another version of it.
func (c *call) precondition(o Object, p *metav1.Preconditions) error {
	kind := schema.GroupResource{Group: c.table.gvk().Group, Resource: c.table.Kind}
	if is := text(o, "metadata", "uid"); p != nil && p.UID != nil && string(*p.UID) != is {
		return apierrors.NewConflict(kind, c.Name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). "+
			"The object might have been deleted and then recreated", *p.UID, is))
	}
	if is := text(o, "metadata", "resourceVersion"); p != nil && p.ResourceVersion != nil && *p.ResourceVersion != is {
		return apierrors.NewConflict(kind, c.Name, fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the "+
			"ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, is))
	}
	return nil
}

// deleted returns the object with the marks of a deletion, or nil if nothing keeps it.
func (c *call) deleted(was Object, o *metav1.DeleteOptions) Object {
	next := fork(was)
	m := meta(next)
	grace, from := c.grace(was, o), time.Now().UTC()
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
		if m["generation"] != nil {
			m["generation"] = number(m, "generation") + 1
		}
		if p := o.PropagationPolicy; p != nil && *p == metav1.DeletePropagationForeground {
			m["finalizers"] = with(list(m, "finalizers"), metav1.FinalizerDeleteDependents)
		} else if p != nil && *p == metav1.DeletePropagationOrphan {
			m["finalizers"] = with(list(m, "finalizers"), metav1.FinalizerOrphanDependents)
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
func (c *call) grace(o Object, options *metav1.DeleteOptions) int64 {
	phase := text(o, "status", "phase")
	switch {
	case c.table.Name != "pods" || text(o, "spec", "nodeName") == "" || phase == "Succeeded" || phase == "Failed":
		return 0
	case options.GracePeriodSeconds == nil:
		return number(o, "spec", "terminationGracePeriodSeconds")
	case *options.GracePeriodSeconds < 0:
		return 1
	}
	return *options.GracePeriodSeconds
}

// deleteCollection deletes what the selectors choose, one after the other.
func (c *call) deleteCollection() (answer, error) {
	o, err := c.deleteOptions()
	if err != nil {
		return answer{}, err
	}
	items, m, err := c.chosen()
	if err != nil {
		return answer{}, err
	}
	for _, item := range items {
		one := *c
		one.Name, one.Namespace = text(item.object, "metadata", "name"), item.ns
		if _, err := one.delete(o); err != nil && !apierrors.IsNotFound(err) {
			return answer{}, err
		}
	}
	return answer{code: 200, value: c.viewList(items, m)}, nil
}

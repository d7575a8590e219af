package apiserver

import (
	"fmt"
	"net/http"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// deleteOptions reads the options from the body, or from the query.
func (c *call) deleteOptions() (o metav1.DeleteOptions, err error) {
	if len(c.body) > 0 {
		if err := decodeInto(c.body, &o); err != nil {
			return o, err
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

// delete deletes the object, or marks it as deleted if finalizers or a grace period keep it.
func (c *call) delete(o metav1.DeleteOptions) (answer, error) {
	for {
		was, err := c.current()
		if err != nil {
			return answer{}, err
		}
		if err := c.precondition(was.object, o.Preconditions); err != nil {
			return answer{}, err
		}
		next := c.deleted(was.object, o)
		if next != nil && reflect.DeepEqual(next, was.object) {
			return answer{code: http.StatusOK, object: was}, nil
		}
		if _, err := c.admitted(was.object, nil); err != nil {
			return answer{}, err
		}
		if c.dryRun() {
			return c.afterDelete(was, next != nil), nil
		}
		gone, ok, err := c.put(was, next)
		if err != nil {
			return answer{}, err
		}
		if ok {
			return c.afterDelete(gone, next != nil), nil
		}
	}
}

// precondition refuses the deletion of another object or another version of it.
func (c *call) precondition(o Object, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	kind := schema.GroupResource{Group: c.table.gv.Group, Resource: c.table.Kind}
	if is := text(o, "metadata", "uid"); p.UID != nil && string(*p.UID) != is {
		return apierrors.NewConflict(kind, c.Name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). "+
			"The object might have been deleted and then recreated", *p.UID, is))
	}
	if is := text(o, "metadata", "resourceVersion"); p.ResourceVersion != nil && *p.ResourceVersion != is {
		return apierrors.NewConflict(kind, c.Name, fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion "+
			"in record (%s). The object might have been modified", *p.ResourceVersion, is))
	}
	return nil
}

// deleted returns the object with the marks of a deletion, or nil if nothing keeps it.
func (c *call) deleted(was Object, o metav1.DeleteOptions) Object {
	next := fork(was)
	m := meta(next)
	c.propagate(m, o)
	grace, when := c.grace(was, o), time.Now().UTC()
	if before, had := text(m, "deletionTimestamp"), number(m, "deletionGracePeriodSeconds"); before != "" {
		if had > 0 && grace >= had || o.GracePeriodSeconds == nil && had > 0 {
			return was // a grace period can only be shortened
		}
		if began, err := time.Parse(time.RFC3339, before); err == nil && had > 0 {
			began = began.Add(time.Duration(-had) * time.Second)
			if began.Add(time.Duration(grace) * time.Second).Before(when) {
				grace = min(grace, 1)
			} else {
				when = began
			}
		}
	} else if m["generation"] != nil {
		m["generation"] = number(m, "generation") + 1
	}
	if grace == 0 && len(list(m, "finalizers")) == 0 && len(list(next, "spec", "finalizers")) == 0 {
		return nil
	}
	if m["deletionTimestamp"] == nil || number(m, "deletionGracePeriodSeconds") > 0 {
		m["deletionTimestamp"] = when.Add(time.Duration(grace) * time.Second).Format(time.RFC3339)
		m["deletionGracePeriodSeconds"] = grace
	}
	if c.table.Name == "namespaces" {
		delete(m, "deletionGracePeriodSeconds")
		next["status"] = Object{"phase": "Terminating"}
	}
	return next
}

// propagate sets the finalizer of the garbage collector that the policy asks for.
func (c *call) propagate(m Object, o metav1.DeleteOptions) {
	if o.PropagationPolicy == nil || m["deletionTimestamp"] != nil {
		return
	}
	switch *o.PropagationPolicy {
	case metav1.DeletePropagationForeground:
		m["finalizers"] = with(list(m, "finalizers"), metav1.FinalizerDeleteDependents)
	case metav1.DeletePropagationOrphan:
		m["finalizers"] = with(list(m, "finalizers"), metav1.FinalizerOrphanDependents)
	}
}

// grace is the grace period of a deletion in seconds: only pods on a node have one.
func (c *call) grace(o Object, options metav1.DeleteOptions) int64 {
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

// afterDelete answers with the object, or with a status if it is gone and of a kind that has that.
func (c *call) afterDelete(o *stored, kept bool) answer {
	if kept || c.table.has(ReturnsGone) {
		return answer{code: http.StatusOK, object: o}
	}
	details := &metav1.StatusDetails{Name: c.Name, Group: c.table.gv.Group, Kind: c.table.Name}
	return answer{code: http.StatusOK, other: metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status: metav1.StatusSuccess, Details: details}}
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
	return answer{code: http.StatusOK, other: c.encodeList(items, m)}, nil
}

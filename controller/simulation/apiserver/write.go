package apiserver

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// commit stores what modify makes of the object that the request names. old is nil if there is none,
// and next to remove it. It calls modify again if another client was faster.
func (c *call) commit(modify func(old Object) (next Object, err error)) (answer, error) {
	for {
		was, a := c.server.object(c.table, c.key()), answer{code: http.StatusOK}
		if was == nil {
			a.code = http.StatusCreated
		}
		old := c.write(was, nil).Old
		next, err := modify(old)
		if err != nil {
			return a, err
		}
		if next, err = c.admit(was, next); err != nil {
			return a, err
		}
		if was != nil && next != nil && sameBut(old, next) {
			a.object = was
			return a, nil
		}
		if c.query.Get("dryRun") == metav1.DryRunAll {
			if a.object = was; next != nil {
				a.object = c.seal(next)
			}
			return a, nil
		}
		if a.object, err = c.put(was, next); a.object != nil || err != nil {
			return a, err
		}
	}
}

// admit asks the webhook, which may replace the object, and validates.
func (c *call) admit(was *stored, next Object) (Object, error) {
	w := c.write(was, next)
	if c.server.Admit != nil {
		if err := c.server.Admit(&w); err != nil {
			return nil, err
		}
	}
	if w.New == nil || strings.HasPrefix(c.Verb, "delete") {
		return w.New, nil
	}
	return w.New, c.validate(w.Old, w.New)
}

// create stores a new object.
func (c *call) create(o Object) (answer, error) {
	c.Name = text(o, "metadata.name")
	if c.Name == "" && text(o, "metadata.generateName") != "" {
		c.Name = fmt.Sprintf("%s%05d", text(o, "metadata.generateName"), c.server.serial())
	}
	return c.commit(func(old Object) (Object, error) {
		next, err := c.next(nil, o)
		if err == nil && old != nil { // names are compared last
			if _, err = c.admit(nil, next); err == nil {
				err = apierrors.NewAlreadyExists(c.table.group(), c.Name)
			}
		}
		return next, err
	})
}

// update replaces the object.
func (c *call) update() (answer, error) {
	o, err := decode(c.body)
	if err != nil {
		return answer{}, err
	}
	return c.commit(func(old Object) (Object, error) {
		uid, is := text(o, "metadata.uid"), text(old, "metadata.uid")
		if old == nil && !c.table.has(Upsert) {
			return nil, c.notFound()
		}
		if uid != "" && uid != is {
			return nil, c.conflict("Precondition failed: UID in precondition: %s, UID in object meta: %s", uid, is)
		}
		return c.next(old, o)
	})
}

// next makes the next version of an object, nil for none, of what the client wants.
func (c *call) next(was, o Object) (Object, error) {
	o, err := c.normal(o)
	switch have, want := text(was, "metadata.resourceVersion"), text(o, "metadata.resourceVersion"); {
	case err != nil:
		return nil, err
	case was == nil && want != "":
		return nil, errors.New("resourceVersion should not be set on objects to be created")
	case was == nil:
		return c.fresh(o)
	case text(o, "metadata.name") == "":
		return nil, bad("the name of the object was undeterminable: name must be provided")
	case want == "" && c.table.has(Conditional):
		return nil, c.invalid(field.Invalid(field.NewPath("metadata.resourceVersion"), 0, "must be specified for an update"))
	case want != "" && want != have:
		return nil, c.conflict("the object has been modified; please apply your changes to the latest version and try again")
	}
	switch {
	case c.Subresource == "status" && c.table.has(Custom):
		state, fields := o, meta(o)
		o = copied(was)
		set(o, state, "status")
		set(meta(o), fields, "managedFields")
	case c.Subresource == "status":
		set(o, was, "spec")
	case c.table.has(Status):
		set(o, was, "status")
	}
	old, m := meta(was), meta(o)
	for _, key := range []string{"uid", "namespace", "resourceVersion"} {
		if m[key] == nil {
			set(m, old, key)
		}
	}
	set(m, old, "creationTimestamp", "generation")
	if old["deletionTimestamp"] != nil {
		set(m, old, "deletionTimestamp", "deletionGracePeriodSeconds")
	}
	if c.table.has(Generation) && !sameApartFrom(was, o, "metadata", "status") {
		m["generation"] = number(old, "generation") + 1
	}
	return c.track(was, o), nil
}

// normal converts an object of the client into the stored form.
func (c *call) normal(o Object) (Object, error) {
	v, kind, name, ns := text(o, "apiVersion"), text(o, "kind"), text(o, "metadata.name"), text(o, "metadata.namespace")
	switch {
	case kind == "" && c.table.has(Custom):
		return nil, bad("Object 'Kind' is missing in the body")
	case v != "" && v != c.version || kind != "" && kind != c.table.Kind:
		return nil, bad("%s, Kind=%s in the body of a request for %s, Kind=%s", v, kind, c.version, c.table.Kind)
	case name != "" && name != c.Name:
		return nil, bad("the name of the object (%s) does not match the name on the URL (%s)", name, c.Name)
	case ns != "" && ns != c.Namespace:
		return nil, bad("the namespace of the provided object does not match the namespace sent on the request")
	}
	o = copied(c.convert(o, true))
	if c.table.typ != nil {
		typed := reflect.New(c.table.typ).Interface()
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(o, typed)
		if err == nil {
			o, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
		}
		if err != nil {
			return nil, bad("%v", err)
		}
	}
	o["apiVersion"], o["kind"] = c.table.Version, c.table.Kind
	setDefaults(o, defaults[c.table.Name])
	return o, nil
}

// fresh makes a new object.
func (c *call) fresh(o Object) (Object, error) {
	m := meta(o)
	set(m, nil, "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink")
	m["uid"] = fmt.Sprintf("00000000-0000-4000-8000-%012d", c.server.serial())
	m["creationTimestamp"] = c.server.now().Format(time.RFC3339)
	m["name"] = c.Name
	if c.table.has(Generation) {
		m["generation"] = int64(1)
	}
	var err error
	if c.table.has(Namespaced) {
		m["namespace"] = c.Namespace
		err = c.inNamespace()
	}
	state := Object{}
	switch c.table.Name {
	case "persistentvolumes":
		finalize(m, "kubernetes.io/pv-protection")
		state = Object{"phase": "Pending", "lastPhaseTransitionTime": m["creationTimestamp"]}
	case "persistentvolumeclaims":
		finalize(m, "kubernetes.io/pvc-protection")
		state["phase"] = "Pending"
	case "namespaces":
		o["spec"] = Object{"finalizers": []any{"kubernetes"}}
		state["phase"] = "Active"
	case "pods":
		state["phase"] = "Pending"
	case "nodes": // a kubelet registers its Node with a status
		state = at[Object](o, "status")
	}
	if delete(o, "status"); c.table.has(Status) && !c.table.has(Custom) {
		o["status"] = state
	}
	return c.track(nil, o), err
}

// serial returns another number for a name or a UID.
func (s *Server) serial() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serials++
	return s.serials
}

// inNamespace refuses creations in a namespace that is absent or ends.
func (c *call) inNamespace() error {
	ns := c.server.object(c.server.tables["namespaces"], "/"+c.Namespace)
	if ns == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, c.Namespace)
	}
	if text(ns.object, "metadata.deletionTimestamp") == "" {
		return nil
	}
	err := apierrors.NewForbidden(c.table.group(), c.Name,
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", c.Namespace))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "NamespaceTerminating", Field: "metadata.namespace"}}
	return err
}

// sameApartFrom reports whether the objects differ at most in some fields.
func sameApartFrom(a, b Object, fields ...string) bool {
	b = maps.Clone(b)
	set(b, a, fields...)
	return reflect.DeepEqual(a, b)
}

// sameBut reports whether the objects differ at most in the times of their managed fields.
func sameBut(a, b Object) bool {
	before, after := list(a, "metadata.managedFields"), list(b, "metadata.managedFields")
	if len(before) > 0 && len(before) == len(after) {
		b = fork(b)
		timed := make([]any, len(after))
		for i := range after {
			entry := copied(after[i].(Object))
			set(entry, before[i].(Object), "time")
			timed[i] = entry
		}
		meta(b)["managedFields"] = timed
	}
	return reflect.DeepEqual(a, b)
}

package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// commit stores what modify makes of the object that the request names. old is nil if there is none,
// and next to remove it. It calls modify again if another client was faster.
func (c *call) commit(modify func(old Object) (next Object, err error)) (answer, error) {
	for {
		was, err := c.current()
		if err != nil {
			was = &stored{}
		}
		next, err := modify(was.object)
		if err != nil {
			return answer{}, err
		}
		a := answer{code: http.StatusOK}
		if was.object == nil {
			a.code, was = http.StatusCreated, nil
		} else if next != nil && sameBut(was.object, next) {
			a.object = was
			return a, nil
		}
		if next, err = c.admit(was, next); err != nil {
			return a, err
		}
		if c.query.Get("dryRun") == metav1.DryRunAll {
			if a.object = was; next != nil {
				a.object, err = c.seal(next, 0)
			}
			return a, err
		}
		if a.object, err = c.put(was, next); a.object != nil || err != nil {
			return a, err
		}
	}
}

// admit asks the webhook, and validates the object, which the webhook may have replaced.
func (c *call) admit(was *stored, next Object) (Object, error) {
	var old Object
	if was != nil {
		old = was.object
	}
	if c.server.Admit != nil {
		w := Write{c.Who, c.Verb, c.Resource, c.Namespace, c.Name, c.Subresource, old, next}
		if err := c.server.Admit(&w); err != nil {
			return nil, err
		}
		next = w.New
	}
	if next == nil || strings.HasPrefix(c.Verb, "delete") {
		return next, nil
	}
	return next, c.validate(old, next)
}

// create stores a new object.
func (c *call) create(o Object) (answer, error) {
	c.Name = text(o, "metadata", "name")
	if c.Name == "" && text(o, "metadata", "generateName") != "" {
		c.Name = fmt.Sprintf("%s%05d", text(o, "metadata", "generateName"), c.server.serial())
	}
	return c.commit(func(old Object) (Object, error) {
		if old != nil {
			return nil, apierrors.NewAlreadyExists(c.table.group(), c.Name)
		}
		return c.fresh(o)
	})
}

// fresh makes a new object of what the client sent.
func (c *call) fresh(o Object) (Object, error) {
	if text(o, "metadata", "resourceVersion") != "" {
		return nil, errors.New("resourceVersion should not be set on objects to be created")
	}
	o, err := c.normal(o)
	if err != nil {
		return nil, err
	}
	m := meta(o)
	set(m, Object{}, "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink")
	m["uid"] = fmt.Sprintf("00000000-0000-4000-8000-%012d", c.server.serial())
	m["creationTimestamp"] = now()
	m["name"] = c.Name
	if c.table.has(Generation) {
		m["generation"] = int64(1)
	}
	if c.table.has(Namespaced) {
		m["namespace"] = c.Namespace
		err = c.inNamespace()
	}
	c.initial(o)
	return c.track(nil, o), err
}

// serial returns another number for a name or a UID.
func (s *Server) serial() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serials++
	return s.serials
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }

// inNamespace refuses creations in a namespace that is absent or ends.
func (c *call) inNamespace() error {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	ns := c.server.tables["namespaces"].objects["/"+c.Namespace]
	if ns == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, c.Namespace)
	}
	if text(ns.object, "metadata", "deletionTimestamp") == "" {
		return nil
	}
	err := apierrors.NewForbidden(c.table.group(), c.Name,
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", c.Namespace))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "NamespaceTerminating", Field: "metadata.namespace"}}
	return err
}

// initial sets what the server and its admission plugins set in a new object.
func (c *call) initial(o Object) {
	m, state := meta(o), Object{}
	switch c.table.Name {
	case "persistentvolumes":
		m["finalizers"] = with(list(m, "finalizers"), "kubernetes.io/pv-protection")
		state = Object{"phase": "Pending", "lastPhaseTransitionTime": m["creationTimestamp"]}
	case "persistentvolumeclaims":
		m["finalizers"] = with(list(m, "finalizers"), "kubernetes.io/pvc-protection")
		state["phase"] = "Pending"
	case "namespaces":
		o["spec"] = Object{"finalizers": []any{"kubernetes"}}
		state["phase"] = "Active"
	case "pods":
		state["phase"] = "Pending"
	case "nodes":
		return // a kubelet registers its Node with a status
	}
	if delete(o, "status"); c.table.has(Status) && !c.table.has(Custom) {
		o["status"] = state
	}
}

// normal converts an object of the client into the stored form.
func (c *call) normal(o Object) (Object, error) {
	if v, k := text(o, "apiVersion"), text(o, "kind"); v != "" && v != c.version || k != "" && k != c.table.Kind {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s, Kind=%s in the body of a request for %s, Kind=%s", v, k, c.version, c.table.Kind))
	}
	if name := text(o, "metadata", "name"); name != "" && name != c.Name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, c.Name))
	}
	if ns := text(o, "metadata", "namespace"); ns != "" && ns != c.Namespace {
		return nil, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	o, err := c.table.normal(c.fromClient(o))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return o, nil
}

// update replaces the object.
func (c *call) update() (answer, error) {
	o, err := decode(c.body)
	if err != nil {
		return answer{}, err
	}
	return c.commit(func(old Object) (Object, error) {
		uid := text(o, "metadata", "uid")
		switch {
		case old == nil && !c.table.has(Upsert):
			return nil, apierrors.NewNotFound(c.table.group(), c.Name)
		case uid != "" && uid != text(old, "metadata", "uid"):
			return nil, apierrors.NewConflict(c.table.group(), c.Name, fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: %s",
				uid, text(old, "metadata", "uid"))) //nolint:staticcheck // the words of the real server
		case old == nil:
			return c.fresh(o)
		}
		return c.next(old, o)
	})
}

// next makes the next version of an object of what the client wants.
func (c *call) next(was, o Object) (Object, error) {
	o, err := c.normal(o)
	if err != nil {
		return nil, err
	}
	have, want := text(was, "metadata", "resourceVersion"), text(o, "metadata", "resourceVersion")
	switch {
	case text(o, "metadata", "name") == "":
		return nil, apierrors.NewBadRequest("the name of the object was undeterminable: name must be provided")
	case want == "" && c.table.has(Conditional):
		return nil, c.invalid(field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"))
	case want != "" && want != have:
		return nil, apierrors.NewConflict(c.table.group(), c.Name,
			errors.New("the object has been modified; please apply your changes to the latest version and try again"))
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
	if generation, ok := old["generation"].(int64); ok && !sameSpec(was, o) {
		m["generation"] = generation + 1
	}
	return c.track(was, o), nil
}

// sameSpec reports whether the objects differ at most in metadata and status.
func sameSpec(a, b Object) bool {
	a, b = fork(a), fork(b)
	set(a, Object{}, "metadata", "status")
	set(b, Object{}, "metadata", "status")
	return reflect.DeepEqual(a, b)
}

// sameBut reports whether the objects differ at most in the times of their managed fields.
func sameBut(a, b Object) bool {
	before, after := list(a, "metadata", "managedFields"), list(b, "metadata", "managedFields")
	untimed := func(x, y any) bool {
		x, y = copied(x.(Object)), copied(y.(Object))
		delete(x.(Object), "time")
		delete(y.(Object), "time")
		return reflect.DeepEqual(x, y)
	}
	if len(before) > 0 && slices.EqualFunc(before, after, untimed) {
		b = fork(b)
		meta(b)["managedFields"] = before
	}
	return reflect.DeepEqual(a, b)
}

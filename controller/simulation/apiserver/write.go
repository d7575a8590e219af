package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// created stores a new object.
func (c *call) created(o Object) (answer, error) {
	if text(o, "metadata", "resourceVersion") != "" {
		return answer{}, errors.New("resourceVersion should not be set on objects to be created")
	}
	o, err := c.normal(o)
	if err != nil {
		return answer{}, err
	}
	m := meta(o)
	serial := c.server.next()
	if text(m, "name") == "" && text(m, "generateName") != "" {
		m["name"] = fmt.Sprintf("%s%05d", text(m, "generateName"), serial)
	}
	if c.Name != "" && text(m, "name") != c.Name { // an update or an apply that creates
		return answer{}, c.misnamed(text(m, "name"))
	}
	c.Name = text(m, "name")
	if c.table.has(Namespaced) {
		m["namespace"] = c.Namespace
		if err := c.inNamespace(); err != nil {
			return answer{}, err
		}
	}
	m["uid"] = fmt.Sprintf("00000000-0000-4000-8000-%012d", serial)
	m["creationTimestamp"] = now()
	for _, key := range []string{"deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"} {
		delete(m, key)
	}
	if c.table.has(Generation) {
		m["generation"] = int64(1)
	}
	c.initial(o)
	if o, err = c.admitted(nil, o); err != nil {
		return answer{}, err
	}
	if c.dryRun() {
		object, err := seal(o, c.key(), 0)
		return answer{code: http.StatusCreated, object: object}, err
	}
	stored, ok, err := c.put(nil, o)
	if err == nil && !ok {
		err = apierrors.NewAlreadyExists(c.table.resource(), c.Name)
	}
	return answer{code: http.StatusCreated, object: stored}, err
}

func (c *call) misnamed(name string) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, c.Name))
}

// next returns another number for a name or a UID.
func (s *Server) next() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	return s.serial
}

// inNamespace refuses creations in a namespace that is absent or ends.
func (c *call) inNamespace() error {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	switch ns := s.tables["namespaces"].objects["/"+c.Namespace]; {
	case ns == nil:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, c.Namespace)
	case at(ns.object, "metadata", "deletionTimestamp") != nil:
		err := apierrors.NewForbidden(c.table.resource(), c.Name,
			fmt.Errorf("unable to create new content in namespace %s because it is being terminated", c.Namespace))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "NamespaceTerminating", Field: "metadata.namespace",
			Message: fmt.Sprintf("namespace %s is being terminated", c.Namespace)}}
		return err
	}
	return nil
}

// initial sets what the server and its admission plugins set in a new object.
func (c *call) initial(o Object) {
	m, state := meta(o), Object(nil)
	switch c.table.Name {
	case "persistentvolumes":
		m["finalizers"] = with(list(m, "finalizers"), "kubernetes.io/pv-protection")
		state = Object{"phase": "Pending", "lastPhaseTransitionTime": m["creationTimestamp"]}
	case "persistentvolumeclaims":
		m["finalizers"] = with(list(m, "finalizers"), "kubernetes.io/pvc-protection")
		state = Object{"phase": "Pending"}
	case "namespaces":
		o["spec"] = Object{"finalizers": []any{"kubernetes"}}
		labels, _ := m["labels"].(Object)
		if labels == nil {
			labels = Object{}
			m["labels"] = labels
		}
		labels["kubernetes.io/metadata.name"] = m["name"]
		state = Object{"phase": "Active"}
	case "pods":
		state = Object{"phase": "Pending"}
	case "nodes":
		return // kubelets register with a status
	}
	switch {
	case state != nil:
		o["status"] = state
	case c.table.has(Status) && c.table.typ != nil:
		o["status"] = Object{}
	case c.table.has(Status):
		delete(o, "status")
	}
}

func with(l []any, s string) []any {
	if slices.Contains(l, any(s)) {
		return l
	}
	return append(slices.Clone(l), s)
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }

// normal converts an object of the client into the stored form, with defaults.
func (c *call) normal(o Object) (Object, error) {
	m := meta(o)
	if v, k := text(o, "apiVersion"), text(o, "kind"); v != "" && v != c.version || k != "" && k != c.table.Kind {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s, Kind=%s in the body of a request for %s, Kind=%s", v, k, c.version, c.table.Kind))
	}
	if ns := text(m, "namespace"); ns != "" && ns != c.Namespace {
		return nil, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if c.foreignEvent() {
		o = renamed(o, fromEventsV1)
	}
	o, err := c.table.normal(o)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	c.table.setDefaults(o)
	return o, nil
}

// update replaces the object.
func (c *call) update() (answer, error) {
	o, err := c.decode(c.body)
	if err != nil {
		return answer{}, err
	}
	if name := text(o, "metadata", "name"); name != c.Name {
		return answer{}, c.misnamed(name)
	}
	uid := text(o, "metadata", "uid")
	was, err := c.current()
	switch {
	case err != nil && uid != "" && c.table.has(Upsert) && c.Subresource == "":
		return answer{}, apierrors.NewConflict(c.table.resource(), c.Name,
			fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: ", uid)) //nolint:staticcheck // the real server's words
	case err != nil && c.table.has(Upsert) && c.Subresource == "":
		return c.created(c.track(nil, o))
	case err != nil:
		return answer{}, err
	}
	if is := text(was.object, "metadata", "uid"); uid != "" && uid != is {
		return answer{}, apierrors.NewConflict(c.table.resource(), c.Name,
			fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: %s", uid, is)) //nolint:staticcheck // the real server's words
	}
	return c.change(func(old Object) (Object, error) { return c.track(old, copied(o).(Object)), nil })
}

// change stores what modify makes of the object. It calls modify again if another client was faster.
func (c *call) change(modify func(old Object) (Object, error)) (answer, error) {
	for {
		was, err := c.current()
		if err != nil {
			return answer{}, err
		}
		next, err := modify(was.object)
		if err != nil {
			return answer{}, err
		}
		if next, err = c.normal(next); err != nil {
			return answer{}, err
		}
		if err := c.version409(was.object, next); err != nil {
			return answer{}, err
		}
		next = c.prepare(was.object, next)
		if next, err = c.admitted(was.object, next); err != nil {
			return answer{}, err
		}
		if sameBut(was.object, next) {
			return answer{code: http.StatusOK, object: was}, nil
		}
		if c.dryRun() {
			object, err := seal(next, c.key(), was.rv)
			return answer{code: http.StatusOK, object: object}, err
		}
		if changed, ok, err := c.put(was, next); ok || err != nil {
			return answer{code: http.StatusOK, object: changed}, err
		}
	}
}

// version409 refuses a write that is for another version of the object.
func (c *call) version409(was, next Object) error {
	have, want := text(was, "metadata", "resourceVersion"), text(next, "metadata", "resourceVersion")
	switch {
	case want == "" && c.table.has(Conditional):
		return apierrors.NewInvalid(schema.GroupKind{Group: c.table.gv.Group, Kind: c.table.Name}, c.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update")})
	case want != "" && want != have:
		return apierrors.NewConflict(c.table.resource(), c.Name,
			errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	}
	return nil
}

// prepare keeps the fields of the old object that the request may not change.
func (c *call) prepare(was, next Object) Object {
	switch {
	case c.Subresource == "status" && c.table.has(Custom):
		state, fields := next["status"], at(next, "metadata", "managedFields")
		rv := at(next, "metadata", "resourceVersion")
		next = copied(was).(Object)
		set(next, "status", state)
		set(meta(next), "managedFields", fields)
		set(meta(next), "resourceVersion", rv)
	case c.Subresource == "status":
		set(next, "spec", was["spec"])
	case c.table.has(Status):
		set(next, "status", was["status"])
	}
	old, m := meta(was), meta(next)
	for _, key := range []string{"uid", "name", "namespace", "resourceVersion"} {
		if m[key] == nil {
			set(m, key, old[key])
		}
	}
	set(m, "creationTimestamp", old["creationTimestamp"])
	set(m, "generation", old["generation"])
	if old["deletionTimestamp"] != nil {
		m["deletionTimestamp"] = old["deletionTimestamp"]
		set(m, "deletionGracePeriodSeconds", old["deletionGracePeriodSeconds"])
	}
	if generation, ok := old["generation"].(int64); ok && differs(was, next) {
		m["generation"] = generation + 1
	}
	return next
}

// differs reports whether more than metadata and status differs.
func differs(a, b Object) bool {
	for _, o := range []Object{a, b} {
		for key := range o {
			if key != "metadata" && key != "status" && !reflect.DeepEqual(a[key], b[key]) {
				return true
			}
		}
	}
	return false
}

// admitted asks the webhook, and validates the object, which the webhook may have replaced.
func (c *call) admitted(old, next Object) (Object, error) {
	if c.server.Admit != nil {
		w := c.write(old, next)
		if err := c.server.Admit(&w); err != nil {
			return nil, err
		}
		next = w.New
	}
	return next, c.validate(old, next)
}

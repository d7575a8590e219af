package apiserver

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// create stores a new object.
func (c *call) create(o Object) (answer, error) {
	m := meta(o)
	if rv := text(m, "resourceVersion"); rv != "" {
		return answer{}, fmt.Errorf("resourceVersion should not be set on objects to be created")
	}
	o, err := c.normal(o)
	if err != nil {
		return answer{}, err
	}
	m = meta(o)
	c.server.mu.Lock()
	c.server.serial++
	serial := c.server.serial
	c.server.mu.Unlock()
	if text(m, "name") == "" && text(m, "generateName") != "" {
		m["name"] = fmt.Sprintf("%s%05d", text(m, "generateName"), serial)
	}
	if c.Name != "" && text(m, "name") != c.Name { // an update that creates
		return answer{}, apierrors.NewBadRequest("the name of the object does not match the name on the URL")
	}
	c.Name = text(m, "name")
	if c.table.has(Namespaced) {
		m["namespace"] = c.Namespace
	}
	m["uid"] = fmt.Sprintf("00000000-0000-4000-8000-%012d", serial)
	m["creationTimestamp"] = now()
	for _, key := range []string{"resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"} {
		delete(m, key)
	}
	if c.table.has(Generation) {
		m["generation"] = int64(1)
	}
	c.initial(o)
	if err := c.admit(nil, o); err != nil {
		return answer{}, err
	}
	if c.dryRun() {
		return c.dry(o)
	}
	created, ok, err := c.put(nil, o)
	if err == nil && !ok {
		err = apierrors.NewAlreadyExists(c.table.resource(), c.Name)
	}
	return answer{code: http.StatusCreated, object: created}, err
}

// normal converts an object of the client into the stored form.
func (c *call) normal(o Object) (Object, error) {
	m := meta(o)
	if v, k := text(o, "apiVersion"), text(o, "kind"); v != "" && v != c.version || k != "" && k != c.table.Kind {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s, Kind=%s in a request for %s, Kind=%s", v, k, c.version, c.table.Kind))
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
	return o, nil
}

// update replaces the object.
func (c *call) update() (answer, error) {
	o, err := c.decode(c.body)
	if err != nil {
		return answer{}, err
	}
	if name := text(o, "metadata", "name"); name != c.Name {
		return answer{}, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, c.Name))
	}
	if _, err := c.current(); err != nil && c.table.has(Upsert) && c.Subresource == "" {
		return c.create(o)
	}
	if c.table.has(Conditional) && text(o, "metadata", "resourceVersion") == "" {
		return answer{}, c.invalid(field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"))
	}
	return c.change(func(Object) (Object, error) { return o, nil })
}

// change stores what make makes of the object. It calls make again if another client was faster.
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
		if err := c.precondition(was.object, text(next, "metadata", "uid"), text(next, "metadata", "resourceVersion")); err != nil {
			return answer{}, err
		}
		next = c.prepare(was.object, next)
		if err := c.admit(was.object, next); err != nil {
			return answer{}, err
		}
		if reflect.DeepEqual(was.object, next) {
			return answer{code: http.StatusOK, object: was}, nil
		}
		if c.dryRun() {
			return c.dry(next)
		}
		if changed, ok, err := c.put(was, next); ok || err != nil {
			return answer{code: http.StatusOK, object: changed}, err
		}
	}
}

// precondition refuses a write that is for another object or another version of it.
func (c *call) precondition(o Object, uid, rv string) error {
	if is := text(o, "metadata", "uid"); uid != "" && uid != is {
		return apierrors.NewConflict(c.table.resource(), c.Name,
			fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: %s", uid, is))
	}
	if is := text(o, "metadata", "resourceVersion"); rv != "" && rv != is {
		return apierrors.NewConflict(c.table.resource(), c.Name,
			fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	}
	return nil
}

// system are the fields of metadata that only the server writes.
var system = []string{"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "name", "namespace",
	"generation", "generateName", "selfLink"}

// prepare keeps the fields of the old object that the request may not change.
func (c *call) prepare(was, next Object) Object {
	old, m := meta(was), meta(next)
	switch {
	case c.Subresource == "status" && c.table.has(Custom):
		state := next["status"]
		next = runtime.DeepCopyJSON(was)
		set(next, "status", state)
		m = meta(next)
	case c.Subresource == "status":
		set(next, "spec", was["spec"])
	case c.table.has(Status):
		set(next, "status", was["status"])
	}
	for _, key := range system {
		set(m, key, old[key])
	}
	if c.table.has(Generation) && differs(was, next) {
		generation, _ := old["generation"].(int64)
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

// set sets a field, or removes it if value is nil.
func set(o Object, key string, value any) {
	if value == nil {
		delete(o, key)
	} else {
		o[key] = value
	}
}

// admit asks the webhook and validates.
func (c *call) admit(old, next Object) error {
	if c.server.Admit != nil {
		w := c.write(old, next)
		if err := c.server.Admit(&w); err != nil {
			return err
		}
	}
	return c.validate(old, next)
}

// dry answers a dry run.
func (c *call) dry(o Object) (answer, error) {
	code := http.StatusOK
	if c.Verb == "create" {
		code = http.StatusCreated
	}
	object, err := seal(o, c.key(), 0)
	return answer{code: code, object: object}, err
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }

// delete deletes the object, or marks it as deleted if finalizers or a grace period keep it.
func (c *call) delete() (answer, error) {
	var o metav1.DeleteOptions
	if len(c.body) > 0 {
		if err := decodeInto(c.body, &o); err != nil {
			return answer{}, err
		}
	}
	for {
		was, err := c.current()
		if err != nil {
			return answer{}, err
		}
		if err := c.deletable(was.object, o.Preconditions); err != nil {
			return answer{}, err
		}
		next := c.deleted(was.object, o)
		if next != nil && reflect.DeepEqual(next, was.object) {
			return answer{code: http.StatusOK, object: was}, nil
		}
		if err := c.admit(was.object, nil); err != nil {
			return answer{}, err
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

// deletable checks the preconditions of a deletion.
func (c *call) deletable(o Object, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	for key, want := range map[string]*string{"UID": (*string)(p.UID), "ResourceVersion": p.ResourceVersion} {
		is := text(o, "metadata", map[string]string{"UID": "uid", "ResourceVersion": "resourceVersion"}[key])
		if want != nil && *want != is {
			return apierrors.NewConflict(c.table.resource(), c.Name,
				fmt.Errorf("Precondition failed: %s in precondition: %s, %s in object meta: %s", key, *want, key, is))
		}
	}
	return nil
}

// deleted returns the object with the marks of a deletion, or nil if nothing keeps it.
func (c *call) deleted(was Object, o metav1.DeleteOptions) Object {
	next := fork(was)
	m := meta(next)
	grace := c.grace(was, o)
	if m["deletionTimestamp"] == nil {
		if generation, ok := m["generation"].(int64); ok {
			m["generation"] = generation + 1
		}
	} else if had, _ := m["deletionGracePeriodSeconds"].(int64); grace >= had {
		grace = had
		if had > 0 || !unheld(next) {
			return next
		}
	}
	if grace == 0 && len(list(m, "finalizers")) == 0 {
		return nil
	}
	m["deletionTimestamp"] = time.Now().UTC().Add(time.Duration(grace) * time.Second).Format(time.RFC3339)
	m["deletionGracePeriodSeconds"] = grace
	return next
}

// grace is the grace period of a deletion: only pods on a node have one.
func (c *call) grace(o Object, options metav1.DeleteOptions) int64 {
	phase := text(o, "status", "phase")
	if c.table.Name != "pods" || text(o, "spec", "nodeName") == "" || phase == "Succeeded" || phase == "Failed" {
		return 0
	}
	if options.GracePeriodSeconds != nil {
		return *options.GracePeriodSeconds
	}
	if grace, ok := at(o, "spec", "terminationGracePeriodSeconds").(int64); ok {
		return grace
	}
	return 30
}

// afterDelete answers with the object, or with a status if it is gone and of a kind that has that.
func (c *call) afterDelete(o *stored, kept bool) answer {
	if kept || c.table.has(ReturnsGone) {
		return answer{code: http.StatusOK, object: o}
	}
	return answer{code: http.StatusOK, other: metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: c.Name, Group: c.table.gv.Group, Kind: c.table.Name}}}
}

// initial sets what the server and its admission plugins set in a new object.
func (c *call) initial(o Object) {
	m := meta(o)
	switch c.table.Name {
	case "persistentvolumes":
		m["finalizers"] = with(list(m, "finalizers"), "kubernetes.io/pv-protection")
		o["status"] = Object{"phase": "Pending", "lastPhaseTransitionTime": m["creationTimestamp"]}
	case "persistentvolumeclaims":
		m["finalizers"] = with(list(m, "finalizers"), "kubernetes.io/pvc-protection")
		o["status"] = Object{"phase": "Pending"}
	case "namespaces":
		o["status"] = Object{"phase": "Active"}
	case "pods":
		o["status"] = Object{"phase": "Pending"}
	default:
		if c.table.has(Status) {
			delete(o, "status")
		}
	}
}

func with(l []any, s string) []any {
	if slices.Contains(l, any(s)) {
		return l
	}
	return append(slices.Clone(l), s)
}

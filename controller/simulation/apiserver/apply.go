package apiserver

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"
)

// untracked are the resources that are written all the time. They have managed fields from the first
// server-side apply on.
var untracked = map[string]bool{"nodes": true, "pods": true, "persistentvolumes": true, "persistentvolumeclaims": true,
	"events": true, "leases": true}

// builtinTypes knows Kubernetes' own kinds. It reads their schemas when it is first needed.
var builtinTypes = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(scheme.Scheme) })

// apply is a server-side apply.
func (c *call) apply() (answer, error) {
	if c.query.Get("fieldManager") == "" {
		errs := field.ErrorList{field.Required(field.NewPath("fieldManager"), "is required for apply patch")}
		return answer{}, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "PatchOptions"}, "", errs)
	}
	body, err := yaml.YAMLToJSON(c.body)
	if err != nil {
		return answer{}, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	want, err := c.decode(body)
	if err != nil {
		return answer{}, err
	}
	if at(want, "metadata", "managedFields") != nil {
		return answer{}, apierrors.NewBadRequest("metadata.managedFields must be nil")
	}
	if _, err := c.current(); apierrors.IsNotFound(err) && c.Subresource == "" {
		if uid := text(want, "metadata", "uid"); uid != "" {
			return answer{}, apierrors.NewConflict(c.table.resource(), c.Name,
				fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
		}
		o, err := c.merged(Object{}, want)
		if err != nil {
			return answer{}, err
		}
		return c.created(o)
	}
	return c.change(func(old Object) (Object, error) { return c.merged(old, want) })
}

// merged is what a server-side apply makes of an object, which may be empty.
func (c *call) merged(old, want Object) (Object, error) {
	fields, err := c.fieldManager()
	if err != nil {
		return nil, err
	}
	live := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(old)}
	live.SetGroupVersionKind(c.gvk())
	o, err := fields.Apply(live, &unstructured.Unstructured{Object: runtime.DeepCopyJSON(want)}, c.query.Get("fieldManager"),
		c.query.Get("force") == "true")
	if err != nil {
		return nil, err
	}
	return o.(*unstructured.Unstructured).Object, nil
}

// track returns the object with the managed fields of a write that is no server-side apply.
func (c *call) track(old, next Object) Object {
	if old == nil {
		old = Object{"metadata": Object{}}
	}
	if untracked[c.table.Name] && at(old, "metadata", "managedFields") == nil {
		delete(meta(next), "managedFields")
		return next
	}
	fields, err := c.fieldManager()
	if err != nil {
		return next
	}
	live := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(old)}
	live.SetGroupVersionKind(c.gvk())
	manager := c.query.Get("fieldManager")
	if manager == "" {
		manager, _, _ = strings.Cut(c.Who, "/")
	}
	tracked := fields.UpdateNoErrors(live, &unstructured.Unstructured{Object: next}, manager)
	return tracked.(*unstructured.Unstructured).Object
}

// sameBut reports whether the objects differ at most in the times of their managed fields.
func sameBut(a, b Object) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	before, after := list(a, "metadata", "managedFields"), list(b, "metadata", "managedFields")
	if len(before) == 0 || len(before) != len(after) {
		return false
	}
	for i := range before {
		x, y := fork(before[i].(Object)), fork(after[i].(Object))
		delete(x, "time")
		delete(y, "time")
		if !reflect.DeepEqual(x, y) {
			return false
		}
	}
	b = fork(b)
	meta(b)["managedFields"] = before
	return reflect.DeepEqual(a, b)
}

// fieldManager returns the manager of the fields of a table or its subresource.
func (c *call) fieldManager() (*managedfields.FieldManager, error) {
	t := c.table
	t.fields.Lock()
	defer t.fields.Unlock()
	if f := t.managers[c.Subresource]; f != nil {
		return f, nil
	}
	gvk := t.gv.WithKind(t.Kind)
	reset := map[fieldpath.APIVersion]fieldpath.Filter{}
	switch {
	case c.Subresource == "status":
		reset[fieldpath.APIVersion(t.Version)] = fieldpath.NewExcludeSetFilter(fieldpath.NewSet(fieldpath.MakePathOrDie("spec")))
	case t.has(Status):
		reset[fieldpath.APIVersion(t.Version)] = fieldpath.NewExcludeSetFilter(fieldpath.NewSet(fieldpath.MakePathOrDie("status")))
	}
	var f *managedfields.FieldManager
	var err error
	if t.typ == nil {
		f, err = managedfields.NewDefaultCRDFieldManager(managedfields.NewDeducedTypeConverter(), asIs{}, asIs{}, asIs{}, gvk, t.gv, c.Subresource, reset)
	} else {
		f, err = managedfields.NewDefaultFieldManager(builtinTypes(), asIs{}, asIs{}, asIs{}, gvk, t.gv, c.Subresource, reset)
	}
	if err == nil {
		t.managers[c.Subresource] = f
	}
	return f, err
}

// asIs converts and defaults nothing: the server has one version of each object.
type asIs struct{}

// Convert implements runtime.ObjectConvertor.
func (asIs) Convert(_, _, _ any) error { return fmt.Errorf("the server converts no objects") }

// ConvertToVersion implements runtime.ObjectConvertor.
func (asIs) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

// ConvertFieldLabel implements runtime.ObjectConvertor.
func (asIs) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// Default implements runtime.ObjectDefaulter.
func (asIs) Default(runtime.Object) {}

// New implements runtime.ObjectCreater.
func (asIs) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gvk)
	return o, nil
}

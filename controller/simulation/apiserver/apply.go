package apiserver

import (
	"fmt"
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
	want, err := decode(body)
	if err != nil {
		return answer{}, err
	}
	c.applies = true
	return c.commit(func(old Object) (Object, error) {
		uid := text(want, "metadata", "uid")
		switch {
		case old == nil && c.Subresource != "":
			return nil, apierrors.NewNotFound(c.table.group(), c.Name)
		case old == nil && uid != "":
			return nil, apierrors.NewConflict(c.table.group(), c.Name,
				fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
		}
		next, err := c.merged(old, want)
		if err == nil && old == nil {
			return c.fresh(next)
		} else if err == nil {
			return c.next(old, next)
		}
		return nil, err
	})
}

// merged is what a server-side apply makes of an object, nil for none.
func (c *call) merged(old, want Object) (Object, error) {
	fields, err := c.fieldManager()
	if err != nil {
		return nil, err
	}
	o, err := fields.Apply(c.live(old), &unstructured.Unstructured{Object: copied(want)}, c.query.Get("fieldManager"), c.query.Get("force") == "true")
	if err != nil {
		return nil, err
	}
	return o.(*unstructured.Unstructured).Object, nil
}

// track returns the object with the managed fields of a write. Those of a server-side apply are there.
func (c *call) track(old, next Object) Object {
	if c.applies {
		return next
	}
	if untracked[c.table.Name] && len(list(old, "metadata", "managedFields")) == 0 {
		delete(meta(next), "managedFields")
		return next
	}
	fields, err := c.fieldManager()
	if err != nil {
		return next
	}
	manager := c.query.Get("fieldManager")
	if manager == "" {
		manager, _, _ = strings.Cut(c.Who, "/")
	}
	return fields.UpdateNoErrors(c.live(old), &unstructured.Unstructured{Object: next}, manager).(*unstructured.Unstructured).Object
}

// live returns a copy of the stored object, which is empty if there is none.
func (c *call) live(old Object) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: copied(old)}
	if old == nil {
		o.Object = Object{}
	}
	o.SetGroupVersionKind(c.table.gvk())
	return o
}

// fieldManager returns the manager of the fields of a table or its subresource.
func (c *call) fieldManager() (*managedfields.FieldManager, error) {
	t := c.table
	t.fields.Lock()
	defer t.fields.Unlock()
	if f := t.managers[c.Subresource]; f != nil {
		return f, nil
	}
	gvk := t.gvk()
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
		f, err = managedfields.NewDefaultCRDFieldManager(managedfields.NewDeducedTypeConverter(), asIs{}, asIs{}, asIs{}, gvk, gvk.GroupVersion(), c.Subresource, reset)
	} else {
		f, err = managedfields.NewDefaultFieldManager(builtinTypes(), asIs{}, asIs{}, asIs{}, gvk, gvk.GroupVersion(), c.Subresource, reset)
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

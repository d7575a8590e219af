package apiserver

import (
	"errors"
	"net/http"
	"strings"
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/applyconfigurations"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"
)

// patch changes the object by one of the kinds of patches.
func (c *call) patch() (answer, error) {
	content, _, _ := strings.Cut(c.req.Header.Get("Content-Type"), ";")
	kind := types.PatchType(content)
	patched := map[types.PatchType]func(o, patch []byte) ([]byte, error){types.MergePatchType: jsonpatch.MergePatch,
		types.JSONPatchType: inSteps, types.StrategicMergePatchType: c.strategic}[kind]
	switch {
	case kind == types.ApplyYAMLPatchType:
		return c.apply()
	case patched == nil || kind == types.StrategicMergePatchType && c.table.has(Custom):
		return answer{}, c.failure(http.StatusUnsupportedMediaType)
	}
	return c.commit(func(old Object) (Object, error) {
		if old == nil {
			return nil, c.notFound()
		}
		after, err := patched(encode(c.convert(old, false)), c.body)
		if err == nil {
			var next Object
			if next, err = decode(after); err == nil {
				return c.next(old, next)
			}
		}
		if !errors.As(err, new(apierrors.APIStatus)) {
			err = bad("%v", err)
		}
		return nil, err
	})
}

// strategic applies a strategic merge patch.
func (c *call) strategic(o, patch []byte) ([]byte, error) {
	like, err := kinds().New(schema.FromAPIVersionAndKind(c.version, c.table.Kind))
	if err != nil {
		return nil, err
	}
	return strategicpatch.StrategicMergePatch(o, patch, like)
}

// inSteps applies a JSON patch.
func inSteps(o, patch []byte) ([]byte, error) {
	steps, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	if o, err = steps.Apply(o); err != nil {
		return nil, apierrors.NewGenericServerResponse(422, "", schema.GroupResource{}, "", err.Error(), 0, false)
	}
	return o, nil
}

// untracked are the resources that are written all the time. They have managed fields from their first
// server-side apply on.
const untracked = " nodes pods persistentvolumes persistentvolumeclaims events leases "

// builtinTypes knows Kubernetes' own kinds. It reads their schemas when it is first needed.
var builtinTypes = sync.OnceValue(func() managedfields.TypeConverter {
	return applyconfigurations.NewTypeConverter(kinds())
})

// apply is a server-side apply.
func (c *call) apply() (answer, error) {
	manager, force := c.query.Get("fieldManager"), c.query.Get("force") == "true"
	if manager == "" {
		errs := field.ErrorList{field.Required(field.NewPath("fieldManager"), "is required for apply patch")}
		return answer{}, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "PatchOptions"}, "", errs)
	}
	body, err := yaml.YAMLToJSON(c.body)
	if err != nil {
		return answer{}, bad("error decoding YAML: %v", err)
	}
	want, err := decode(body)
	if err != nil {
		return answer{}, err
	}
	fields, err := c.fieldManager()
	if err != nil {
		return answer{}, err
	}
	c.applies = true
	return c.commit(func(old Object) (Object, error) {
		uid := text(want, "metadata.uid")
		if old == nil && c.Subresource != "" {
			return nil, c.notFound()
		}
		if old == nil && uid != "" {
			return nil, c.conflict("uid mismatch: the provided object specified uid %s, and no existing object was found", uid)
		}
		o, err := fields.Apply(c.live(old), &unstructured.Unstructured{Object: copied(want)}, manager, force)
		if err != nil {
			return nil, err
		}
		return c.next(old, o.(*unstructured.Unstructured).Object)
	})
}

// track returns the object with the managed fields of a write. Those of a server-side apply are there.
func (c *call) track(old, next Object) Object {
	if c.applies {
		return next
	}
	if strings.Contains(untracked, " "+c.table.Name+" ") && len(list(old, "metadata.managedFields")) == 0 {
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
	o := fields.UpdateNoErrors(c.live(old), &unstructured.Unstructured{Object: next}, manager)
	return o.(*unstructured.Unstructured).Object
}

// live returns a copy of the stored object, which is empty if there is none.
func (c *call) live(old Object) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: Object{}}
	if old != nil {
		o.Object = copied(old)
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
	kept, gvk := "status", t.gvk()
	if c.Subresource == "status" {
		kept = "spec"
	}
	keep := map[fieldpath.APIVersion]fieldpath.Filter{}
	if t.has(Status) {
		keep[fieldpath.APIVersion(t.Version)] = fieldpath.NewExcludeSetFilter(fieldpath.NewSet(fieldpath.MakePathOrDie(kept)))
	}
	create, types := managedfields.NewDefaultFieldManager, builtinTypes
	if t.has(Custom) {
		create, types = managedfields.NewDefaultCRDFieldManager, managedfields.NewDeducedTypeConverter
	}
	f, err := create(types(), asIs{}, asIs{}, asIs{}, gvk, gvk.GroupVersion(), c.Subresource, keep)
	t.managers[c.Subresource] = f
	return f, err
}

// asIs converts and defaults nothing: the server stores one version of each object.
type asIs struct{ runtime.ObjectConvertor }

// ConvertToVersion implements runtime.ObjectConvertor.
func (asIs) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

// Default implements runtime.ObjectDefaulter.
func (asIs) Default(runtime.Object) {}

// New implements runtime.ObjectCreater.
func (asIs) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gvk)
	return o, nil
}

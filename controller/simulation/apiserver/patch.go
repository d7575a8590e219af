package apiserver

import (
	"encoding/json"
	"net/http"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

// patch changes the object by one of the kinds of patches.
func (c *call) patch() (answer, error) {
	content, _, _ := strings.Cut(c.req.Header.Get("Content-Type"), ";")
	var patched func(o Object) (Object, error)
	var err error
	switch types.PatchType(content) {
	case types.ApplyYAMLPatchType:
		return c.apply()
	case types.MergePatchType:
		var patch Object
		patch, err = decode(c.body)
		patched = func(o Object) (Object, error) { mergeInto(o, copied(patch)); return o, nil }
	case types.StrategicMergePatchType:
		var patch Object
		patch, err = decode(c.body)
		patched = func(o Object) (Object, error) { return c.strategic(o, copied(patch)) }
	case types.JSONPatchType:
		var steps jsonpatch.Patch
		steps, err = jsonpatch.DecodePatch(c.body)
		patched = func(o Object) (Object, error) { return inSteps(o, steps) }
	}
	if err != nil {
		return answer{}, apierrors.NewBadRequest(err.Error())
	}
	if patched == nil || types.PatchType(content) == types.StrategicMergePatchType && c.table.typ == nil {
		return answer{}, c.failure(http.StatusUnsupportedMediaType)
	}
	return c.commit(func(old Object) (Object, error) {
		if old == nil {
			return nil, apierrors.NewNotFound(c.table.group(), c.Name)
		}
		next, err := patched(c.toClient(copied(old)))
		if err != nil {
			return nil, err
		}
		return c.next(old, next)
	})
}

// mergeInto is RFC 7396.
func mergeInto(o, patch Object) {
	for key, value := range patch {
		p, isObject := value.(Object)
		switch {
		case value == nil:
			delete(o, key)
		case isObject:
			in := at[Object](o, key)
			if in == nil {
				in = Object{}
			}
			mergeInto(in, p)
			o[key] = in
		default:
			o[key] = value
		}
	}
}

// strategic applies a strategic merge patch.
func (c *call) strategic(o, patch Object) (Object, error) {
	like, err := scheme.Scheme.New(schema.FromAPIVersionAndKind(c.version, c.table.Kind))
	if err != nil {
		return nil, err
	}
	next, err := strategicpatch.StrategicMergeMapPatch(o, patch, like)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return next, nil
}

// inSteps applies a JSON patch.
func inSteps(o Object, steps jsonpatch.Patch) (Object, error) {
	before, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	after, err := steps.Apply(before)
	if err != nil {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
	}
	return decode(after)
}

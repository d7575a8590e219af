package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

// decodeInto decodes JSON into a value.
func decodeInto(body []byte, into any) error {
	if err := utiljson.Unmarshal(body, into); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// patch changes the object by one of the kinds of patches.
func (c *call) patch() (answer, error) {
	switch types.PatchType(c.content) {
	case types.MergePatchType, types.StrategicMergePatchType:
		patch, err := c.decode(c.body)
		if err != nil {
			return answer{}, err
		}
		return c.change(func(old Object) (Object, error) { return c.patched(old)(c.merge(old, patch)) })
	case types.JSONPatchType:
		var steps []step
		if err := decodeInto(c.body, &steps); err != nil {
			return answer{}, err
		}
		return c.change(func(old Object) (Object, error) { return c.patched(old)(c.applySteps(old, steps)) })
	case types.ApplyYAMLPatchType:
		return c.apply()
	}
	return answer{}, unsupported(c.content)
}

// patched tracks the fields of a patched object.
func (c *call) patched(old Object) func(Object, error) (Object, error) {
	return func(next Object, err error) (Object, error) {
		if err != nil {
			return nil, err
		}
		return c.track(old, next), nil
	}
}

func unsupported(content string) error {
	return &apierrors.StatusError{ErrStatus: apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "", schemaResource(&call{}), "",
		"the body of the request was in an unknown format: "+content, 0, true).ErrStatus}
}

// own returns a copy of the object in the client's version, which a patch may change.
func (c *call) own(o Object) Object {
	o = runtime.DeepCopyJSON(o)
	if c.foreignEvent() {
		o = renamed(o, toEventsV1)
		o["apiVersion"] = c.version
	}
	return o
}

// merge applies a merge patch or a strategic merge patch.
func (c *call) merge(old, patch Object) (Object, error) {
	old, patch = c.own(old), runtime.DeepCopyJSON(patch)
	if types.PatchType(c.content) == types.MergePatchType {
		mergeInto(old, patch)
		return old, nil
	}
	if c.table.typ == nil {
		return nil, unsupported(c.content)
	}
	like, err := scheme.Scheme.New(c.gvk())
	if err != nil {
		return nil, err
	}
	merged, err := strategicpatch.StrategicMergeMapPatch(old, patch, like)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return merged, nil
}

// mergeInto is RFC 7396.
func mergeInto(o, patch Object) {
	for key, value := range patch {
		p, isObject := value.(Object)
		switch {
		case value == nil:
			delete(o, key)
		case isObject:
			in, _ := o[key].(Object)
			if in == nil {
				in = Object{}
				o[key] = in
			}
			mergeInto(in, p)
		default:
			o[key] = value
		}
	}
}

// step is an operation of RFC 6902.
type step struct {
	Op, Path, From string
	Value          any
}

// applySteps applies a JSON patch.
func (c *call) applySteps(old Object, steps []step) (Object, error) {
	doc := c.own(old)
	for _, s := range steps {
		if err := s.apply(doc); err != nil {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch", c.table.resource(), c.Name, err.Error(), 0, true)
		}
	}
	return doc, nil
}

func (s step) apply(doc Object) error {
	parts := strings.Split(s.Path, "/")
	if len(parts) < 2 || parts[0] != "" {
		return fmt.Errorf("path %q is not supported", s.Path)
	}
	for i, part := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
	}
	_, err := s.in(doc, parts[1:])
	return err
}

// in applies the operation to what is at the path in v, and returns the new v.
func (s step) in(v any, path []string) (any, error) {
	key, last := path[0], len(path) == 1
	switch in := v.(type) {
	case Object:
		have, ok := in[key]
		if !ok && (!last || s.Op != "add") {
			return v, fmt.Errorf("%s operation does not apply: doc is missing path: %q: missing value", s.Op, s.Path)
		}
		if !last {
			next, err := s.in(have, path[1:])
			in[key] = next
			return in, err
		}
		return in, s.leaf(have, func() { in[key] = s.Value }, func() { delete(in, key) })
	case []any:
		i, err := strconv.Atoi(key)
		if key == "-" {
			i, err = len(in), nil
		}
		add := last && s.Op == "add"
		if err != nil || i < 0 || i > len(in) || i == len(in) && !add {
			return v, fmt.Errorf("%s operation does not apply: doc is missing path: %q: missing value", s.Op, s.Path)
		}
		switch {
		case add:
			return slices.Insert(in, i, s.Value), nil
		case last:
			err := s.leaf(in[i], func() { in[i] = s.Value }, func() { in = slices.Delete(in, i, i+1) })
			return in, err
		}
		next, err := s.in(in[i], path[1:])
		in[i] = next
		return in, err
	}
	return v, fmt.Errorf("%s operation does not apply: doc is missing path: %q: missing value", s.Op, s.Path)
}

// leaf does the operation at the end of its path.
func (s step) leaf(have any, set, remove func()) error {
	switch s.Op {
	case "add", "replace":
		set()
	case "remove":
		remove()
	case "test":
		if string(mustMarshal(have)) != string(mustMarshal(s.Value)) {
			return fmt.Errorf("testing value %s failed: test failed", s.Path)
		}
	default:
		return fmt.Errorf("operation %q is not supported", s.Op)
	}
	return nil
}

package apiserver

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// fork returns a copy of which the top and the metadata may change.
func fork(o Object) Object {
	o = maps.Clone(o)
	o["metadata"] = maps.Clone(meta(o))
	return o
}

// copied returns a deep copy.
func copied(o Object) Object { return runtime.DeepCopyJSON(o) }

// meta returns the metadata, which it adds if there is none.
func meta(o Object) Object {
	m, _ := o["metadata"].(Object)
	if m == nil {
		m = Object{}
		o["metadata"] = m
	}
	return m
}

// at returns the value at a path of fields, or the zero value.
func at[T any](o Object, path ...string) T {
	var v any = o
	for _, field := range path {
		in, _ := v.(Object)
		v = in[field]
	}
	t, _ := v.(T)
	return t
}

func text(o Object, path ...string) string { return at[string](o, path...) }

func number(o Object, path ...string) int64 { return at[int64](o, path...) }

func list(o Object, path ...string) []any { return at[[]any](o, path...) }

// set sets fields as the other object has them, or removes them if it does not.
func set(o, as Object, keys ...string) {
	for _, key := range keys {
		if value, ok := as[key]; ok {
			o[key] = value
		} else {
			delete(o, key)
		}
	}
}

// with returns the list with one more finalizer.
func with(l []any, finalizer string) []any {
	if slices.Contains(l, any(finalizer)) {
		return l
	}
	return append(slices.Clone(l), finalizer)
}

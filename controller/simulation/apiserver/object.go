package apiserver

import (
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// fork returns a copy of which the top and the metadata may change.
func fork(o Object) Object {
	o = maps.Clone(o)
	m, _ := o["metadata"].(Object)
	o["metadata"] = maps.Clone(m)
	return o
}

// copied returns a deep copy of a JSON value.
func copied(v any) any { return runtime.DeepCopyJSONValue(v) }

// meta returns the metadata, which it adds if there is none.
func meta(o Object) Object {
	m, _ := o["metadata"].(Object)
	if m == nil {
		m = Object{}
		o["metadata"] = m
	}
	return m
}

// meta returns the metadata as its Go type.
func (o *stored) meta() (m metav1.ObjectMeta) {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(meta(o.object), &m); err != nil {
		panic(err) // it was converted before
	}
	return m
}

// toObject converts a Go value into JSON.
func toObject(v any) (Object, error) { return runtime.DefaultUnstructuredConverter.ToUnstructured(v) }

// at returns what is at a path of fields, or nil.
func at(o Object, path ...string) any {
	var v any = o
	for _, field := range path {
		in, _ := v.(Object)
		v = in[field]
	}
	return v
}

func text(o Object, path ...string) string {
	s, _ := at(o, path...).(string)
	return s
}

func number(o Object, path ...string) int64 {
	n, _ := at(o, path...).(int64)
	return n
}

func list(o Object, path ...string) []any {
	l, _ := at(o, path...).([]any)
	return l
}

// set sets a field, or removes it if value is nil.
func set(o Object, key string, value any) {
	if value == nil {
		delete(o, key)
	} else {
		o[key] = value
	}
}

func namespaceOf(key string) string {
	ns, _, _ := strings.Cut(key, "/")
	return ns
}

package apiserver

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/kubernetes/scheme"
)

// history is how many changes of a resource the server remembers at least.
const history = 10_000

// maxObject is the size of the largest object that etcd stores.
const maxObject = 3 << 19

// stored is one version of an object. It never changes.
type stored struct {
	object  Object
	body    []byte // its JSON without apiVersion and kind
	ns, key string
}

// change is one write. old is nil after a creation, new after a removal; gone is the removed object
// with the resource version of its removal.
type change struct {
	rv             int64
	at             time.Time
	old, new, gone *stored
}

// table has the objects of one resource, and their history. The server's lock guards it.
type table struct {
	Resource
	typ     reflect.Type // of the Go type; nil for custom resources
	objects map[string]*stored
	keys    []string // sorted
	log     []change
	lost    int64         // the resource version of the last change that left the log
	wake    chan struct{} // closed at each change

	fields   sync.Mutex                             // held only while a manager is made
	managers map[string]*managedfields.FieldManager // by subresource
}

// kinds are Kubernetes' own. The scheme that client-go's clients share would do, but libraries add to
// it without a lock.
var kinds = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := scheme.AddToScheme(s); err != nil {
		panic(err) // the program is wrong
	}
	return s
})

func newTable(r Resource) *table {
	t := &table{Resource: r, objects: map[string]*stored{}, wake: make(chan struct{})}
	t.managers = map[string]*managedfields.FieldManager{}
	if !r.has(Custom) {
		t.typ = kinds().AllKnownTypes()[r.gvk()]
	}
	return t
}

// all returns the objects by namespace and name.
func (t *table) all() []*stored {
	all := make([]*stored, 0, len(t.keys))
	for _, key := range t.keys {
		all = append(all, t.objects[key])
	}
	return all
}

// seal encodes an object, which must not change from then on.
func (c *call) seal(o Object) *stored {
	return &stored{object: o, body: body(o), ns: c.Namespace, key: c.key()}
}

// put stores next in the place of old; nil is none. It returns nil, and does nothing, if there is
// another object by now.
func (c *call) put(old *stored, next Object) (*stored, error) {
	s, t := c.server, c.table
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.objects[c.key()] != old {
		return nil, nil
	}
	w := c.write(old, next)
	gone := next == nil || unheld(next)
	if next == nil {
		next = fork(w.Old)
	}
	ch := change{rv: s.rv + 1, at: time.Now(), old: old}
	meta(next)["resourceVersion"] = strconv.FormatInt(ch.rv, 10)
	o := c.seal(next)
	if len(o.body) > maxObject {
		return nil, errors.New("etcdserver: request is too large")
	}
	if gone {
		ch.gone, w.New = o, nil
	} else {
		ch.new = o
	}
	s.rv = ch.rv
	t.apply(c.key(), ch)
	if s.Seen != nil {
		s.Seen(w)
	}
	return o, nil
}

// write describes a change that the request makes.
func (c *call) write(old *stored, next Object) Write {
	w := Write{c.Who, c.Verb, c.Resource, c.Namespace, c.Name, c.Subresource, nil, next}
	if old != nil {
		w.Old = old.object
	}
	return w
}

// apply makes the change part of the table.
func (t *table) apply(key string, ch change) {
	at, found := slices.BinarySearch(t.keys, key)
	switch {
	case ch.new == nil:
		delete(t.objects, key)
		t.keys = slices.Delete(t.keys, at, at+1)
	case !found:
		t.keys = slices.Insert(t.keys, at, key)
		fallthrough
	default:
		t.objects[key] = ch.new
	}
	if t.log = append(t.log, ch); len(t.log) > 2*history {
		t.lost, t.log = t.log[history-1].rv, slices.Clone(t.log[history:])
	}
	close(t.wake)
	t.wake = make(chan struct{})
}

// unheld reports whether nothing keeps an object that was deleted.
func unheld(o Object) bool {
	return text(o, "metadata.deletionTimestamp") != "" && number(o, "metadata.deletionGracePeriodSeconds") == 0 && !held(o)
}

// held reports whether the object has a finalizer. Namespaces also have them in their spec.
func held(o Object) bool {
	return len(list(o, "metadata.finalizers"))+len(list(o, "spec.finalizers")) > 0
}

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

// at returns the value at a path such as metadata.name, or the zero value.
func at[T any](o Object, path string) T {
	var v any = o
	for field := range strings.SplitSeq(path, ".") {
		in, _ := v.(Object)
		v = in[field]
	}
	t, _ := v.(T)
	return t
}

func text(o Object, path string) string { return at[string](o, path) }

func number(o Object, path string) int64 { return at[int64](o, path) }

func list(o Object, path string) []any { return at[[]any](o, path) }

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

// finalize adds a finalizer.
func finalize(m Object, finalizer string) {
	if l := list(m, "finalizers"); !slices.Contains(l, any(finalizer)) {
		m["finalizers"] = append(slices.Clone(l), finalizer)
	}
}

package apiserver

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/kubernetes/scheme"
)

// history is how many changes of a resource the server remembers at least.
const history = 10_000

// maxObject is the size of an object that etcd refuses.
const maxObject = 3 << 19

// stored is one version of an object. It never changes.
type stored struct {
	object  Object
	body    []byte // its JSON without apiVersion and kind, which lists leave out
	rv      int64
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

func newTable(r Resource) *table {
	t := &table{Resource: r, objects: map[string]*stored{}, wake: make(chan struct{}), managers: map[string]*managedfields.FieldManager{}}
	if !r.has(Custom) {
		t.typ = scheme.Scheme.AllKnownTypes()[r.gvk()]
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

// normal returns the object as the server stores it: a copy without unknown fields.
func (t *table) normal(o Object) (Object, error) {
	if t.typ == nil {
		o = runtime.DeepCopyJSON(o)
	} else {
		typed := reflect.New(t.typ).Interface()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o, typed); err != nil {
			return nil, err
		}
		var err error
		if o, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed); err != nil {
			return nil, err
		}
	}
	o["apiVersion"], o["kind"] = t.Version, t.Kind
	t.setDefaults(o)
	return o, nil
}

// seal encodes an object, which must not change from then on.
func (c *call) seal(o Object, rv int64) (*stored, error) {
	rest := maps.Clone(o)
	delete(rest, "apiVersion")
	delete(rest, "kind")
	body, err := json.Marshal(rest)
	return &stored{object: o, body: body, rv: rv, ns: text(o, "metadata", "namespace"), key: c.key()}, err
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
	w := Write{c.Who, c.Verb, c.Resource, c.Namespace, c.Name, c.Subresource, nil, next}
	if old != nil {
		w.Old = old.object
	}
	gone := next == nil || unheld(next)
	if next == nil {
		next = fork(w.Old)
	}
	ch := change{rv: s.rv + 1, at: time.Now(), old: old}
	meta(next)["resourceVersion"] = strconv.FormatInt(ch.rv, 10)
	o, err := c.seal(next, ch.rv)
	if err == nil && len(o.body) > maxObject {
		err = errors.New("etcdserver: request is too large")
	}
	if err != nil {
		return nil, err
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

// apply makes the change part of the table.
func (t *table) apply(key string, ch change) {
	at, found := slices.BinarySearch(t.keys, key)
	switch {
	case ch.new == nil && found:
		delete(t.objects, key)
		t.keys = slices.Delete(t.keys, at, at+1)
	case ch.new != nil:
		t.objects[key] = ch.new
		if !found {
			t.keys = slices.Insert(t.keys, at, key)
		}
	}
	if t.log = append(t.log, ch); len(t.log) > 2*history {
		t.lost, t.log = t.log[history-1].rv, slices.Clone(t.log[history:])
	}
	close(t.wake)
	t.wake = make(chan struct{})
}

// unheld reports whether nothing keeps an object that was deleted: no grace period and no finalizer,
// which namespaces also have in their spec.
func unheld(o Object) bool {
	return text(o, "metadata", "deletionTimestamp") != "" && number(o, "metadata", "deletionGracePeriodSeconds") == 0 && !held(o)
}

// held reports whether the object has a finalizer.
func held(o Object) bool {
	return len(list(o, "metadata", "finalizers"))+len(list(o, "spec", "finalizers")) > 0
}

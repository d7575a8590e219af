package apiserver

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/kubernetes/scheme"
)

// history is how many changes of a resource the server remembers at least.
const history = 10_000

// stored is one version of an object. It never changes.
type stored struct {
	object Object
	// body is the object's JSON without apiVersion and kind, which lists leave out.
	body    []byte
	rv      int64
	ns, key string
}

// change is one write. old is nil after a creation, new after a removal.
type change struct {
	rv       int64
	at       time.Time
	old, new *stored
	// gone is the last version of an object that was removed, with the resource version of that.
	gone *stored
}

// table has the objects of one resource and their history. The server's lock guards it.
type table struct {
	Resource
	gv      schema.GroupVersion
	typ     reflect.Type // of the Go type; nil for custom resources
	objects map[string]*stored
	keys    []string // sorted
	log     []change
	lost    int64         // the resource version of the last change that is no longer in the log
	wake    chan struct{} // closed at each change

	fields   sync.Mutex                             // held only while a manager is made
	managers map[string]*managedfields.FieldManager // by subresource
}

func newTable(r Resource, gv schema.GroupVersion) *table {
	t := &table{Resource: r, gv: gv, objects: map[string]*stored{}, wake: make(chan struct{}), managers: map[string]*managedfields.FieldManager{}}
	if r.Traits&Custom == 0 {
		t.typ = scheme.Scheme.AllKnownTypes()[gv.WithKind(r.Kind)]
	}
	return t
}

func (t *table) has(traits Traits) bool { return t.Traits&traits == traits }

func (t *table) resource() schema.GroupResource { return t.gv.WithResource(t.Name).GroupResource() }

func (t *table) kind() schema.GroupKind { return t.gv.WithKind(t.Kind).GroupKind() }

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
	meta(o)
	return o, nil
}

// seal encodes an object, which must not change from then on.
func seal(o Object, key string, rv int64) (*stored, error) {
	rest := maps.Clone(o)
	delete(rest, "apiVersion")
	delete(rest, "kind")
	body, err := json.Marshal(rest)
	return &stored{object: o, body: body, rv: rv, key: key, ns: namespaceOf(key)}, err
}

// withVersion returns a copy of the object with another resource version.
func (o *stored) withVersion(rv int64) *stored {
	object := fork(o.object)
	meta(object)["resourceVersion"] = strconv.FormatInt(rv, 10)
	next, err := seal(object, o.key, rv)
	if err != nil {
		panic(err) // it was encoded before
	}
	return next
}

// put stores next in the place of old, which may both be nil. It returns false, and does nothing, if
// there is another object by now.
func (c *call) put(old *stored, next Object) (*stored, bool, error) {
	s, t, key := c.server, c.table, c.key()
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.objects[key] != old {
		return nil, false, nil
	}
	ch := change{rv: s.rv + 1, at: time.Now(), old: old}
	w := c.write(nil, next)
	if old != nil {
		w.Old = old.object
	}
	var answer *stored
	if next != nil {
		meta(next)["resourceVersion"] = strconv.FormatInt(ch.rv, 10)
		var err error
		if answer, err = seal(next, key, ch.rv); err != nil {
			return nil, false, err
		}
		if len(answer.body) > maxObject {
			return nil, false, fmt.Errorf("etcdserver: request is too large")
		}
		ch.new = answer
	}
	if next == nil || unheld(next) {
		w.New, ch.new = nil, nil
		if ch.gone = answer; answer == nil {
			ch.gone = old.withVersion(ch.rv)
		}
		answer = ch.gone
	}
	s.rv = ch.rv
	t.apply(key, ch)
	if s.Seen != nil {
		s.Seen(w)
	}
	return answer, true, nil
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
	t.log = append(t.log, ch)
	if len(t.log) > 2*history {
		t.lost = t.log[history-1].rv
		t.log = slices.Clone(t.log[history:])
	}
	close(t.wake)
	t.wake = make(chan struct{})
}

// unheld reports whether an object is to be removed: it is deleted, its grace period is 0, and no
// finalizer is left, which namespaces also have in their spec.
func unheld(o Object) bool {
	m := meta(o)
	return m["deletionTimestamp"] != nil && number(m, "deletionGracePeriodSeconds") == 0 && len(list(m, "finalizers")) == 0 &&
		len(list(o, "spec", "finalizers")) == 0
}

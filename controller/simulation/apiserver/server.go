package apiserver

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// Object is a decoded JSON object. Its whole numbers are int64.
type Object = map[string]any

// Write is a change of one object. Old and New are the server's own: only Admit may change New.
type Write struct {
	Who, Verb, Resource, Namespace, Name, Subresource string
	// Old is nil if the write creates the object, New if it is gone afterwards, which is also the
	// case for a patch that removes the last finalizer of a deleted object.
	Old, New Object
}

// Request is a request. Verb is get, list, watch, create, update, patch, delete or deletecollection.
type Request struct {
	Who, Verb, Resource, Namespace, Name, Subresource string
}

// Fault is a failure of one request. Its zero value is none.
type Fault struct {
	// Code is the HTTP status that the client gets, or Lost.
	Code int
	// Late means that the request takes effect nevertheless.
	Late bool
}

// Lost is the Code of a Fault that breaks the connection instead of an answer.
const Lost = -1

// Server is an API server. Its functions are set before the first request; nil ones do nothing. All
// but Seen are called without a lock, by several goroutines at once.
type Server struct {
	// Gate returns an error for a client that is dead: its requests and streams fail with it.
	Gate func(who string) error
	// Lag is how late the client's watches are.
	Lag func(who string) time.Duration
	// Clock is what the server writes as the time of a creation or deletion; nil is time.Now.
	Clock func() time.Time
	// Latency is how long a request takes.
	Latency func(Request) time.Duration
	// Fault makes a request fail.
	Fault func(Request) Fault
	// Admit is a webhook: it may change New of the write, or refuse with an *apierrors.StatusError.
	Admit func(*Write) error
	// Allow answers access reviews. nil allows everything.
	Allow func(who string, review Object) bool
	// Seen is called after each stored write, in the order of resource versions. It must not call
	// the server.
	Seen func(Write)

	mu      sync.Mutex // never held while anything waits
	tables  map[string]*table
	served  []Resource // in the order of discovery
	rv      int64
	serials int64 // of UIDs and generated names
	floor   int64 // lists and watches from before that get 410
	counts  map[string]int
}

// New returns a server of Kubernetes' own resources, and more. It has the namespaces default and
// kube-system.
func New(more ...Resource) *Server {
	s := &Server{tables: map[string]*table{}, counts: map[string]int{}, rv: 1}
	s.Serve(builtin...)
	s.Serve(more...)
	for _, name := range []string{"default", "kube-system"} {
		c := &call{Request: Request{Who: "apiserver", Verb: "create", Resource: "namespaces"}, server: s, version: "v1"}
		c.table = s.tables["namespaces"]
		if _, err := c.create(Object{"metadata": Object{"name": name}}); err != nil {
			panic(err) // the program is wrong
		}
	}
	return s
}

// now is what the server's clock shows.
func (s *Server) now() time.Time {
	if s.Clock != nil {
		return s.Clock().UTC()
	}
	return time.Now().UTC()
}

// Config returns the configuration of a client. who is its name, such as agent/node-01#3. The client has
// no limit of requests: client-go's broadcaster of events holds its lock while a request waits for one,
// and a bubble's time does not pass while another goroutine waits for a lock.
func (s *Server) Config(who string) *rest.Config {
	return &rest.Config{Host: "http://simulated", Transport: transport{s, who}, QPS: -1, UserAgent: who,
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON, AcceptContentTypes: runtime.ContentTypeJSON}}
}

// Counts returns how many requests there were by "who verb resource".
func (s *Server) Counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// Expire forgets the history, as compaction does: watches that start from before now, and lists that
// go on from before now, get 410. Watches that run go on.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.floor = s.rv
}

// Objects returns copies of all objects of a resource, by namespace and name.
func (s *Server) Objects(resource string) (objects []Object) {
	s.mu.Lock()
	t := s.tables[resource]
	var all []*stored
	if t != nil {
		all = t.all()
	}
	s.mu.Unlock()
	for _, o := range all {
		objects = append(objects, runtime.DeepCopyJSON(o.object))
	}
	return objects
}

// Snapshot has all objects of a moment.
type Snapshot map[string]map[string]*stored

// Snapshot returns the objects of now. Objects that are stored never change.
func (s *Server) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := Snapshot{}
	for name, t := range s.tables {
		all[name] = maps.Clone(t.objects)
	}
	return all
}

// Restore brings the objects of a snapshot back, as a restore of etcd does that bumps the revision and
// marks what was before as compacted: objects have their resource versions of then, those to come are
// above all that a client saw, and watches end with 410.
func (s *Server) Restore(all Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv += 1_000_000
	s.floor = s.rv
	for name, t := range s.tables {
		t.objects = maps.Clone(all[name])
		if t.objects == nil {
			t.objects = map[string]*stored{}
		}
		t.keys, t.log, t.lost = slices.Sorted(maps.Keys(t.objects)), nil, s.rv
		close(t.wake)
		t.wake = make(chan struct{})
	}
}

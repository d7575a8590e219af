package apiserver

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// Object is a decoded JSON object. Its whole numbers are int64.
type Object = map[string]any

// Write is a change of one object. Old and New are shared with the server: only Admit may change New.
type Write struct {
	Who, Verb, Resource, Namespace, Name, Subresource string
	// Old is nil if the write creates the object, New if the object is gone after it. A patch that
	// removes the last finalizer of a deleted object has no New.
	Old, New Object
}

// Request is a request of a client. Verb is get, list, watch, create, update, patch, delete or
// deletecollection.
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

// Server is an API server. Its functions are set before the first request; those that are nil do
// nothing. Except for Seen, they are called without a lock, by several goroutines at once.
type Server struct {
	// Gate returns an error for a client that is dead: its requests and streams fail with it.
	Gate func(who string) error
	// Lag is how late the client's watches are.
	Lag func(who string) time.Duration
	// Latency is how long a request takes.
	Latency func(Request) time.Duration
	// Fault makes a request fail.
	Fault func(Request) Fault
	// Admit is a webhook: it may change New of the write, or refuse with a *apierrors.StatusError.
	Admit func(*Write) error
	// Allow answers access reviews. nil allows everything.
	Allow func(who string, attributes Object) bool
	// Seen is called after each stored write, in the order of resource versions. It must not call
	// the server.
	Seen func(Write)

	mu       sync.Mutex // never held while anything waits
	tables   map[string]*table
	versions []version // of all tables, in the order of discovery
	rv       int64
	serial   int64 // of UIDs and generated names
	floor    int64 // watches and pages from before that get 410
	counts   map[string]int
}

// New returns a server of Kubernetes' own resources and more. It has the namespaces default and
// kube-system.
func New(more ...Resource) *Server {
	s := &Server{tables: map[string]*table{}, counts: map[string]int{}, rv: 1}
	for _, r := range slices.Concat(builtin, more) {
		s.Serve(r)
	}
	for _, name := range []string{"default", "kube-system"} {
		c := &call{Request: Request{Who: "apiserver", Verb: "create", Resource: "namespaces"}, server: s}
		c.table, c.version = s.tables["namespaces"], s.tables["namespaces"].Version
		if _, err := c.created(Object{"metadata": Object{"name": name}}); err != nil {
			panic(fmt.Errorf("create namespace %s: %w", name, err)) // the same at every start
		}
	}
	return s
}

// Config returns the configuration of a client. The name tells it from others, such as
// agent/node-01#3.
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

// Expire forgets the history, as compaction does: watches and pages that start from before it get 410.
// Watches that run go on.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.floor = s.rv
}

// Objects returns copies of all objects of a resource, ordered by namespace and name.
func (s *Server) Objects(resource string) []Object {
	s.mu.Lock()
	t := s.tables[resource]
	var all []*stored
	if t != nil {
		all = t.all()
	}
	s.mu.Unlock()
	objects := make([]Object, len(all))
	for i, o := range all {
		objects[i] = runtime.DeepCopyJSON(o.object)
	}
	return objects
}

// gate returns the error of a dead client.
func (s *Server) gate(who string) error {
	if s.Gate == nil {
		return nil
	}
	return s.Gate(who)
}

// names returns the resources by name.
func (s *Server) names() []string { return slices.Sorted(maps.Keys(s.tables)) }

// count counts a request.
func (s *Server) count(r Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[strings.Join([]string{r.Who, r.Verb, r.Resource}, " ")]++
}

// status returns the error as one of the API.
func status(err error) apierrors.APIStatus {
	if s, ok := err.(apierrors.APIStatus); ok { //nolint:errorlint // wrapped, it would lose the message
		return s
	}
	return apierrors.NewInternalError(err)
}

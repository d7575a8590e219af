package apiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// maxBody is the size of a request that is refused.
const maxBody = 3 << 20

// transport is the http.RoundTripper of one client.
type transport struct {
	server *Server
	who    string
}

// call is one request.
type call struct {
	Request
	server  *Server
	req     *http.Request
	table   *table
	version string // the one that the client uses
	path    []string
	query   url.Values
	body    []byte
	applies bool // server-side apply
}

// answer is a response: an object, or any other value.
type answer struct {
	code   int
	object *stored
	value  any
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	s := t.server
	c, err := s.newCall(t.who, req)
	if err == nil {
		err = errors.Join(c.gate(), req.Context().Err(), c.pause(), c.gate())
	}
	if err != nil {
		return nil, err
	}
	var fault Fault
	if s.Fault != nil {
		fault = s.Fault(c.Request)
	}
	a := answer{}
	if fault.Code == 0 || fault.Late {
		a, err = c.serve()
	}
	if body, ok := a.value.(io.Closer); ok && fault.Code != 0 {
		_ = body.Close() // a stream without a reader
	}
	switch {
	case fault.Code == Lost:
		return nil, errors.New("read: connection reset by peer")
	case fault.Code != 0:
		err = c.failure(fault.Code)
	}
	return c.respond(a, err), nil
}

// newCall reads and counts a request.
func (s *Server) newCall(who string, req *http.Request) (*call, error) {
	c := &call{Request: Request{Who: who}, server: s, req: req, query: req.URL.Query(),
		path: strings.Split(strings.Trim(req.URL.Path, "/"), "/")}
	if req.Body != nil {
		defer req.Body.Close()
		var err error
		if c.body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
	}
	c.parse(req.Method)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[c.Who+" "+c.Verb+" "+c.Resource]++
	return c, nil
}

// parse splits the path into version, namespace, resource, name and subresource.
func (c *call) parse(method string) {
	p := append(c.path[:len(c.path):len(c.path)], "", "", "", "")
	switch {
	case p[0] == "api" && p[2] != "":
		c.version, p = p[1], p[2:]
	case p[0] == "apis" && p[3] != "":
		c.version, p = p[1]+"/"+p[2], p[3:]
	}
	if p[0] == "namespaces" && p[2] != "" && p[2] != "status" {
		c.Namespace, p = p[1], p[2:]
	}
	c.Resource, c.Name, c.Subresource = p[0], p[1], p[2]
	c.Verb = strings.ToLower(method) // of get, patch, delete
	if verb := map[string]string{http.MethodPost: "create", http.MethodPut: "update"}[method]; verb != "" {
		c.Verb = verb
	}
	switch watch := c.query.Get("watch"); {
	case c.Verb == "get" && (watch == "true" || watch == "1"):
		c.Verb = "watch"
	case c.Verb == "get" && c.Name == "":
		c.Verb = "list"
	case c.Verb == "delete" && c.Name == "":
		c.Verb = "deletecollection"
	}
}

// gate returns the error of a dead client.
func (c *call) gate() error {
	if c.server.Gate == nil {
		return nil
	}
	return c.server.Gate(c.Who)
}

// pause takes as long as the request.
func (c *call) pause() error {
	if c.server.Latency == nil {
		return nil
	}
	return sleep(c.req.Context(), c.server.Latency(c.Request))
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serve answers the request.
func (c *call) serve() (answer, error) {
	if len(c.body) > maxBody {
		return answer{}, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	}
	if a, ok, err := c.special(); ok {
		return a, err
	}
	c.table = c.server.find(c.version, c.Resource)
	if c.table == nil || c.Subresource != "" && (c.Subresource != "status" || !c.table.has(Status)) {
		return answer{}, c.failure(http.StatusNotFound)
	}
	switch c.Verb {
	case "get":
		if o := c.server.object(c.table, c.key()); o != nil {
			return answer{code: http.StatusOK, object: o}, nil
		}
		return answer{}, c.notFound()
	case "list":
		return c.list(func(*stored) error { return nil })
	case "watch":
		return c.watch()
	case "create":
		o, err := decode(c.body)
		if err != nil {
			return answer{}, err
		}
		return c.create(o)
	case "update":
		return c.update()
	case "patch":
		return c.patch()
	case "delete":
		return c.deleteBy(c.delete)
	case "deletecollection":
		return c.deleteBy(c.deleteCollection)
	}
	return answer{}, apierrors.NewMethodNotSupported(c.table.group(), c.Verb)
}

// failure is an error of which only the code is known.
func (c *call) failure(code int) error {
	r := schema.GroupResource{Resource: c.Resource}
	return apierrors.NewGenericServerResponse(code, c.Verb, r, c.Name, "simulated", 0, true)
}

// conflict is the error 409.
func (c *call) conflict(format string, args ...any) error {
	return apierrors.NewConflict(c.table.group(), c.Name, fmt.Errorf(format, args...))
}

// bad is the error 400.
func bad(format string, args ...any) error {
	return apierrors.NewBadRequest(fmt.Sprintf(format, args...))
}

// key is the place of the object in its table.
func (c *call) key() string { return c.Namespace + "/" + c.Name }

// object returns an object, or nil.
func (s *Server) object(t *table, key string) *stored {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.objects[key]
}

func (c *call) notFound() error { return apierrors.NewNotFound(c.table.group(), c.Name) }

// decode reads a JSON object.
func decode(body []byte) (o Object, err error) {
	if err = utiljson.Unmarshal(body, &o); err != nil || o == nil {
		return nil, bad("cannot decode the body: %v", err)
	}
	return o, nil
}

// respond encodes the answer or the error.
func (c *call) respond(a answer, err error) *http.Response {
	if err != nil {
		state := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}
		if s, ok := err.(apierrors.APIStatus); ok { // a wrapped one would lose its message
			state = s.Status()
		}
		state.Kind, state.APIVersion = "Status", "v1"
		a = answer{code: int(state.Code), value: state}
	}
	r := &http.Response{StatusCode: a.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: c.req,
		Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: -1}
	switch v := a.value.(type) {
	case io.ReadCloser:
		r.Body = v
	case []byte:
		r.Body = io.NopCloser(bytes.NewReader(v))
	case nil:
		r.Body = io.NopCloser(bytes.NewReader(c.view(a.object)))
	default:
		r.Body = io.NopCloser(bytes.NewReader(encode(v)))
	}
	return r
}

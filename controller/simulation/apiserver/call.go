package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// errLost is the error of a connection that broke.
var errLost = errors.New("read: connection reset by peer")

// maxBody is the largest body of a request, maxObject that of an object in etcd.
const (
	maxBody   = 3 << 20
	maxObject = 3 << 19
)

// transport is the http.RoundTripper of one client.
type transport struct {
	server *Server
	who    string
}

// call is one request.
type call struct {
	Request
	server  *Server
	ctx     context.Context //nolint:containedctx // that of the http.Request, which has it, too
	table   *table
	version string // the one that the client asks for
	path    string
	query   url.Values
	body    []byte
	content string // media type of the body
	accept  string
}

// answer is a response. An answer has an object of the table, or any other value.
type answer struct {
	code   int
	object *stored
	other  any
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	s := t.server
	if err := errors.Join(s.gate(t.who), req.Context().Err()); err != nil {
		return nil, err
	}
	c, err := s.newCall(t.who, req)
	if err != nil {
		return c.respond(req, answer{}, err)
	}
	s.count(c.Request)
	if err := errors.Join(c.pause(), s.gate(t.who)); err != nil {
		return nil, err
	}
	var fault Fault
	if s.Fault != nil {
		fault = s.Fault(c.Request)
	}
	if fault.Code != 0 && !fault.Late {
		return c.fail(req, fault.Code)
	}
	if c.Verb == "watch" {
		return c.watch(req)
	}
	a, err := c.serve(req.Method)
	if fault.Code != 0 {
		return c.fail(req, fault.Code)
	}
	return c.respond(req, a, err)
}

// newCall reads the request. The call is complete if there is no error.
func (s *Server) newCall(who string, req *http.Request) (*call, error) {
	c := &call{Request: Request{Who: who}, server: s, ctx: req.Context(), path: strings.Trim(req.URL.Path, "/"), query: req.URL.Query(),
		accept: req.Header.Get("Accept")}
	c.content, _, _ = strings.Cut(req.Header.Get("Content-Type"), ";")
	if req.Body != nil {
		defer req.Body.Close()
		var err error
		if c.body, err = io.ReadAll(req.Body); err != nil {
			return c, err
		}
		if len(c.body) > maxBody {
			return c, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
		}
	}
	c.parsePath()
	c.Verb = c.verb(req.Method)
	return c, nil
}

// parsePath splits the path into version, namespace, resource, name and subresource.
func (c *call) parsePath() {
	parts := strings.Split(c.path, "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		c.version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		c.version, parts = parts[1]+"/"+parts[2], parts[3:]
	default:
		c.Resource = parts[0] // discovery
		return
	}
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		c.Namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "")
	c.Resource, c.Name, c.Subresource = parts[0], parts[1], parts[2]
}

func (c *call) verb(method string) string {
	watch := c.query.Get("watch")
	switch {
	case method == http.MethodPost:
		return "create"
	case method == http.MethodPut:
		return "update"
	case method == http.MethodDelete && c.Name == "":
		return "deletecollection"
	case method != http.MethodGet:
		return strings.ToLower(method)
	case watch == "true" || watch == "1":
		return "watch"
	case c.Name == "":
		return "list"
	}
	return "get"
}

// pause is the latency of the request.
func (c *call) pause() error {
	if c.server.Latency == nil {
		return nil
	}
	if d := c.server.Latency(c.Request); d > 0 {
		return sleep(c.ctx, d)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serve answers a request that is no watch.
func (c *call) serve(method string) (answer, error) {
	if done, a, err := c.review(); done {
		return a, err
	}
	if a, ok := c.discover(); ok {
		return a, nil
	}
	if c.table = c.server.find(c.version, c.Resource); c.table == nil || !c.servesSub() {
		return answer{}, apierrors.NewGenericServerResponse(http.StatusNotFound, c.Verb, schemaResource(c), c.Name, "", 0, true)
	}
	switch c.Verb {
	case "get":
		o, err := c.current()
		return answer{code: http.StatusOK, object: o}, err
	case "list":
		return c.list()
	case "create":
		o, err := c.decode(c.body)
		if err != nil {
			return answer{}, err
		}
		return c.created(c.track(nil, o))
	case "update":
		return c.update()
	case "patch":
		return c.patch()
	case "delete":
		o, err := c.deleteOptions()
		if err != nil {
			return answer{}, err
		}
		return c.delete(o)
	case "deletecollection":
		return c.deleteCollection()
	}
	return answer{}, apierrors.NewMethodNotSupported(c.table.resource(), method)
}

// servesSub reports whether the resource has the subresource.
func (c *call) servesSub() bool {
	return c.Subresource == "" || c.Subresource == "status" && c.table.has(Status)
}

// key is the place of the object in its table.
func (c *call) key() string { return c.Namespace + "/" + c.Name }

// current returns the object that the request names.
func (c *call) current() (*stored, error) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if o := c.table.objects[c.key()]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(c.table.resource(), c.Name)
}

// decode reads the body as an object.
func (c *call) decode(body []byte) (Object, error) {
	var o Object
	if err := utiljson.Unmarshal(body, &o); err != nil || o == nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("cannot decode the body: %v", err))
	}
	return o, nil
}

// write describes the change that the request makes.
func (c *call) write(old, next Object) Write {
	return Write{c.Who, c.Verb, c.Resource, c.Namespace, c.Name, c.Subresource, old, next}
}

// dryRun reports whether the request is not to be stored.
func (c *call) dryRun() bool { return c.query.Get("dryRun") == metav1.DryRunAll }

// fail responds as a fault wants it.
func (c *call) fail(req *http.Request, code int) (*http.Response, error) {
	if code == Lost {
		return nil, errLost
	}
	return c.respond(req, answer{}, apierrors.NewGenericServerResponse(code, c.Verb, schemaResource(c), c.Name, "simulated fault", 0, true))
}

// respond encodes the answer or the error.
func (c *call) respond(req *http.Request, a answer, err error) (*http.Response, error) {
	var body []byte
	switch {
	case err != nil:
		s := status(err).Status()
		s.Kind, s.APIVersion = "Status", "v1"
		a.code, a.other = int(s.Code), s
		body, err = json.Marshal(s)
	case a.object != nil:
		body = c.view(a.object)
	default:
		if raw, ok := a.other.(json.RawMessage); ok {
			body = raw
		} else {
			body, err = json.Marshal(a.other)
		}
	}
	if err != nil {
		return nil, err
	}
	return response(req, a.code, io.NopCloser(bytes.NewReader(body)), int64(len(body))), nil
}

func response(req *http.Request, code int, body io.ReadCloser, length int64) *http.Response {
	return &http.Response{StatusCode: code, Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Request: req, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: length}
}

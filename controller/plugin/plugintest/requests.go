package plugintest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// ServeHTTP records a request to the API, and answers it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	group, namespace, resource, name, sub := parse(r.URL.Path)
	verb := map[string]string{http.MethodGet: "get", http.MethodPost: "create", http.MethodDelete: "delete"}[r.Method]
	switch {
	case verb == "get" && name == "":
		verb = "list"
	case verb == "delete" && name == "":
		verb = "deletecollection"
	}
	s.record(verb+" "+group+"/"+strings.TrimSuffix(resource+"/"+sub, "/"), r.URL.Path)
	switch {
	case resource == "selfsubjectaccessreviews" || resource == "subjectaccessreviews" && !s.forbids(resource):
		s.review(w, r, resource)
	case r.URL.Path == "/version" && !s.forbids("/version"):
		answer(w, http.StatusOK, map[string]string{"major": "1", "minor": s.Minor, "gitVersion": "v1." + s.Minor + ".0"})
	case s.forbids(resource) || s.forbids(resource+"/"+sub) || s.forbids(namespace+"/"+resource+"/"+sub):
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "you may not")
	case sub == "exec":
		s.exec(w, r, name)
	case sub == "proxy":
		s.proxy(w, name)
	case sub == "log":
		_, _ = io.WriteString(w, s.Log)
	case verb == "create":
		s.create(w, r, namespace)
	case verb == "deletecollection":
		s.deleteAll(w, r, resource)
	case name != "":
		s.get(w, resource, namespace, name)
	case resource != "":
		s.list(w, r, resource, namespace)
	default:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "no such path")
	}
}

func (s *Server) record(what, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if path == "/version" {
		what = "get /version"
	}
	s.asked[what] = true
}

// parse splits a path of the API.
func parse(path string) (group, namespace, resource, name, sub string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if skip := map[string]int{"api": 2, "apis": 3}[parts[0]]; skip > 0 && len(parts) > skip {
		if skip == 3 {
			group = parts[1]
		}
		parts = parts[skip:]
	} else {
		return "", "", "", "", ""
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "")
	return group, namespace, parts[0], parts[1], parts[2]
}

func (s *Server) forbids(resource string) bool {
	return slices.Contains(s.Forbidden, resource) || slices.Contains(s.Forbidden, "*")
}

// review allows what is not forbidden to the user, or lacked by the service accounts.
func (s *Server) review(w http.ResponseWriter, r *http.Request, resource string) {
	object, err := decoded(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	switch review := object.(type) {
	case *authorizationv1.SelfSubjectAccessReview:
		a := review.Spec.ResourceAttributes
		what := strings.TrimSuffix(a.Resource+"/"+a.Subresource, "/")
		review.Status.Allowed = !s.forbids(what) && !s.forbids(a.Namespace+"/"+what)
	case *authorizationv1.SubjectAccessReview:
		a := review.Spec.ResourceAttributes
		_, account, _ := strings.Cut(strings.TrimPrefix(review.Spec.User, "system:serviceaccount:"), ":")
		what := a.Verb + " " + a.Resource
		review.Status.Allowed = !slices.Contains(s.Lacks, what) && !slices.Contains(s.Lacks, account+" "+what)
	}
	answer(w, http.StatusCreated, object)
}

// decoded returns the object of a request, in JSON or protobuf.
func decoded(r *http.Request) (runtime.Object, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err == nil {
		object.GetObjectKind().SetGroupVersionKind(*kind)
	}
	return object, err
}

func (s *Server) proxy(w http.ResponseWriter, pod string) {
	parts := strings.Split(strings.TrimPrefix(pod, "https:"), ":")
	if text, has := s.Metrics[parts[0]]; has {
		_, _ = io.WriteString(w, text)
		return
	}
	refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "no route to host")
}

func (s *Server) create(w http.ResponseWriter, r *http.Request, namespace string) {
	object, err := decoded(r)
	if at, is := object.(metav1.Object); err == nil && is {
		at.SetNamespace(namespace)
		s.mu.Lock()
		err = s.add(object)
		s.mu.Unlock()
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	answer(w, http.StatusCreated, object)
}

func (s *Server) deleteAll(w http.ResponseWriter, r *http.Request, resource string) {
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil || selector.Empty() {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "it would delete all of them")
		return
	}
	s.mu.Lock()
	s.objects[resource] = slices.DeleteFunc(s.objects[resource], func(o object) bool { return selector.Matches(o.labels) })
	s.mu.Unlock()
	answer(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
}

func (s *Server) get(w http.ResponseWriter, resource, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.objects[resource] {
		if o.namespace == namespace && o.name == name {
			answer(w, http.StatusOK, o.data)
			return
		}
	}
	refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, resource+" "+name+" not found")
}

// list answers a list, page by page as it is asked to.
func (s *Server) list(w http.ResponseWriter, r *http.Request, resource, namespace string) {
	q := r.URL.Query()
	byLabel, err := labels.Parse(q.Get("labelSelector"))
	if err != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	byField, err := fields.ParseSelector(q.Get("fieldSelector"))
	if err != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	var items []json.RawMessage
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.objects[resource] {
		if (namespace == "" || o.namespace == namespace) && byLabel.Matches(o.labels) && byField.Matches(o.fields) {
			items = append(items, o.data)
		}
	}
	limit, _ := strconv.Atoi(q.Get("limit")) // none is no limit
	from, _ := strconv.Atoi(q.Get("continue"))
	next := ""
	if limit > 0 && from+limit < len(items) {
		items, next = items[:from+limit], strconv.Itoa(from+limit)
	}
	kind := s.kinds[resource]
	answer(w, http.StatusOK, map[string]any{
		"kind":       kind.Kind,
		"apiVersion": kind.GroupVersion().String(),
		"metadata": map[string]string{
			"resourceVersion": "1",
			"continue":        next,
		},
		"items": append([]json.RawMessage{}, items[from:]...),
	})
}

func answer(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value) // a client that left
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	answer(
		w,
		code,
		metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
			Code: int32(code), Reason: reason, Message: fmt.Sprint(message)},
	)
}

// Package plugintest has a stand-in for the API server of a cluster, for tests of the plugin of
// kubectl: it answers lists, and runs commands in pods by the WebSocket protocol of kubelets.
package plugintest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Cluster is what the API server has. It does not change while the server runs.
type Cluster struct {
	Objects []runtime.Object
	// Forbidden are the resources that the user may not read, and "pods/exec".
	Forbidden []string
	// Exec runs a command of a pod; nil if no kubelet answers.
	Exec func(pod string, command []string) Answer
}

// object is an object as the API server stores it.
type object struct {
	namespace, name string
	labels          labels.Set
	fields          fields.Set // those by which events are selected
	data            json.RawMessage
}

type server struct {
	Cluster
	objects map[string][]object                // by resource
	kinds   map[string]schema.GroupVersionKind // of lists, by resource
}

// listKinds returns the kinds of lists of all resources.
func listKinds() map[string]schema.GroupVersionKind {
	kinds := map[string]schema.GroupVersionKind{}
	for kind := range scheme.Scheme.AllKnownTypes() {
		list := kind.GroupVersion().WithKind(kind.Kind + "List")
		if kind.Version == "v1" && scheme.Scheme.Recognizes(list) && kind.Group != "events.k8s.io" {
			kinds[resourceOf(kind)] = list
		}
	}
	return kinds
}

func resourceOf(kind schema.GroupVersionKind) string {
	if kind.Kind == "CSIStorageCapacity" {
		return "csistoragecapacities"
	}
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return resource.Resource
}

// Start starts the API server, which ends with the test, and returns the path of a kubeconfig whose
// namespace is "shop".
func (c Cluster) Start(t testing.TB) (kubeconfig string) {
	t.Helper()
	s := &server{Cluster: c, objects: map[string][]object{}, kinds: listKinds()}
	for _, o := range c.Objects {
		if err := s.add(o); err != nil {
			t.Fatal(err)
		}
	}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: web.URL}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "t"}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u", Namespace: "shop"}
	config.CurrentContext = "x"
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

func (s *server) add(o runtime.Object) error {
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		return err
	}
	resource := resourceOf(kinds[0])
	at, err := meta.Accessor(o)
	if err != nil {
		return err
	}
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	var event struct{ InvolvedObject struct{ Kind, Name string } }
	if err := json.Unmarshal(data, &event); err != nil {
		return err
	}
	s.objects[resource] = append(s.objects[resource], object{at.GetNamespace(), at.GetName(), at.GetLabels(),
		fields.Set{"involvedObject.kind": event.InvolvedObject.Kind, "involvedObject.name": event.InvolvedObject.Name}, data})
	return nil
}

// ServeHTTP answers a request to the API.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	namespace, resource, name, sub := parse(r.URL.Path)
	switch {
	case resource == "selfsubjectaccessreviews":
		s.review(w, r)
	case s.forbids(resource) || s.forbids(resource+"/"+sub):
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "you may not")
	case sub == "exec":
		s.exec(w, r, name)
	case name != "":
		s.get(w, resource, namespace, name)
	case resource != "":
		s.list(w, r, resource, namespace)
	default:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "no such path")
	}
}

// parse splits a path of the API.
func parse(path string) (namespace, resource, name, sub string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if skip := map[string]int{"api": 2, "apis": 3}[parts[0]]; skip > 0 && len(parts) > skip {
		parts = parts[skip:]
	} else {
		return "", "", "", ""
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "")
	return namespace, parts[0], parts[1], parts[2]
}

func (s *server) forbids(resource string) bool {
	for _, f := range s.Forbidden {
		if f == resource {
			return true
		}
	}
	return false
}

func (s *server) review(w http.ResponseWriter, r *http.Request) {
	review := &authorizationv1.SelfSubjectAccessReview{}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, review) // JSON or protobuf
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	review.TypeMeta = metav1.TypeMeta{Kind: "SelfSubjectAccessReview", APIVersion: "authorization.k8s.io/v1"}
	a := review.Spec.ResourceAttributes
	review.Status.Allowed = !s.forbids(strings.TrimSuffix(a.Resource+"/"+a.Subresource, "/"))
	answer(w, http.StatusCreated, review)
}

func (s *server) get(w http.ResponseWriter, resource, namespace, name string) {
	for _, o := range s.objects[resource] {
		if o.namespace == namespace && o.name == name {
			answer(w, http.StatusOK, o.data)
			return
		}
	}
	refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, resource+" "+name+" not found")
}

// list answers a list, page by page as it is asked to.
func (s *server) list(w http.ResponseWriter, r *http.Request, resource, namespace string) {
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

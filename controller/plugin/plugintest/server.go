// Package plugintest has a healthy cluster for the tests of the plugin, which each test changes, and a
// stand-in for its API server: it answers reads, reviews, logs and metrics, and runs commands in pods by
// the WebSocket protocol of kubelets.
//
//	healthy.go   the cluster
//	change.go    what tests change of it
//	server.go    its API server, and requests.go what that answers
//	exec.go      the kubelets
//	reader.go    what the packages of the plugin read it with
package plugintest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	hpp "kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
)

// Cluster is what the API server has. Tests do not change it after Start.
type Cluster struct {
	Objects []runtime.Object
	// Forbidden are the resources that the user may not read, such as "pods/exec", or
	// "hpp/pods/exec" in one namespace; "*" is every one.
	Forbidden []string
	// Lacks are the permissions that no service account has, such as "get events", or that of a name lacks,
	// such as "agents get events".
	Lacks []string
	// Minor is the minor version of Kubernetes 1.
	Minor string
	// Pools are what the agent of a node reports, Prints what a pod prints for a command ("agent-node-01
	// inspect"), and Metrics what it serves. A pod without metrics cannot be reached.
	Pools   map[string][]inspect.Report
	Prints  map[string]Answer
	Metrics map[string]string
	// Log is what each container logs.
	Log string
	// Exec runs a command of a pod; nil for Cluster.Answer.
	Exec func(pod string, command []string) Answer
}

// object is an object as the API server stores it.
type object struct {
	namespace, name string
	labels          labels.Set
	fields          fields.Set // those by which events are selected
	data            json.RawMessage
}

// Server is the API server of a cluster.
type Server struct {
	Cluster
	url   string
	kinds map[string]schema.GroupVersionKind // of lists, by resource

	mu      sync.Mutex
	objects map[string][]object // by resource
	asked   map[string]bool
}

// objectTypes are those of the objects.
var objectTypes = func() *runtime.Scheme {
	all := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, hpp.AddToScheme} {
		if err := add(all); err != nil {
			panic(err) // of two lists of this program
		}
	}
	return all
}()

// listKinds returns the kinds of lists of all resources.
func listKinds() map[string]schema.GroupVersionKind {
	kinds := map[string]schema.GroupVersionKind{}
	for kind := range objectTypes.AllKnownTypes() {
		list := kind.GroupVersion().WithKind(kind.Kind + "List")
		if (kind.Version == "v1" || kind.Group == hpp.GroupVersion().Group) && objectTypes.Recognizes(list) && kind.Group != "events.k8s.io" {
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
func (c *Cluster) Start(t testing.TB) (kubeconfig string) {
	t.Helper()
	return c.Serve(t).Kubeconfig(t)
}

// Serve starts the API server, which ends with the test.
func (c *Cluster) Serve(t testing.TB) *Server {
	t.Helper()
	s := &Server{Cluster: *c, objects: map[string][]object{}, kinds: listKinds(), asked: map[string]bool{}}
	for _, o := range c.Objects {
		if err := s.add(o); err != nil {
			t.Fatal(err)
		}
	}
	for _, all := range s.objects { // as the API server lists them
		slices.SortStableFunc(all, func(a, b object) int {
			return strings.Compare(a.namespace+"/"+a.name, b.namespace+"/"+b.name)
		})
	}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	s.url = web.URL
	return s
}

// Config returns the configuration of a client.
func (s *Server) Config() *rest.Config { return &rest.Config{Host: s.url, QPS: -1} }

// Kubeconfig writes a kubeconfig whose namespace is "shop", and returns its path.
func (s *Server) Kubeconfig(t testing.TB) string {
	t.Helper()
	return Kubeconfig(t, s.url)
}

// Asked returns what was asked for since the last call, as RBAC sees it, such as "list /nodes".
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Sorted(maps.Keys(s.asked))
	clear(s.asked)
	return all
}

// Kubeconfig writes a kubeconfig for an API server whose namespace is "shop", and returns its path.
func Kubeconfig(t testing.TB, url string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: url}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "t"}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u", Namespace: "shop"}
	config.CurrentContext = "x"
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

func (s *Server) add(o runtime.Object) error {
	kinds, _, err := objectTypes.ObjectKinds(o)
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
	var event struct {
		InvolvedObject struct{ Kind, Name string }
		Reason         any
	}
	if err := json.Unmarshal(data, &event); err != nil {
		return err
	}
	s.objects[resource] = append(s.objects[resource], object{at.GetNamespace(), at.GetName(), at.GetLabels(),
		fields.Set{"involvedObject.kind": event.InvolvedObject.Kind, "involvedObject.name": event.InvolvedObject.Name,
			"reason": fmt.Sprint(event.Reason)}, data})
	return nil
}

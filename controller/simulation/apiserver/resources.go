package apiserver

import (
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"
)

// Traits are what resources differ in.
type Traits int

// The traits of resources.
const (
	Namespaced  Traits = 1 << iota
	Status             // has the subresource status
	Generation         // counts changes of fields other than metadata and status
	Conditional        // an update has to name the resource version
	Upsert             // an update creates an object that is absent
	ReturnsGone        // a deletion answers with the object rather than with a status
	Custom             // without a Go type
)

// Resource is a resource in one version. Versions of a resource share their objects, which are those
// of the first one.
type Resource struct {
	Version, Name, Kind string // such as apps/v1, daemonsets, DaemonSet
	Traits              Traits
}

// CustomResource returns a resource as a CustomResourceDefinition defines it.
func CustomResource(version, name, kind string, traits Traits) Resource {
	return Resource{version, name, kind, traits | Custom | Generation | Conditional}
}

var builtin = []Resource{
	{"v1", "namespaces", "Namespace", Status | ReturnsGone},
	{"v1", "nodes", "Node", Status},
	{"v1", "persistentvolumes", "PersistentVolume", Status | ReturnsGone},
	{"v1", "persistentvolumeclaims", "PersistentVolumeClaim", Namespaced | Status | ReturnsGone},
	{"v1", "pods", "Pod", Namespaced | Status | Generation | ReturnsGone},
	{"v1", "events", "Event", Namespaced | Upsert},
	{"v1", "configmaps", "ConfigMap", Namespaced},
	{"v1", "secrets", "Secret", Namespaced},
	{"v1", "services", "Service", Namespaced | Status | Upsert | ReturnsGone},
	{"v1", "serviceaccounts", "ServiceAccount", Namespaced | ReturnsGone},
	{"apps/v1", "controllerrevisions", "ControllerRevision", Namespaced},
	{"apps/v1", "daemonsets", "DaemonSet", Namespaced | Status | Generation},
	{"apps/v1", "deployments", "Deployment", Namespaced | Status | Generation},
	{"apps/v1", "replicasets", "ReplicaSet", Namespaced | Status | Generation},
	{"batch/v1", "jobs", "Job", Namespaced | Status | Generation},
	{"coordination.k8s.io/v1", "leases", "Lease", Namespaced | Upsert | Conditional},
	{"events.k8s.io/v1", "events", "Event", Namespaced | Upsert},
	{"rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", Upsert},
	{"rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", Upsert},
	{"rbac.authorization.k8s.io/v1", "roles", "Role", Namespaced | Upsert},
	{"rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding", Namespaced | Upsert},
	{"storage.k8s.io/v1", "storageclasses", "StorageClass", ReturnsGone},
	{"storage.k8s.io/v1", "csidrivers", "CSIDriver", Conditional | ReturnsGone},
	{"storage.k8s.io/v1", "csinodes", "CSINode", Conditional | ReturnsGone},
	{"storage.k8s.io/v1", "csistoragecapacities", "CSIStorageCapacity", Namespaced | Conditional},
	{"storage.k8s.io/v1", "volumeattachments", "VolumeAttachment", Status | Conditional | ReturnsGone},
	{"admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration",
		Generation | Conditional},
}

func (r Resource) has(traits Traits) bool { return r.Traits&traits != 0 }

func (r Resource) gvk() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(r.Version, r.Kind)
}

// group returns the resource as errors name it.
func (r Resource) group() schema.GroupResource {
	return schema.GroupResource{Group: r.gvk().Group, Resource: r.Name}
}

// Serve makes the server serve resources from now on, or more versions of them.
func (s *Server) Serve(resources ...Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range resources {
		s.served = append(s.served, r)
		if s.tables[r.Name] == nil {
			s.tables[r.Name] = newTable(r)
		}
	}
}

// find returns the table of a resource in a version, or nil.
func (s *Server) find(version, resource string) *table {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.served, func(r Resource) bool { return r.Version == version && r.Name == resource }) {
		return nil
	}
	return s.tables[resource]
}

// special answers what is asked of the server itself. A client that prefers the aggregated form of
// discovery sees from the media type that it got the older one.
func (c *call) special() (a answer, ok bool, err error) {
	path := strings.Join(c.path, "/")
	is := func(kind string) metav1.TypeMeta { return metav1.TypeMeta{Kind: kind, APIVersion: "v1"} }
	c.server.mu.Lock()
	served := c.server.served
	c.server.mu.Unlock()
	a.code = http.StatusOK
	switch {
	case c.Verb == "create" && strings.HasSuffix(c.Resource, "reviews"):
		a.code = http.StatusCreated
		a.value, err = c.review()
	case path == "version":
		a.value = apiversion.Info{Major: "1", Minor: "34", GitVersion: "v1.34.4", Platform: "linux/amd64"}
	case path == "api":
		a.value = metav1.APIVersions{TypeMeta: is("APIVersions"), Versions: []string{"v1"}}
	case path == "apis":
		a.value = metav1.APIGroupList{TypeMeta: is("APIGroupList"), Groups: groups(served)}
	case c.path[0] == "api" && len(c.path) == 2 || c.path[0] == "apis" && len(c.path) == 3:
		version := strings.Join(c.path[1:], "/")
		list := resources(served, version)
		a.value = metav1.APIResourceList{TypeMeta: is("APIResourceList"), GroupVersion: version, APIResources: list}
		return a, len(list) > 0, nil
	default:
		return a, false, nil
	}
	return a, true, err
}

// review answers an access review.
func (c *call) review() (Object, error) {
	o, err := decode(c.body)
	if err != nil {
		return nil, err
	}
	all := []string{"*"}
	o["status"] = Object{"allowed": c.server.Allow == nil || c.server.Allow(c.Who, o), "incomplete": false,
		"nonResourceRules": []Object{}, "resourceRules": []Object{{"verbs": all, "apiGroups": all, "resources": all}}}
	return o, nil
}

// groups returns the API groups with the versions of their resources.
func groups(served []Resource) (groups []metav1.APIGroup) {
	for _, r := range served {
		gv := r.gvk().GroupVersion()
		this := metav1.GroupVersionForDiscovery{GroupVersion: r.Version, Version: gv.Version}
		i := slices.IndexFunc(groups, func(g metav1.APIGroup) bool { return g.Name == gv.Group })
		switch {
		case gv.Group == "": // in /api
		case i < 0:
			groups = append(groups, metav1.APIGroup{Name: gv.Group, PreferredVersion: this,
				Versions: []metav1.GroupVersionForDiscovery{this}})
		case !slices.Contains(groups[i].Versions, this):
			groups[i].Versions = append(groups[i].Versions, this)
		}
	}
	return groups
}

// resources returns the resources of a version.
func resources(served []Resource, version string) (all []metav1.APIResource) {
	for _, r := range served {
		if r.Version != version {
			continue
		}
		all = append(all, metav1.APIResource{Name: r.Name, SingularName: strings.ToLower(r.Kind), Kind: r.Kind,
			Namespaced: r.has(Namespaced),
			Verbs:      metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}})
		if r.has(Status) {
			all = append(all, metav1.APIResource{Name: r.Name + "/status", Namespaced: r.has(Namespaced), Kind: r.Kind,
				Verbs: metav1.Verbs{"get", "patch", "update"}})
		}
	}
	return all
}

package apiserver

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	ReturnsGone        // deletion returns the object rather than a status
	Custom             // the server does not know its Go type
)

// Resource is a resource that the server serves.
type Resource struct {
	// Version is the group and version, such as apps/v1.
	Version string
	// Name is the plural, such as daemonsets. Two versions of one resource share their objects.
	Name, Kind string
	Traits     Traits
}

// CustomResource returns a namespaced resource as a CustomResourceDefinition makes it.
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
	{"apps/v1", "statefulsets", "StatefulSet", Namespaced | Status | Generation},
	{"batch/v1", "jobs", "Job", Namespaced | Status | Generation},
	{"coordination.k8s.io/v1", "leases", "Lease", Namespaced | Upsert | Conditional},
	{"events.k8s.io/v1", "events", "Event", Namespaced | Upsert},
	{"policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", Namespaced | Status | Generation | Conditional},
	{"rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", Upsert},
	{"rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", Upsert},
	{"rbac.authorization.k8s.io/v1", "roles", "Role", Namespaced | Upsert},
	{"rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding", Namespaced | Upsert},
	{"storage.k8s.io/v1", "storageclasses", "StorageClass", ReturnsGone},
	{"storage.k8s.io/v1", "csidrivers", "CSIDriver", ReturnsGone},
	{"storage.k8s.io/v1", "csinodes", "CSINode", ReturnsGone},
	{"storage.k8s.io/v1", "csistoragecapacities", "CSIStorageCapacity", Namespaced},
	{"storage.k8s.io/v1", "volumeattachments", "VolumeAttachment", Status | ReturnsGone},
	{"admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", Generation},
	{"apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", Custom | Status | Generation | Conditional},
}

// version is one version of a table.
type version struct {
	Resource
	gv schema.GroupVersion
}

// Serve makes the server serve a resource from now on, or another version of one.
func (s *Server) Serve(r Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gv, err := schema.ParseGroupVersion(r.Version)
	if err != nil {
		panic(err) // the program is wrong
	}
	s.versions = append(s.versions, version{r, gv})
	if s.tables[r.Name] == nil {
		s.tables[r.Name] = newTable(r, gv)
	}
}

// find returns the table of a resource in a version, or nil.
func (s *Server) find(groupVersion, resource string) *table {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.versions {
		if v.Version == groupVersion && v.Name == resource {
			return s.tables[resource]
		}
	}
	return nil
}

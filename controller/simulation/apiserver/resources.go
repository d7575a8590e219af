package apiserver

import "k8s.io/apimachinery/pkg/runtime/schema"

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
	{"storage.k8s.io/v1", "csidrivers", "CSIDriver", Conditional | ReturnsGone},
	{"storage.k8s.io/v1", "csinodes", "CSINode", Conditional | ReturnsGone},
	{"storage.k8s.io/v1", "csistoragecapacities", "CSIStorageCapacity", Namespaced | Conditional},
	{"storage.k8s.io/v1", "volumeattachments", "VolumeAttachment", Status | Conditional | ReturnsGone},
	{"admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", Generation | Conditional},
	CustomResource("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", Status),
}

func (r Resource) has(traits Traits) bool { return r.Traits&traits == traits }

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
	for _, r := range s.served {
		if r.Version == version && r.Name == resource {
			return s.tables[resource]
		}
	}
	return nil
}

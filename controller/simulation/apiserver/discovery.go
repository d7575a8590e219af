package apiserver

import (
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiversion "k8s.io/apimachinery/pkg/version"
)

// release is the version of the server that this one is compared with.
var release = apiversion.Info{Major: "1", Minor: "34", GitVersion: "v1.34.4", Platform: "linux/amd64"}

// discover answers what is asked of the server itself. The older form of discovery is enough: a
// client that prefers the aggregated one sees from the media type that it has not got it.
func (c *call) discover() (a answer, ok bool) {
	parts := strings.Split(c.path, "/")
	switch {
	case c.Verb != "get" && c.Verb != "list":
		return a, false
	case c.path == "version":
		a.other = release
	case c.path == "healthz" || c.path == "livez" || c.path == "readyz":
		a.other = "ok"
	case c.path == "api":
		a.other = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case c.path == "apis":
		a.other = metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: c.server.groups()}
	case parts[0] == "api" && len(parts) == 2, parts[0] == "apis" && len(parts) == 3:
		resources := c.server.resources(strings.Join(parts[1:], "/"))
		if len(resources) == 0 {
			return a, false
		}
		a.other = metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: strings.Join(parts[1:], "/"), APIResources: resources}
	default:
		return a, false
	}
	a.code = http.StatusOK
	return a, true
}

// groups returns the API groups, whose versions are those of the resources.
func (s *Server) groups() []metav1.APIGroup {
	s.mu.Lock()
	defer s.mu.Unlock()
	var groups []metav1.APIGroup
	for _, v := range s.versions {
		if v.gv.Group == "" {
			continue
		}
		is := func(g metav1.APIGroup) bool { return g.Name == v.gv.Group }
		i := slices.IndexFunc(groups, is)
		this := metav1.GroupVersionForDiscovery{GroupVersion: v.Version, Version: v.gv.Version}
		switch {
		case i < 0:
			groups = append(groups, metav1.APIGroup{Name: v.gv.Group, Versions: []metav1.GroupVersionForDiscovery{this}, PreferredVersion: this})
		case !slices.Contains(groups[i].Versions, this):
			groups[i].Versions = append(groups[i].Versions, this)
		}
	}
	return groups
}

// resources returns the resources of a version.
func (s *Server) resources(groupVersion string) []metav1.APIResource {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []metav1.APIResource
	for _, v := range s.versions {
		if v.Version != groupVersion {
			continue
		}
		r := metav1.APIResource{Name: v.Name, SingularName: strings.ToLower(v.Kind), Namespaced: v.Traits&Namespaced != 0, Kind: v.Kind,
			Verbs: metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}}
		all = append(all, r)
		if v.Traits&Status != 0 {
			r.Name, r.SingularName, r.Verbs = v.Name+"/status", "", metav1.Verbs{"get", "patch", "update"}
			all = append(all, r)
		}
	}
	return all
}

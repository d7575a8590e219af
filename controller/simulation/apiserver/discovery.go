package apiserver

import (
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"
)

// special answers what is asked of the server itself. A client that prefers the aggregated form of
// discovery sees from the media type that it got the older one.
func (c *call) special() (a answer, ok bool, err error) {
	path := strings.Join(c.path, "/")
	a.code = http.StatusOK
	switch {
	case c.Verb == "create" && strings.HasSuffix(c.Resource, "reviews"):
		a.code = http.StatusCreated
		a.value, err = c.review()
	case path == "version":
		a.value = apiversion.Info{Major: "1", Minor: "34", GitVersion: "v1.34.4", Platform: "linux/amd64"}
	case path == "healthz" || path == "livez" || path == "readyz":
		a.value = "ok"
	case path == "api":
		a.value = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case path == "apis":
		a.value = metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: c.server.groups()}
	case c.path[0] == "api" && len(c.path) == 2 || c.path[0] == "apis" && len(c.path) == 3:
		list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
		list.GroupVersion = strings.Join(c.path[1:], "/")
		list.APIResources = c.server.resources(list.GroupVersion)
		return answer{http.StatusOK, nil, list}, len(list.APIResources) > 0, nil
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
	rules := []Object{{"verbs": all, "apiGroups": all, "resources": all}}
	o["status"] = Object{"allowed": c.server.Allow == nil || c.server.Allow(c.Who, o)}
	if c.Resource == "selfsubjectrulesreviews" {
		o["status"] = Object{"incomplete": false, "nonResourceRules": []Object{}, "resourceRules": rules}
	}
	return o, nil
}

// groups returns the API groups with the versions of their resources.
func (s *Server) groups() (groups []metav1.APIGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.served {
		gv := r.gvk().GroupVersion()
		this := metav1.GroupVersionForDiscovery{GroupVersion: r.Version, Version: gv.Version}
		i := slices.IndexFunc(groups, func(g metav1.APIGroup) bool { return g.Name == gv.Group })
		switch {
		case gv == schema.GroupVersion{Version: "v1"}: // is in /api
		case i < 0:
			groups = append(groups, metav1.APIGroup{Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{this}, PreferredVersion: this})
		case !slices.Contains(groups[i].Versions, this):
			groups[i].Versions = append(groups[i].Versions, this)
		}
	}
	return groups
}

// resources returns the resources of a version.
func (s *Server) resources(version string) (all []metav1.APIResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.served {
		if r.Version != version {
			continue
		}
		all = append(all, metav1.APIResource{Name: r.Name, SingularName: strings.ToLower(r.Kind), Namespaced: r.has(Namespaced), Kind: r.Kind,
			Verbs: metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}})
		if r.has(Status) {
			all = append(all, metav1.APIResource{Name: r.Name + "/status", Namespaced: r.has(Namespaced), Kind: r.Kind,
				Verbs: metav1.Verbs{"get", "patch", "update"}})
		}
	}
	return all
}

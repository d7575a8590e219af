package provision

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"

	"kubevirt.io/hostpath-provisioner/controller/apitest"
	"kubevirt.io/hostpath-provisioner/controller/class"
)

// What is not asked for at start is missed only when it is used; what is asked for in vain would
// keep every agent unready.
func TestNeededIsTheClusterRole(t *testing.T) {
	// Without this one the loop does not start, and says so.
	want := map[string]bool{"get nodes": true}
	for _, n := range needed {
		for verb := range strings.FieldsSeq(n.verbs) {
			want[strings.TrimSpace(verb+" "+path.Join(n.group, n.resource)+" "+n.object)] = true
		}
	}
	for _, mode := range []string{"legacy", "csi"} {
		data, err := os.ReadFile("../../manifests/" + mode + "/rbac.yaml")
		if err != nil {
			t.Fatal(err)
		}
		var role rbacv1.ClusterRole
		first, _, _ := bytes.Cut(data, []byte("\n---\n"))
		if err := yaml.UnmarshalStrict(first, &role); err != nil || role.Kind != "ClusterRole" {
			t.Fatalf("%s: %s, %v", mode, role.Kind, err)
		}
		got := map[string]bool{}
		for _, r := range role.Rules {
			what := path.Join(r.APIGroups[0], r.Resources[0])
			for _, name := range r.ResourceNames {
				what += " " + name
			}
			for _, verb := range r.Verbs {
				got[verb+" "+what] = true
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: the ClusterRole allows %v, the loop wants %v", mode, got, want)
		}
	}
}

// What is off without a permission is said of those that are asked for.
func TestWithoutIsNeeded(t *testing.T) {
	asked := map[permission]bool{}
	for _, n := range needed {
		for verb := range strings.FieldsSeq(n.verbs) {
			asked[permission(strings.TrimSpace(verb+" "+n.resource+" "+n.object))] = true
		}
	}
	for p := range without {
		if !asked[p] {
			t.Errorf("nobody asks for %q", p)
		}
	}
	if !asked[patchPVs] {
		t.Errorf("nobody asks for %q", patchPVs)
	}
}

// Without permission to patch PVs a PV gets no finalizer, which could not be removed, and the library is not let add
// one. One that is there is its to remove, however often that fails.
func TestNoFinalizerWithoutPatch(t *testing.T) {
	for _, may := range []bool{true, false} {
		c := examiner(t)
		if !may {
			c.info.lacking.Store(&[]permission{patchPVs})
		}
		pv := goodPV(t, c, "now")
		pv.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
		pv.Finalizers = []string{"example.com/keep", class.Finalizer}
		var created corev1.PersistentVolume
		patched := 0
		answers(t, c, func(r *http.Request) (int, any) {
			if r.Method == http.MethodPatch {
				patched++
			} else if err := json.NewDecoder(r.Body).Decode(&created); err != nil {
				t.Error(err)
			}
			return http.StatusOK, pv
		})
		pvs := savingClient{c.client, c}.CoreV1().PersistentVolumes()
		if _, err := pvs.Create(t.Context(), pv, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(created.Finalizers, class.Finalizer); got != may || !slices.Contains(created.Finalizers, "example.com/keep") {
			t.Errorf("may patch %v: created with finalizers %v", may, created.Finalizers)
		}
		for i, has := range []bool{false, true} {
			saved := pv.DeepCopy()
			saved.UID = "first"
			if !has {
				saved.Finalizers = nil
			}
			if err := c.pvs.informer.GetStore().Add(saved); err != nil {
				t.Fatal(err)
			}
			before := patched
			if _, err := pvs.Patch(t.Context(), pv.Name, types.StrategicMergePatchType, []byte("{}"), metav1.PatchOptions{}); err != nil {
				t.Error(err)
			}
			if asked := patched > before; asked != (may || has) {
				t.Errorf("%d: may patch %v, finalizer there %v: asked %v", i, may, has, asked)
			}
		}
	}
}

// The cluster's identity is optional; everything else that a node has to know is not.
func TestInfoWithoutCluster(t *testing.T) {
	node := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: "node-01", Labels: map[string]string{corev1.LabelHostname: "host-a"}}}
	for _, row := range []struct {
		path   string
		status int
		fails  bool
	}{
		{"/api/v1/namespaces/kube-system", http.StatusForbidden, false}, {"/api/v1/namespaces/kube-system", http.StatusNotFound, false},
		{"/api/v1/namespaces/kube-system", http.StatusInternalServerError, true}, {"/api/v1/nodes/node-01", http.StatusForbidden, true},
	} {
		c := examiner(t)
		reasons := map[int]metav1.StatusReason{http.StatusForbidden: metav1.StatusReasonForbidden,
			http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusInternalServerError: metav1.StatusReasonInternalError}
		answers(t, c, func(r *http.Request) (int, any) {
			if r.URL.Path == row.path {
				return row.status, apitest.Failure(row.status, reasons[row.status])
			}
			return http.StatusOK, node
		})
		i := NewInfo(c.client, "node-01")
		err := i.Read(t.Context())
		if (err != nil) != row.fails || err == nil && (i.Cluster() != "" || i.Hostname() != "host-a") {
			t.Errorf("%s answers %d: cluster %q, error %v", row.path, row.status, i.Cluster(), err)
		}
	}
}

// A watch of all PVs brings those that a selector would bring, and those that would get the label.
func TestWatchWithoutLabels(t *testing.T) {
	c := examiner(t)
	ours := goodPV(t, c, "now")
	older := ours.DeepCopy()
	older.Labels = nil
	other := older.DeepCopy()
	other.Annotations[class.AnnProvisionOnNode] = "node-02"
	for _, row := range []struct {
		name   string
		pv     *corev1.PersistentVolume
		before watch.EventType
		after  watch.EventType // none: it is not brought
	}{
		{"ours", ours, watch.Added, watch.Added}, {"older", older, watch.Modified, watch.Modified}, {"older, gone", older, watch.Deleted, watch.Deleted},
		{"another node's", other, watch.Added, ""}, {"ours no more", other, watch.Modified, watch.Deleted}, {"another node's, gone", other, watch.Deleted, ""},
		{"a bookmark", &corev1.PersistentVolume{}, watch.Bookmark, watch.Bookmark},
	} {
		e, keep := c.pvs.thisNodes(watch.Event{Type: row.before, Object: row.pv})
		if keep != (row.after != "") || keep && e.Type != row.after {
			t.Errorf("%s: %s, kept %v; want %q", row.name, e.Type, keep, row.after)
		}
	}
}

package pvs

import (
	"io"
	"net/http"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/apitest"
	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/nodeinfo"
)

// TestAnnotate writes the UIDs that a PV lacks in one request, and nothing if it has both.
func TestAnnotate(t *testing.T) {
	c := newPVs(t)
	node := apitest.Node("node-01", "host-a", "c")
	node[0].SetUID("node-uid")
	info := nodeinfo.New(apitest.Client(t, apitest.Objects("node-01", node...)), "node-01")
	if err := info.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.node = info
	pool := c.pools.All()[0]
	for name, row := range map[string]struct {
		pool, node string
		want       []string
	}{
		"both":         {pool.ID(), "node-uid", nil},
		"older Node":   {pool.ID(), "older", []string{`{"metadata":{"annotations":{"` + class.AnnNodeUID + `":"node-uid"},"uid":"pv-uid"}}`}},
		"annotation":   {pool.ID(), "node-uid", []string{`{"metadata":{"annotations":{"` + class.AnnProvisionOnNode + `":"node-01"},"uid":"pv-uid"}}`}},
		"another pool": {"6e0c", "node-uid", nil}, // validate refuses such a PV
		"neither": {"", "", []string{`{"metadata":{"annotations":{"` + class.AnnNodeUID + `":"node-uid","` + class.AnnPool + `":"` + pool.ID() +
			`"},"uid":"pv-uid"}}`}},
	} {
		var patches []string
		setAnswer(t, c, func(r *http.Request) (int, any) {
			if r.Method == http.MethodPatch {
				text, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				patches = append(patches, string(text))
			}
			return http.StatusOK, &corev1.PersistentVolume{}
		})
		pv := validPV(c, "wait")
		pv.UID, pv.Annotations[class.AnnPool], pv.Annotations[class.AnnNodeUID] = "pv-uid", row.pool, row.node
		if name == "annotation" {
			pv.Annotations[class.AnnProvisionOnNode] = "gone"
		}
		if err := c.annotate(t.Context(), pv, pool); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(patches, row.want) {
			t.Errorf("%s: patches %q, want %q", name, patches, row.want)
		}
	}
}

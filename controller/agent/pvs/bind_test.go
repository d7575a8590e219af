package pvs

import (
	"io"
	"net/http"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/agent/nodeinfo"
	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
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
	c.Node = info
	pool := c.Pools.All()[0]
	patch := func(annotations string) []string {
		return []string{`{"metadata":{"annotations":{` + annotations + `},"uid":"pv-uid"}}`}
	}
	node01, cluster := `"`+contract.AnnNodeUID+`":"node-uid"`, `"`+contract.AnnCluster+`":"c"`
	for name, row := range map[string]struct {
		pool, node, cluster, missing string
		want                         []string
	}{
		"all":             {pool.ID(), "node-uid", "c", "", nil},
		"older Node":      {pool.ID(), "older", "c", "", patch(node01)},
		"annotation":      {pool.ID(), "node-uid", "c", "", patch(`"` + contract.AnnProvisionOnNode + `":"node-01"`)},
		"another pool":    {"6e0c", "node-uid", "c", "", nil}, // validate refuses such a PV
		"older agent":     {pool.ID(), "node-uid", "", "", patch(cluster)},
		"another cluster": {pool.ID(), "older", "b", "", patch(cluster + "," + node01)},
		"was missing":     {pool.ID(), "node-uid", "c", "pool/node-uid", patch(`"` + contract.AnnMissing + `":null`)},
		"none":            {"", "", "", "", patch(cluster + "," + node01 + `,"` + contract.AnnPool + `":"` + pool.ID() + `"`)},
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
		pv.UID, pv.Annotations[contract.AnnPool], pv.Annotations[contract.AnnNodeUID], pv.Annotations[contract.AnnCluster] = "pv-uid", row.pool, row.node, row.cluster
		if row.missing != "" {
			pv.Annotations[contract.AnnMissing] = row.missing
		}
		if name == "annotation" {
			pv.Annotations[contract.AnnProvisionOnNode] = "gone"
		}
		if err := c.annotate(t.Context(), pv, pool); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(patches, row.want) {
			t.Errorf("%s: patches %q, want %q", name, patches, row.want)
		}
	}
}

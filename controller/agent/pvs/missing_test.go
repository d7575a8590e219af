package pvs

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/agent/nodeinfo"
	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// registeredAs has the Node with that UID and annotation.
func registeredAs(t *testing.T, p *PVs, uid, giveUp string) {
	t.Helper()
	objects := apitest.Node("node-01", "host-a", "c")
	for _, o := range objects {
		if o.GetName() == "node-01" {
			o.SetUID(metav1.ObjectMeta{UID: "new"}.UID)
			o.SetAnnotations(map[string]string{contract.AnnGiveUp: giveUp})
		}
	}
	info := nodeinfo.New(apitest.Client(t, apitest.Objects("node-01", objects...)), "node-01")
	if err := info.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info.UID() != uid {
		t.Fatalf("UID %q", info.UID())
	}
	p.Node = info
}

// TestReportMissing syncs a PV of an earlier Node whose pool is not at its path, or came without
// the volume. The agent reports the pool only if the Node's annotation gives the volume up, and the
// volume at once.
func TestReportMissing(t *testing.T) {
	for name, row := range map[string]struct {
		giveUp, pool, node, before string // "" is the pool that is open
		want                       string // the report
	}{
		"not given up":                   {"", "6e0c", "old", "", ""},
		"given up":                       {"new", "6e0c", "old", "", "pool/new"},
		"given up, reported before":      {"new", "6e0c", "old", "pool/new", ""},
		"reported by an earlier Node":    {"new", "6e0c", "old", "pool/old", "pool/new"},
		"for an earlier Node":            {"old", "6e0c", "older", "", ""},
		"of this Node":                   {"new", "6e0c", "new", "", ""},
		"of no Node":                     {"new", "6e0c", "", "", ""},
		"disk replaced":                  {"6e0c", "6e0c", "new", "", "pool/new"},
		"another disk replaced":          {"9f8e", "6e0c", "new", "", ""},
		"the pool came without it":       {"", "", "old", "", "volume/new"},
		"given up, the pool is open":     {"new", "", "old", "", "volume/new"},
		"the directory was removed":      {"", "", "new", "", ""},
		"no Node's UID, directory lost":  {"", "", "", "", ""},
		"PV of an older agent, no pool":  {"new", "none", "old", "", ""},
		"volume reported before already": {"", "", "old", "volume/new", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPVs(t)
			registeredAs(t, p, "new", row.giveUp)
			pv := validPV(p, "csi")
			pv.UID, pv.Annotations[contract.AnnNodeUID] = "pv-uid", row.node
			switch row.pool {
			case "":
			case "none":
				delete(pv.Annotations, contract.AnnPool)
			default:
				pv.Annotations[contract.AnnPool] = row.pool
			}
			if row.before != "" {
				pv.Annotations[contract.AnnMissing] = row.before
			}
			if err := p.informer.GetStore().Add(pv); err != nil {
				t.Fatal(err)
			}
			var patches []string
			setAnswer(t, p, func(r *http.Request) (int, any) {
				if r.Method == http.MethodPatch && r.URL.Path == "/api/v1/persistentvolumes/"+pv.Name {
					text, err := io.ReadAll(r.Body)
					if err != nil {
						t.Error(err)
					}
					patches = append(patches, string(text))
				}
				if r.URL.Path == "/api/v1/persistentvolumes/"+pv.Name {
					return http.StatusOK, pv
				}
				return http.StatusNotFound, apitest.Failure(http.StatusNotFound, metav1.StatusReasonNotFound)
			})
			if err := p.sync(t.Context(), pv.Name); err != nil {
				t.Fatal(err)
			}
			for id, since := range p.notOpen { // the pool has not been open for long enough at the next sync
				if len(patches) > 0 {
					t.Errorf("reported at once: %q", patches)
				}
				p.notOpen[id] = since.Add(-reportAfter)
			}
			if err := p.sync(t.Context(), pv.Name); err != nil {
				t.Fatal(err)
			}
			patches = slices.Compact(patches) // the PV of this test does not change
			var want []string
			if row.want != "" {
				want = []string{fmt.Sprintf(`{"metadata":{"annotations":{%q:%q},"uid":"pv-uid"}}`, contract.AnnMissing, row.want)}
			}
			if !slices.Equal(patches, want) {
				t.Errorf("patched %q, want %q", patches, want)
			}
		})
	}
}

// TestNotOpenForAWhile has a pool come and go: it is not open only since it was open last.
func TestNotOpenForAWhile(t *testing.T) {
	p := newPVs(t)
	pool := p.Pools.All()[0]
	p.notOpen[pool.ID()] = time.Now().Add(-time.Hour)
	if got := p.notOpenFor(pool.ID()); got != 0 || len(p.notOpen) > 0 {
		t.Errorf("an open pool is not open for %s", got)
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	if got := p.notOpenFor(pool.ID()); got > time.Minute || len(p.notOpen) != 1 {
		t.Errorf("a pool that was closed just now is not open for %s", got)
	}
}

// TestExpectedWithoutGivenUp expects no pool of PVs that were given up for this Node, so that one
// is opened on a new disk.
func TestExpectedWithoutGivenUp(t *testing.T) {
	p := newPVs(t)
	registeredAs(t, p, "new", "")
	for i, uid := range []string{"", "old", "new"} {
		pv := validPV(p, "csi")
		pv.Name = fmt.Sprintf("pvc-%d", i)
		pv.Annotations[contract.AnnPool] = fmt.Sprintf("pool-%d", i)
		if uid != "" {
			pv.Annotations[contract.AnnGivenUp] = uid
		}
		if err := p.informer.GetStore().Add(pv); err != nil {
			t.Fatal(err)
		}
	}
	pv := validPV(p, "csi")
	pool, _ := p.Names(pv)
	e := p.Expected(pool)
	slices.Sort(e.IDs)
	if want := []string{"pool-0", "pool-1"}; !slices.Equal(e.IDs, want) {
		t.Errorf("expects %q, want %q", e.IDs, want)
	}
}

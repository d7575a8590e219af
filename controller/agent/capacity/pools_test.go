package capacity

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/client-go/kubernetes/fake"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
)

// pools returns the pools that the node publishes.
func (x *publishing) pools() contract.NodePools {
	x.Helper()
	o := x.object(contract.PoolsClass)
	if o == nil {
		x.Fatal("no pools are published")
	}
	n, node, ok := contract.PoolsOf(o)
	if !ok || node != "node-01" || o.Capacity != nil {
		x.Fatalf("published: %+v", o)
	}
	return n
}

// The operator learns which pools are open also where no class selects them, and which pool is no
// longer open.
func TestPublishesPools(t *testing.T) {
	publish(t, func(x *publishing) {
		classes := x.client.StorageV1().StorageClasses()
		if err := classes.Delete(x.Context(), "one", metav1.DeleteOptions{}); err != nil {
			x.Fatal(err)
		}
		elapse(prompt)
		if now := x.pools(); !now.Opens(x.pool.ID()) || now.Opens("") || now.Pools[0].Path != x.pool.Path() {
			x.Errorf("published: %+v", now)
		}
		writes := len(x.client.Actions())
		elapse(2 * time.Minute)
		if now := len(x.client.Actions()); now != writes {
			x.Errorf("%d requests, although nothing changed", now-writes)
		}
		id := x.pool.ID()
		x.pool.Close()
		x.p.Changed(x.pool)
		elapse(prompt)
		if now := x.pools(); now.Opens(id) || now.Pools[0].ID != id || now.Pools[0].Why == "" {
			x.Errorf("published of a pool that is closed: %+v", now)
		}
	})
}

// The next agent publishes which pod had a pool open that it cannot open itself.
func TestPublishesWhoHadAPoolOpen(t *testing.T) {
	publish(t, func(x *publishing) {
		before := x.pools()
		before.Pools[0].OpenIn = "earlier"
		x.pool.Close()
		x.p.Changed(x.pool)
		elapse(prompt)
		now, known := x.p.pools(before)
		if p := now.Pools[0]; !known || p.Open || p.OpenIn != "earlier" || p.ID != before.Pools[0].ID {
			x.Errorf("%+v, %t", now, known)
		}
		before.Pools[0].Path = "/another"
		if now, _ := x.p.pools(before); now.Pools[0].OpenIn != "" {
			x.Errorf("of a pool that is at another path: %+v", now)
		}
	})
}

// A pool that belongs on other nodes is published for no class. One that is not here is not published at
// all.
func TestPoolOfOtherNodesIsNotPublished(t *testing.T) {
	var is atomic.Int32
	c := volume.Config{Selected: func() (pooldir.Selection, string) { return pooldir.Selection(is.Load()), "not here" }}
	publishOf(t, c, func(x *publishing) {
		is.Store(int32(pooldir.NotSelected))
		x.p.Changed(x.pool)
		elapse(prompt)
		if o := x.object("one"); o != nil || !x.pools().Opens(x.pool.ID()) {
			x.Errorf("published for the class: %+v, pools %+v", o, x.pools())
		}
		is.Store(int32(pooldir.Selected))
		x.p.Changed(x.pool)
		elapse(prompt)
		if x.object("one") == nil {
			x.Error("the node has the label again, and nothing is published")
		}
	})
	pool, err := volume.New(volume.Config{Name: "local", Path: filepath.Join(t.TempDir(), "p"), Selected: func() (pooldir.Selection, string) {
		return pooldir.NotSelected, "not here"
	}})
	if err != nil {
		t.Fatal(err)
	}
	_ = pool.Open() // it is not here
	pools, err := volume.NewPools(pool)
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Config{Client: fake.NewClientset(), Node: "node-01", Driver: "driver.example", Namespace: "agents", Pools: pools})
	if err != nil {
		t.Fatal(err)
	}
	if n, known := p.pools(contract.NodePools{}); !known || len(n.Pools) != 0 {
		t.Errorf("%+v, %t", n, known)
	}
}

// A reason that changes all the time is not written all the time.
func TestSamePools(t *testing.T) {
	state := func(pod, why string, open bool) contract.NodePools {
		return contract.NodePools{Pod: pod, Pools: []contract.NodePool{{Name: "a", Why: why, Open: open}}}
	}
	a := state("p", "one", false)
	for name, row := range map[string]struct {
		b             contract.NodePools
		reasons, same bool
	}{
		"same": {state("p", "one", false), true, true}, "opened": {state("p", "one", true), false, false},
		"another pod": {state("q", "one", false), false, false}, "none": {contract.NodePools{Pod: "p"}, false, false},
		"reason, soon": {state("p", "two", false), false, true}, "reason, later": {state("p", "two", false), true, false},
	} {
		if got := samePools(a, row.b, row.reasons); got != row.same {
			t.Errorf("%s: %t", name, got)
		}
	}
}

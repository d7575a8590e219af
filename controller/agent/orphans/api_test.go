package orphans

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientrecord "k8s.io/client-go/tools/record"

	"kubevirt.io/hostpath-provisioner/controller/agent/backends"
	"kubevirt.io/hostpath-provisioner/controller/agent/nodeinfo"
	"kubevirt.io/hostpath-provisioner/controller/agent/pvs"
	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// answers are answers of an API server; see apitest.Paths.
type answers = map[string]any

// orphaned returns a checker without a grace period, whose API server has these answers, and the
// bound volume of its pool. The agent has no PV in memory.
func orphaned(t *testing.T, says answers) (*Checker, volume.Volume) {
	t.Helper()
	pool, err := volume.New(volume.Config{Name: "legacy", Path: filepath.Join(t.TempDir(), "pool"), TrashRetention: time.Hour,
		Figures: classtest.Roomy})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	pools, err := volume.NewPools(pool)
	if err != nil {
		t.Fatal(err)
	}
	if err := pool.Open(); err != nil {
		t.Fatal(err)
	}
	owner := record.Owner{Namespace: "ns", Name: "data", UID: "1"}
	v, err := pool.Create(volume.Spec{Name: "pvc-1", Bytes: 1 << 20, PV: "pvc-1", Owner: owner, Cluster: "here", ReclaimPolicy: "Delete"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Bind(v.Name, volume.Binding{PV: "pvc-1", Owner: owner, ReclaimPolicy: "Delete"}); err != nil {
		t.Fatal(err)
	}
	client := apitest.Client(t, apitest.Paths(says))
	recorder := events.New(client, "node-01")
	t.Cleanup(recorder.Close)
	recorder.EventRecorder = clientrecord.NewFakeRecorder(10)
	info := nodeinfo.New(apitest.Client(t, apitest.Objects("node-01", apitest.Node("node-01", "host-a", "here")...)), "node-01")
	if err := info.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	of, err := backends.New(backends.Config{Node: info, Pools: pools, CSIDriver: contract.CSIProvisioner,
		Dialects: []backends.Served{{Dialect: contract.Own(false), Pools: pools.All()}}})
	if err != nil {
		t.Fatal(err)
	}
	local := pvs.New(pvs.Config{Client: client, Node: info, Events: recorder, Pools: pools, Backends: of.All})
	o, err := New(Config{
		Client: client, Pools: pools, PVs: local, Events: recorder,
		Node: &corev1.ObjectReference{Name: "node-01"}, Delete: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return o, v
}

// Any failed read, and any object that may need the
// volume, keeps it.
func TestOrphanIsKept(t *testing.T) {
	object := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	pvs := func(next string, all ...corev1.PersistentVolume) corev1.PersistentVolumeList {
		return corev1.PersistentVolumeList{ListMeta: metav1.ListMeta{Continue: next}, Items: all}
	}
	system := metav1.ObjectMeta{Name: "kube-system", UID: "here"}
	const pv, claim, list, cluster = "persistentvolumes/pvc-1", "namespaces/ns/persistentvolumeclaims/data", "persistentvolumes", "namespaces/kube-system"
	mine := object("data")
	mine.UID = "1"
	for what, row := range map[string]struct {
		path   string
		answer any
		noted  bool
		goes   bool
	}{
		"all gone":                  {cluster, corev1.Namespace{ObjectMeta: system}, true, true},
		"a new claim of the name":   {claim, corev1.PersistentVolumeClaim{ObjectMeta: object("data")}, true, true},
		"the PV is there":           {pv, corev1.PersistentVolume{ObjectMeta: object("pvc-1")}, false, false},
		"no answer about the PV":    {pv, 500, false, false},
		"the claim is there":        {claim, corev1.PersistentVolumeClaim{ObjectMeta: mine}, true, false},
		"a claim wants its PV":      {claim, corev1.PersistentVolumeClaim{ObjectMeta: object("data"), Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pvc-1"}}, true, false},
		"no answer about the claim": {claim, 403, false, false},
		"another cluster":           {cluster, corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "there"}}, true, false},
		"no answer about it":        {cluster, 403, true, false},
		"no list of PVs":            {list, 500, true, false},
		"half a list of PVs":        {list, pvs("more"), true, false},
		"a PV on a later page":      {list + "?more", pvs("", corev1.PersistentVolume{ObjectMeta: object("pvc-1")}), true, false},
	} {
		says := answers{cluster: corev1.Namespace{ObjectMeta: system}, list: pvs("")}
		if strings.HasPrefix(row.path, list+"?") {
			says[list] = pvs("more")
		}
		says[row.path] = row.answer
		o, v := orphaned(t, says)
		o.check(t.Context())
		_, err := os.Lstat(v.Path)
		if gone := os.IsNotExist(err); gone != row.goes {
			t.Errorf("%s: gone %v, want %v", what, gone, row.goes)
		}
		now, _ := o.Pools.All()[0].Get(v.Name)
		if noted := now.Orphan.Why != ""; !row.goes && noted != row.noted {
			t.Errorf("%s: noted %v, want %v", what, noted, row.noted)
		}
		if got := counts(t, o); got != row.noted && !row.goes || got && row.goes {
			t.Errorf("%s: counted %v", what, got)
		}
	}
}

// A clock that jumps does not end the grace period: agents must have run for as long, in one life
// or in several.
func TestOrphanOutlivesAClockThatJumps(t *testing.T) {
	o, v := orphaned(t, answers{
		"namespaces/kube-system": corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "here"}},
		"persistentvolumes":      corev1.PersistentVolumeList{},
	})
	o.Grace = 24 * time.Hour
	o.check(t.Context())
	pool := o.Pools.All()[0]
	jumped := jumpedBy(t, pool, v.Name, 48*time.Hour)
	at := place{jumped, v.Name}
	pools, err := volume.NewPools(jumped)
	if err != nil {
		t.Fatal(err)
	}
	restart := func() {
		t.Helper()
		o.Pools = pools
		if o, err = New(o.Config); err != nil {
			t.Fatal(err)
		}
		o.check(t.Context())
	}
	passes := func(d time.Duration) {
		w := o.timers[at]
		w.from = w.from.Add(-d)
		o.timers[at] = w
	}
	stays := func(when string, watched time.Duration) {
		t.Helper()
		now, err := jumped.Get(v.Name)
		if err != nil || now.Missing || now.Orphan.Watched() != watched {
			t.Errorf("%s: %+v, %v; want it there, watched for %v", when, now.Orphan, err, watched)
		}
	}
	restart()
	stays("after the jump", 0)
	passes(saveEvery / 2)
	o.check(t.Context())
	stays("after minutes", 0)
	passes(23*time.Hour - saveEvery/2)
	o.check(t.Context())
	stays("after 23 hours", 23*time.Hour)
	restart()
	stays("after a restart", 23*time.Hour)
	passes(time.Hour)
	o.check(t.Context())
	if _, err := jumped.Get(v.Name); !errors.Is(err, volume.ErrNotFound) || len(o.timers) > 0 {
		t.Errorf("after 24 hours: %v, timers: %v", err, o.timers)
	}
}

// jumpedBy opens the pool again with the volume's note that much older, as a clock that jumps
// forward leaves it.
func jumpedBy(t *testing.T, pool *volume.Pool, name string, d time.Duration) *volume.Pool {
	t.Helper()
	v, err := pool.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	pool.Close()
	path := filepath.Join(pool.Path(), ".hostpath-provisioner", "records", name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, after := v.Orphan.Since.Format(time.RFC3339), v.Orphan.Since.Add(-d).Format(time.RFC3339)
	if !bytes.Contains(data, []byte(before)) {
		t.Fatalf("no %s in %s", before, data)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(data, []byte(before), []byte(after)), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := volume.New(volume.Config{Name: pool.Name(), Path: pool.Path()})
	if err == nil {
		err = again.Open()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { again.Close() })
	return again
}

// The volume may be bound again between the last answer of the API server and the removal.
func TestOrphanIsCheckedLast(t *testing.T) {
	says := answers{
		"namespaces/kube-system": corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "here"}},
		"persistentvolumes":      corev1.PersistentVolumeList{},
	}
	o, v := orphaned(t, says)
	pool := o.Pools.All()[0]
	bound := 0
	answer := apitest.Paths(says)
	o.Client = apitest.Client(t, func(r *http.Request) (int, any) {
		if strings.HasSuffix(r.URL.Path, "/persistentvolumes") { // the last question
			if _, err := pool.Bind(v.Name, volume.Binding{PV: v.PV, Owner: v.Owner, ReclaimPolicy: v.ReclaimPolicy}); err != nil {
				t.Error(err)
			}
			bound++
		}
		return answer(r)
	})
	o.check(t.Context())
	if _, err := os.Lstat(v.Path); err != nil || bound != 1 {
		t.Errorf("a volume that was bound again %d times: %v", bound, err)
	}
}

// counts reports whether the metric counts a record.
func counts(t *testing.T, o *Checker) bool {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(o)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%v, %v", families, err)
	}
	for _, m := range families[0].GetMetric() {
		if m.GetLabel()[0].GetValue() == "record" {
			return m.GetGauge().GetValue() == 1
		}
	}
	t.Fatal("no series for records")
	return false
}

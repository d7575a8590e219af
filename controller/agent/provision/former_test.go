package provision

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/agent/backends"
	"kubevirt.io/hostpath-provisioner/controller/agent/pvs"
	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// formerly creates the claim's volume in the pool legacy, as the agent did before it ended.
func formerly(t *testing.T, c *Controller, o lib.ProvisionOptions, edit func(*volume.Spec)) volume.Volume {
	t.Helper()
	b := c.Backends.Named(o.StorageClass.Provisioner)
	spec := specOf(o.PVC, o.StorageClass)
	spec.Name, spec.PV, spec.Cluster = b.Directory(o.PVC, o.StorageClass), o.PVName, "c"
	if edit != nil {
		edit(&spec)
	}
	v, err := c.Pools.Create(c.Pools.Named("legacy"), spec)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// localPath returns the options of a claim whose class has the pool fast now, by its ConfigMap.
func localPath(t *testing.T, c *Controller) lib.ProvisionOptions {
	t.Helper()
	dialects, err := contract.ParseCompat("local-path")
	if err != nil {
		t.Fatal(err)
	}
	fast := c.Pools.Named("fast").Path()
	c.Backends.All = append(c.Backends.All, backends.HostPath(c.Info, backends.Served{Dialect: dialects[0], Pools: c.Pools.All(),
		Paths: func(string) ([]string, error) { return []string{fast}, nil }}))
	o := options("wait", "1Mi")
	o.StorageClass = &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "wait"}, Provisioner: contract.LocalPathProvisioner}
	return o
}

// poolOf returns the name of the pool whose volume a PV names.
func poolOf(c *Controller, pv *corev1.PersistentVolume) string {
	for _, pool := range c.Pools.All() {
		if pv.Annotations[contract.AnnPool] == pool.ID() && (pv.Spec.CSI == nil || contract.PoolName(pv.Spec.CSI.VolumeAttributes) == pool.Name()) &&
			(pv.Spec.CSI != nil || filepath.Dir(contract.DirectoryOf(pv)) == pool.Path()) {
			return pool.Name()
		}
	}
	return ""
}

// A claim whose volume was made in the pool that its class named before gets that volume. While
// that pool is not ready it gets another one.
func TestVolumeInFormerPool(t *testing.T) {
	for what, of := range map[string]func(*testing.T, *Controller) lib.ProvisionOptions{
		"local-path": localPath,
		"CSI":        func(*testing.T, *Controller) lib.ProvisionOptions { return options("csi-fast", "1Mi") },
	} {
		for _, ready := range []bool{true, false} {
			c := examiner(t)
			o := of(t, c)
			legacy := c.Pools.Named("legacy")
			v, want := formerly(t, c, o, nil), "legacy"
			if !ready {
				want = "fast"
				if err := legacy.Close(); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if r := c.refusalOf(t.Context(), c.Backends.Named(o.StorageClass.Provisioner), o.PVC, o.StorageClass); r != nil {
					t.Fatalf("%s, ready %v: %+v", what, ready, r)
				}
				pv, _, err := c.Provision(t.Context(), o)
				if err != nil {
					t.Fatalf("%s, ready %v: the claim is never served: %v", what, ready, err)
				}
				if got := poolOf(c, pv); got != want {
					t.Errorf("%s, ready %v: pool %q, want %s", what, ready, got, want)
				}
				if !c.PVs.NamesOther(withClaim(pv, o), legacy, v.Name) != ready {
					t.Errorf("%s, ready %v: the volume of the pool that was away would stay", what, ready)
				}
			}
		}
	}
}

// makeOlder makes the record of a volume an hour older, as a restarted agent reads it.
func makeOlder(t *testing.T, pool *volume.Pool, v volume.Volume) {
	t.Helper()
	away := pool.Path() + ".away"
	path := filepath.Join(away, ".hostpath-provisioner", "records", v.Name)
	err := os.Rename(pool.Path(), away)
	_ = pool.Ready() // notices that
	data, readErr := os.ReadFile(path)
	before, after := v.Created.Format(time.RFC3339), v.Created.Add(-time.Hour).Format(time.RFC3339)
	if !bytes.Contains(data, []byte(before)) {
		t.Fatalf("no %s in %s, %v", before, data, readErr)
	}
	err = errors.Join(err, os.WriteFile(path, bytes.ReplaceAll(data, []byte(before), []byte(after)), 0o600), os.Rename(away, pool.Path()), pool.Ready())
	if now, getErr := pool.Get(v.Name); err != nil || getErr != nil || now.State != v.State || !now.Created.Before(v.Created) {
		t.Fatalf("%+v, %v, %v", now.Record, err, getErr)
	}
}

// A volume that does not fit what its claim and class request now is removed and created again, in
// the pool of the class, unless it may have data.
func TestVolumeThatDoesNotFit(t *testing.T) {
	smaller := func(s *volume.Spec) { s.Bytes /= 2 }
	for what, row := range map[string]struct {
		edit   func(*volume.Spec)
		before func(*testing.T, *Controller, volume.Volume)
		young  bool
		words  string // of the refusal; "" if the volume is created again
	}{
		"another size":   {edit: smaller},
		"another mode":   {edit: func(s *volume.Spec) { s.Mode = 0o700 }},
		"another quota":  {edit: func(s *volume.Spec) { s.Quota = record.QuotaNone }},
		"made just now":  {edit: smaller, young: true, words: "when it is 30s old"},
		"another's":      {edit: func(s *volume.Spec) { s.Owner.UID = "2" }, words: "made for another claim"},
		"it is bound":    {edit: smaller, before: func(t *testing.T, c *Controller, v volume.Volume) { bindAgain(t, c, v) }, words: "a PV had it"},
		"it has a file":  {edit: smaller, before: func(t *testing.T, _ *Controller, v volume.Volume) { write(t, v) }, words: "not empty"},
		"a PV is there":  {edit: smaller, before: func(t *testing.T, c *Controller, _ volume.Volume) { save(t, c) }, words: "exists"},
		"API server 500": {edit: smaller, before: func(t *testing.T, c *Controller, _ volume.Volume) { failing(t, c) }, words: "read PV"},
	} {
		for _, in := range []string{"csi", "csi-fast", "local-path"} {
			t.Run(what+", "+in, func(t *testing.T) {
				c := examiner(t)
				apiServer(t, c, apitest.Objects("node-01"))
				var o lib.ProvisionOptions
				if in == "local-path" {
					o = localPath(t, c)
				} else {
					o = options(in, "1Mi")
				}
				v := formerly(t, c, o, row.edit)
				legacy := c.Pools.Named("legacy")
				if !row.young {
					makeOlder(t, legacy, v)
				}
				if row.before != nil {
					row.before(t, c, v)
				}
				pv, _, err := c.Provision(t.Context(), o)
				if row.words != "" {
					if err == nil || !strings.Contains(err.Error(), row.words) {
						t.Errorf("%v, %v, want %q", pv, err, row.words)
					}
					if now, err := legacy.Get(v.Name); err != nil || now.Trash != v.Trash || now.Missing {
						t.Errorf("the volume is gone: %+v, %v", now.Record, err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				want := map[string]string{"csi": "legacy", "csi-fast": "fast", "local-path": "fast"}[in]
				now, err := c.Pools.Named(want).Get(v.Name)
				if got := poolOf(c, pv); got != want || err != nil || now.Bytes != 1<<20 || now.Missing || now.Trash == v.Trash {
					t.Errorf("pool %q, want %s; %+v, %v", got, want, now.Record, err)
				}
				if _, err := legacy.Get(v.Name); (err == nil) != (want == "legacy") {
					t.Errorf("the volume that does not fit: %v", err)
				}
			})
		}
	}
}

// The agent made a volume in each pool while the other one was away, and no PV was saved: the claim
// gets the one of its class. The other one goes, now or when the PV is saved.
func TestVolumeInBothPools(t *testing.T) {
	for _, in := range []string{"csi", "csi-fast", "local-path"} {
		c := examiner(t)
		apiServer(t, c, apitest.Objects("node-01"))
		o, want := options("csi", "1Mi"), "legacy"
		if in != "csi" {
			want = "fast"
		}
		if in == "local-path" {
			o = localPath(t, c)
		} else {
			o.StorageClass = classtest.Class(in)
		}
		v := formerly(t, c, o, nil)
		fast := c.Pools.Named("fast")
		if _, err := fast.Create(volume.Spec{Name: v.Name, Bytes: v.Bytes, Owner: v.Owner, PV: v.PV, Cluster: v.Cluster}); err != nil {
			t.Fatal(err)
		}
		for _, pool := range c.Pools.All() {
			v, err := pool.Get(v.Name)
			if err != nil {
				t.Fatal(err)
			}
			makeOlder(t, pool, v)
		}
		pv, _, err := c.Provision(t.Context(), o)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := poolOf(c, pv); got != want {
			t.Errorf("%s: pool %q, want %s", in, got, want)
		}
		for _, pool := range c.Pools.All() {
			// One that stays is rolled back once the PV is saved, which names the other one.
			if _, err := pool.Get(v.Name); (pool.Name() == want) != (err == nil && !c.PVs.NamesOther(withClaim(pv, o), pool, v.Name)) {
				t.Errorf("%s: in pool %s: %v", in, pool.Name(), err)
			}
		}
	}
}

func bindAgain(t *testing.T, c *Controller, v volume.Volume) {
	t.Helper()
	if _, err := c.Pools.Named("legacy").Bind(v.Name, volume.Binding{PV: v.PV, Owner: v.Owner}); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, v volume.Volume) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(v.Path, "data"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// save makes the API server have a PV of the claim's name. The agent's cache is behind.
func save(t *testing.T, c *Controller) {
	t.Helper()
	apiServer(t, c, apitest.Objects("node-01", goodPV(c, "csi")))
}

// apiServer gives the PVs of the controller an API server with these answers.
func apiServer(t *testing.T, c *Controller, answer apitest.Answer) {
	t.Helper()
	c.PVs = pvs.New(pvs.Config{Client: apitest.Client(t, answer), Node: c.Info, Events: c.Events, Pools: c.Pools,
		Backends: c.Backends.All, Changed: func(*volume.Pool) {}})
}

func failing(t *testing.T, c *Controller) {
	t.Helper()
	apiServer(t, c, func(*http.Request) (int, any) {
		return http.StatusInternalServerError, apitest.Failure(http.StatusInternalServerError, metav1.StatusReasonUnknown)
	})
}

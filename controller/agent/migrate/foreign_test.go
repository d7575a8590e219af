package migrate

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// foreignPVs knows PVs of another provisioner, each with a directory of the PV's name in one pool.
type foreignPVs struct {
	nodePVs
	pool *volume.Pool
	all  []*corev1.PersistentVolume
}

func (f *foreignPVs) All() []*corev1.PersistentVolume        { return nil }
func (f *foreignPVs) Migratable() []*corev1.PersistentVolume { return f.all }
func (f *foreignPVs) SweepSoon()                             {}
func (f *foreignPVs) Validate(_ context.Context, pv *corev1.PersistentVolume, _ bool) (*volume.Pool, volume.Volume, error) {
	if v, err := f.pool.Get(pv.Name); err == nil {
		return f.pool, v, nil
	}
	return f.pool, volume.Volume{Record: record.Record{Name: pv.Name, PV: pv.Name, Bytes: 10 * mib}, Path: filepath.Join(f.pool.Path(), pv.Name)}, nil
}
func (f *foreignPVs) Adopt(pv *corev1.PersistentVolume, m record.Migration) (*volume.Pool, record.Record, error) {
	r, err := f.pool.AdoptMigrating(adoption(pv.Name), m)
	return f.pool, r, err
}

func adoption(name string) volume.Spec {
	return volume.Spec{Name: name, Bytes: 10 * mib, PV: name, Owner: record.Owner{Namespace: "default", Name: name, UID: "u-" + name}}
}

// foreign is a migrator whose node has n PVs of another provisioner.
func foreign(t *testing.T, n int) (*Migrator, *foreignPVs) {
	t.Helper()
	m, own := many(t, n)
	pool, err := volume.New(volume.Config{Name: "theirs", Path: t.TempDir() + "/theirs"})
	if err == nil {
		err = pool.Open()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	if m.Pools, err = volume.NewPools(pool); err != nil {
		t.Fatal(err)
	}
	pvs := &foreignPVs{pool: pool, all: own.all}
	m.PVs = pvs
	for _, pv := range pvs.all {
		pv.Annotations[contract.AnnProvisionedBy] = contract.SingleNodeProvisioner
		if err := m.Client.(apitest.Lister).Tracker().Update(corev1.SchemeGroupVersion.WithResource("persistentvolumes"), pv, ""); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(pool.Path(), pv.Name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return m, pvs
}

// A kill right after the first write leaves a journal, which every mode but run takes back, with
// the record.
func TestTakenBackInEveryMode(t *testing.T) {
	for _, mode := range []settings.MigrateMode{settings.MigrateOff, settings.MigratePlan, settings.MigrateBack, settings.MigrateAnnotated} {
		t.Run(string(mode), func(t *testing.T) {
			m, pvs := foreign(t, 1)
			name := pvs.all[0].Name
			f := m.check(t.Context())[0]
			if f.Verdict != Ready {
				t.Fatalf("%s: %s", f.Verdict, f.Reason)
			}
			if _, err := m.begin(f); err != nil {
				t.Fatal(err)
			}
			m.Mode = mode
			m.work(t.Context(), m.check(t.Context()))
			if v, err := pvs.pool.Get(name); err == nil {
				t.Errorf("the record stays: %+v", v.Record)
			}
		})
	}
}

// What an agent adopted when it served that provisioner is in use: it stays recorded and allocated,
// in every mode and also after a migration that was cancelled.
func TestRecordOfBeforeStays(t *testing.T) {
	for _, mode := range []settings.MigrateMode{settings.MigrateOff, settings.MigratePlan, settings.MigrateBack, settings.MigrateAnnotated} {
		t.Run(string(mode), func(t *testing.T) {
			m, pvs := foreign(t, 1)
			name := pvs.all[0].Name
			if _, err := pvs.pool.Adopt(adoption(name)); err != nil {
				t.Fatal(err)
			}
			if _, err := m.begin(m.check(t.Context())[0]); err != nil {
				t.Fatal(err)
			}
			m.Mode = mode
			for range 2 {
				m.work(t.Context(), m.check(t.Context()))
				if v, err := pvs.pool.Get(name); err != nil || v.Migrating() != nil {
					t.Errorf("%+v, %v", v.Record, err)
				}
			}
			if space, err := pvs.pool.Space(); err != nil || space.Allocated != 10*mib {
				t.Errorf("%d bytes are allocated, %v", space.Allocated, err)
			}
		})
	}
}

// A plan of many PVs lists their claims once a namespace and minute, and does not read each. It reads
// the driver's objects once a minute, and not at all if nothing could be migrated.
func TestRequestsOfAPlan(t *testing.T) {
	m, pvs := foreign(t, 50)
	m.Mode, m.served = settings.MigratePlan, time.Time{}
	c := m.Client.(apitest.Lister)
	c.ClearActions()
	for range 2 {
		for _, f := range m.check(t.Context()) {
			if f.Verdict != Ready || f.claim == nil || f.claim.UID != types.UID("u-"+f.PV) {
				t.Fatalf("%s: %s, %s, claim %v", f.PV, f.Verdict, f.Reason, f.claim)
			}
		}
	}
	requests := map[string]int{}
	for _, a := range c.Actions() {
		requests[a.GetVerb()+" "+a.GetResource().Resource]++
	}
	if requests["list persistentvolumeclaims"] != 1 || requests["get persistentvolumeclaims"] != 0 || requests["get csinodes"] != 1 ||
		requests["get csidrivers"] != 1 {
		t.Errorf("two checks of %d PVs made the requests %v", len(pvs.all), requests)
	}
	every := pvs.all
	pvs.all, m.served = nil, time.Time{}
	c.ClearActions()
	if m.check(t.Context()); len(c.Actions()) > 0 {
		t.Errorf("a check of no PV made the requests %v", c.Actions())
	}
	pvs.all = every
	// Before it begins, the claim is read from the API server.
	m.Mode, m.Events = settings.MigrateRun, &warnings{Events: m.Events}
	pvs.all = pvs.all[:1]
	if err := c.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), "default", pvs.all[0].Name); err != nil {
		t.Fatal(err)
	}
	m.work(t.Context(), m.check(t.Context()))
	if w := writes(m); len(w) > 0 {
		t.Error(fmt.Errorf("a claim that is gone: writes %q", w))
	}
}

package migrate

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// inNewCluster is oneVolume in the cluster "here".
type inNewCluster struct{ oneVolume }

func (inNewCluster) At(pool *volume.Pool) contract.Place {
	return contract.Place{Node: "node-01", Hostname: "host-a", Cluster: "here", Pool: pool.ID()}
}

func (l inNewCluster) All() []*corev1.PersistentVolume { return nil }

func (l inNewCluster) Migratable() []*corev1.PersistentVolume { return nil }

// elsewhere returns a migrator whose pool has a migration that began in the cluster, adopted or not,
// at that step. The API server has these objects.
func elsewhere(t *testing.T, cluster string, adopted bool, step record.MigrationStep, objects ...runtime.Object) (*Migrator, *volume.Pool) {
	t.Helper()
	pool := openPool(t)
	pools, err := volume.NewPools(pool)
	if err != nil {
		t.Fatal(err)
	}
	was, next := older(), older()
	next.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: contract.CSIProvisioner, VolumeHandle: pvName}}
	next.UID = ""
	journal := record.Migration{To: toCSI}
	if journal.Old, err = json.Marshal(was); err == nil {
		journal.New, err = json.Marshal(next)
	}
	s := volume.Spec{Name: pvName, Bytes: 10 * mib, PV: pvName, Owner: record.Owner{Namespace: "default", Name: "data", UID: "41d7"}, Cluster: cluster}
	if adopted {
		must(t, err, os.Mkdir(pool.Path()+"/"+pvName, 0o755))
		_, err = pool.AdoptMigrating(s, journal)
	} else {
		_, err = pool.Create(s)
		must(t, err)
		_, err = pool.Bind(pvName, volume.Binding{PV: pvName, Owner: s.Owner, ReclaimPolicy: "Delete"})
		must(t, err)
		_, err = pool.BeginMigration(pvName, journal)
	}
	must(t, err)
	if step == record.MigrationCutover {
		must(t, pool.AdvanceMigration(pvName, record.CutOver()))
	}
	client := fake.NewClientset(objects...)
	recorder := events.New(client, "node-01")
	t.Cleanup(recorder.Close)
	m, err := New(Config{Client: apitest.Listing(client), Node: "node-01", Pools: pools, Driver: contract.CSIProvisioner,
		PVs: inNewCluster{oneVolume{pool: pool}}, Events: recorder, Mode: settings.MigrateOff})
	must(t, err)
	m.claims = cache.NewStore(cache.MetaNamespaceKeyFunc)
	return m, pool
}

// boundHere are a PV of that kind and its claim in this cluster.
func boundHere(isCSI bool) (*corev1.PersistentVolume, *corev1.PersistentVolumeClaim) {
	pv, claim := older(), claimOf("10Mi")
	claim.UID, pv.UID, pv.Spec.ClaimRef.UID = "claim-here", "pv-here", "claim-here"
	if isCSI {
		pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: contract.CSIProvisioner, VolumeHandle: pvName}}
	}
	return pv, claim
}

// A migration of another cluster makes no PV here, drops no record and stops nothing else, until a PV
// is Bound to a claim of this cluster: then it ends by the kind of that PV, and the record stays.
func TestMigrationOfAnotherCluster(t *testing.T) {
	for _, step := range []record.MigrationStep{record.MigrationPrepared, record.MigrationCutover} {
		for _, adopted := range []bool{false, true} {
			for what, row := range map[string]struct {
				isCSI, none bool
				spoil       func(*corev1.PersistentVolume, *corev1.PersistentVolumeClaim)
				ends        bool
			}{
				"nothing is there": {none: true},
				"the old kind":     {isCSI: false, ends: true},
				"the new kind":     {isCSI: true, ends: true},
				"a Released PV": {isCSI: true, spoil: func(pv *corev1.PersistentVolume, _ *corev1.PersistentVolumeClaim) {
					pv.Status.Phase = corev1.VolumeReleased
				}},
				"a claim of another UID":  {isCSI: true, spoil: func(_ *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) { c.UID = "third" }},
				"a claim with another PV": {isCSI: true, spoil: func(_ *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pvc-2" }},
				"a claim that goes": {isCSI: true, spoil: func(_ *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) {
					c.DeletionTimestamp = &metav1.Time{}
				}},
				"the PV of the lost claim": {isCSI: true, spoil: func(pv *corev1.PersistentVolume, _ *corev1.PersistentVolumeClaim) { pv.Spec.ClaimRef.UID = "41d7" }},
			} {
				pv, claim := boundHere(row.isCSI)
				if row.spoil != nil {
					row.spoil(pv, claim)
				}
				objects := []runtime.Object{pv, claim}
				if row.none {
					objects = nil
				}
				m, pool := elsewhere(t, "there", adopted, step, objects...)
				all := m.check(t.Context())
				m.work(t.Context(), all)
				r, there := pool.Cached(pvName)
				now := ""
				if r.Migration != nil {
					now = string(r.Migration.Step)
				}
				want := string(step)
				switch {
				case row.ends && row.isCSI:
					want = string(record.MigrationDone)
				case row.ends:
					want = ""
				}
				if !there || now != want || row.ends && r.PVUID != "pv-here" || len(all) != 1 || all[0].Verdict != Left {
					t.Errorf("%s, adopted %v, %s: record %v, journal %q, want %q; %+v", step, adopted, what, there, now, want, all)
				}
				if m.Stranded() != nil {
					t.Errorf("%s: %v", what, m.Stranded())
				}
				if _, err := m.Client.CoreV1().PersistentVolumes().Get(t.Context(), pvName, metav1.GetOptions{}); (err == nil) == row.none {
					t.Errorf("%s: the PV: %v", what, err)
				}
			}
		}
	}
}

// A migration of this cluster, or of one that no record names, goes on as before.
func TestMigrationOfThisCluster(t *testing.T) {
	for _, cluster := range []string{"here", ""} {
		m, pool := elsewhere(t, cluster, true, record.MigrationPrepared)
		all := m.check(t.Context())
		if slices.ContainsFunc(all, func(f candidate) bool { return f.elsewhere }) {
			t.Errorf("cluster %q: %+v", cluster, all)
		}
		m.work(t.Context(), all)
		if r, there := pool.Cached(pvName); there {
			t.Errorf("cluster %q: it was not given up: %+v", cluster, r)
		}
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

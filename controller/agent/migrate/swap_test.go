package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// oneVolume is a provisioner that knows a single volume.
type oneVolume struct {
	nodePVs
	pool *volume.Pool
}

func (l oneVolume) IsForeign(*corev1.PersistentVolume) bool { return false }

func (l oneVolume) Validate(context.Context, *corev1.PersistentVolume, bool) (*volume.Pool, volume.Volume, error) {
	v, err := l.pool.Get(pvName)
	return l.pool, v, err
}

// begun returns a migration of older() that has just begun, and a migrator that would take it on.
// The API server has the PV as the edit leaves it, its claim, and all that a CSI PV needs.
func begun(t *testing.T, edit func(*corev1.PersistentVolume)) (*Migrator, *job) {
	t.Helper()
	pool := openPool(t)
	owner := record.Owner{Namespace: "default", Name: "data", UID: "41d7"}
	if _, err := pool.Create(volume.Spec{Name: pvName, Bytes: 10 * mib, PV: pvName, Owner: owner}); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Bind(pvName, volume.Binding{PV: pvName, Owner: owner}); err != nil {
		t.Fatal(err)
	}
	pools, err := volume.NewPools(pool)
	if err != nil {
		t.Fatal(err)
	}
	now := older()
	edit(now)
	noAttacher := false
	client := fake.NewClientset(now, claimOf("10Mi"),
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: contract.CSIProvisioner}, Spec: storagev1.CSIDriverSpec{AttachRequired: &noAttacher}},
		&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "node-01"}, Spec: storagev1.CSINodeSpec{
			Drivers: []storagev1.CSINodeDriver{{Name: contract.CSIProvisioner, NodeID: "node-01"}},
		}})
	heedDryRuns(client)
	recorder := events.New(client, "node-01")
	t.Cleanup(recorder.Close)
	m, err := New(Config{Client: apitest.Listing(client), Node: "node-01", Pools: pools, Driver: contract.CSIProvisioner, PVs: oneVolume{pool: pool}, Events: recorder, Mode: settings.MigrateRun})
	if err != nil {
		t.Fatal(err)
	}
	m.claims = cache.NewStore(cache.MetaNamespaceKeyFunc)
	f := m.node(t.Context(), true).candidate(m.subject(t.Context(), older(), true))
	if f.Verdict != Ready {
		t.Fatalf("%s: %s", f.Verdict, f.Reason)
	}
	j, err := m.begin(f)
	if err != nil {
		t.Fatal(err)
	}
	return m, j
}

// heedDryRuns makes a fake client answer dry runs as an API server that admits all of them does. By
// itself it would carry them out.
func heedDryRuns(client *fake.Clientset) {
	client.PrependReactor("*", "persistentvolumes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		switch a := a.(type) {
		case clienttesting.CreateActionImpl:
			return len(a.CreateOptions.DryRun) > 0, a.Object, nil
		case clienttesting.PatchActionImpl:
			if len(a.PatchOptions.DryRun) == 0 {
				return false, nil, nil
			}
			return true, wouldBe(client.Tracker(), a), nil
		case clienttesting.DeleteActionImpl:
			return len(a.DeleteOptions.DryRun) > 0, nil, nil
		}
		return false, nil, nil
	})
}

// wouldBe is the PV after a patch, which is not stored.
func wouldBe(objects clienttesting.ObjectTracker, a clienttesting.PatchActionImpl) *corev1.PersistentVolume {
	obj, err := objects.Get(a.GetResource(), "", a.Name)
	if err != nil {
		panic(err)
	}
	pv := obj.(*corev1.PersistentVolume).DeepCopy()
	if err := json.Unmarshal(a.Patch, pv); err != nil { // a merge patch of maps and strings
		panic(err)
	}
	return pv
}

func readPV(t *testing.T, client kubernetes.Interface) *corev1.PersistentVolume {
	t.Helper()
	pv, err := client.CoreV1().PersistentVolumes().Get(t.Context(), pvName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pv
}

// The new PV is made from the journal, so it would lack what was written on the old one since.
func TestEditedPVIsNotReplaced(t *testing.T) {
	for name, row := range map[string]struct {
		edit   func(*corev1.PersistentVolume)
		gaveUp bool
	}{
		"not edited":    {func(*corev1.PersistentVolume) {}, false},
		"policy alone":  {func(pv *corev1.PersistentVolume) { pv.Annotations[contract.AnnPolicy] = "Delete" }, false},
		"label":         {func(pv *corev1.PersistentVolume) { pv.Labels["app"] = "web" }, true},
		"annotation":    {func(pv *corev1.PersistentVolume) { pv.Annotations["backup"] = "hourly" }, true},
		"mount options": {func(pv *corev1.PersistentVolume) { pv.Spec.MountOptions = []string{"noatime"} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			m, j := begun(t, row.edit)
			if _, err := m.next(t.Context(), j); errors.Is(err, errCancelled) != row.gaveUp || err != nil && !row.gaveUp {
				t.Fatalf("error %v, want it given up: %v", err, row.gaveUp)
			}
			want := corev1.PersistentVolumeReclaimRetain
			if row.gaveUp {
				want = corev1.PersistentVolumeReclaimDelete
			}
			if got := readPV(t, m.Client).Spec.PersistentVolumeReclaimPolicy; got != want {
				t.Errorf("the PV has policy %s, want %s", got, want)
			}
			v, err := j.pool.Get(pvName)
			if err != nil || (v.Migrating() != nil) == row.gaveUp {
				t.Errorf("journal %+v, %v", v.Migration, err)
			}
		})
	}
}

// A PV with policy Delete must never go while its volume stays: other provisioners and the loop of
// an older version would take the volume for one to be removed.
func TestDeletedPVIsRetainedBeforeItGoes(t *testing.T) {
	m, j := begun(t, func(pv *corev1.PersistentVolume) {
		now := metav1.Now()
		pv.DeletionTimestamp = &now
	})
	if err := j.advance(record.CutOver()); err != nil {
		t.Fatal(err)
	}
	j.step = record.MigrationCutover
	for _, step := range []struct {
		name       string
		finalizers int
	}{{"retained", 2}, {"let go", 0}} {
		if _, err := m.next(t.Context(), j); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		pv := readPV(t, m.Client)
		if pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain || len(pv.Finalizers) != step.finalizers {
			t.Errorf("%s: the PV has policy %s and finalizers %v, want Retain and %d of them", step.name,
				pv.Spec.PersistentVolumeReclaimPolicy, pv.Finalizers, step.finalizers)
		}
	}
}

// The claim is deleted in the middle: the PV stays with Retain for good, and nothing on it says
// otherwise.
func TestPolicyAfterLostClaim(t *testing.T) {
	m, j := begun(t, func(*corev1.PersistentVolume) {})
	c := m.Client.(apitest.Lister)
	c.PrependReactor("create", "persistentvolumes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		pv := a.(clienttesting.CreateAction).GetObject().(*corev1.PersistentVolume)
		pv.UID, pv.Status.Phase = "new-uid", corev1.VolumeReleased // as the controller-manager: its claim is gone
		return false, nil, nil
	})
	heedDryRuns(c.Clientset)
	for range 3 { // retain, cut over, delete
		if _, err := m.next(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.CoreV1().PersistentVolumeClaims("default").Delete(t.Context(), "data", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := m.move(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	pv := readPV(t, m.Client)
	if pv.Annotations[contract.AnnPolicy] != "" || pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Errorf("policy %s, annotations %v", pv.Spec.PersistentVolumeReclaimPolicy, pv.Annotations)
	}
	if v, err := j.pool.Get(pvName); err != nil || v.Migration == nil || v.Migration.Stopped == "" {
		t.Errorf("journal %+v, %v", v.Migration, err)
	}
}

// The pool has another path since the old PV went: the PV that is made has it, too, and one that
// was made before is recognised.
func TestPoolMovedInTheMiddle(t *testing.T) {
	m, pvs := many(t, 1)
	data, err := encodePV(pvs.all[0])
	if err != nil {
		t.Fatal(err)
	}
	next := pvs.all[0].DeepCopy()
	next.UID, next.Annotations[contract.AnnReplaces] = "", string(pvs.all[0].UID)
	planned, err := encodePV(next)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pvs.pool.BeginMigration(next.Name, record.Migration{To: toHostPath, Old: data, New: planned}); err != nil {
		t.Fatal(err)
	}
	f := m.check(t.Context())[0]
	if f.job == nil || f.job.new.Spec.HostPath.Path != f.v.Path || f.v.Path == next.Spec.HostPath.Path {
		t.Fatalf("it makes a PV at %s of the volume at %s", f.job.new.Spec.HostPath.Path, f.v.Path)
	}
	for _, path := range []string{f.v.Path, next.Spec.HostPath.Path} {
		there := next.DeepCopy()
		there.UID, there.Spec.HostPath.Path = "new", path
		if !f.job.isNew(there) {
			t.Errorf("a PV at %s is taken for a stranger's", path)
		}
	}
}

// An agent that does not serve the new PV cancels a migration while the old PV is there. After that
// it leaves everything as it is, and says on the claim and at /readyz whose turn it is.
func TestStranded(t *testing.T) {
	for name, row := range map[string]struct {
		deleted  bool
		unserved string
		stranded bool
	}{
		"the old PV is there":            {false, toCSI, false},
		"the old PV is gone":             {true, toCSI, true},
		"the old PV is gone, and served": {true, toHostPath, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, j := begun(t, func(*corev1.PersistentVolume) {})
				for range 2 { // retain, cut over
					if _, err := m.next(t.Context(), j); err != nil {
						t.Fatal(err)
					}
				}
				if row.deleted {
					if _, err := m.next(t.Context(), j); err != nil {
						t.Fatal(err)
					}
				}
				m.Mode, m.PVs = settings.MigrateOff, oneVolume{nodePVs: nodePVs{unserved: row.unserved}, pool: j.pool}
				said := &warnings{Events: m.Events}
				m.Events = said
				if err := Open(m.Pools); err == nil || !strings.Contains(err.Error(), "manifests/csi") {
					t.Errorf("without a migrator: %v", err)
				}
				m.work(t.Context(), m.check(t.Context()))
				err := m.Stranded()
				if (err != nil) != row.stranded || strings.Contains(said.claim, "both-modes") != row.stranded {
					t.Errorf("not ready because of %v, event %q", err, said.claim)
				}
				if err != nil && (!strings.Contains(err.Error(), "manifests/csi") || !strings.Contains(err.Error(), "default/data")) {
					t.Error(err)
				}
				_, err = m.Client.CoreV1().PersistentVolumes().Get(t.Context(), pvName, metav1.GetOptions{})
				if there := err == nil; there == row.stranded {
					t.Errorf("the PV: %v", err)
				}
				m.PVs = oneVolume{pool: j.pool}
				m.work(t.Context(), m.check(t.Context()))
				if err := m.Stranded(); err != nil {
					t.Errorf("an agent of both backends: %v", err)
				}
				readPV(t, m.Client)
			})
		})
	}
}

// An agent whose role does not allow to annotate claims waits for the controller-manager's next
// resync.
func TestClaimMayNotBeAnnotated(t *testing.T) {
	m, j := begun(t, func(*corev1.PersistentVolume) {})
	c := m.Client.(apitest.Lister)
	patches := 0
	c.PrependReactor("patch", "persistentvolumeclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		patches++
		return true, nil, apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), "data", nil)
	})
	claim := claimOf("10Mi")
	claim.Status.Phase = corev1.ClaimLost
	if err := c.Tracker().Update(corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), claim, "default"); err != nil {
		t.Fatal(err)
	}
	pv := j.new.DeepCopy()
	pv.UID, pv.Status.Phase = "new", corev1.VolumeBound
	for range 3 {
		if s, err := m.complete(t.Context(), j, pv); s != waits || err != nil {
			t.Errorf("%v, %v", s, err)
		}
	}
	if patches != 1 {
		t.Errorf("%d attempts, want one", patches)
	}
}

// warnings are the Warnings about a claim and a PV.
type warnings struct {
	Events
	claim, pv string
}

func (w *warnings) Warn(_ context.Context, about corev1.ObjectReference, _, _, message string) {
	if about.Kind == "PersistentVolume" {
		w.pv += message
	} else {
		w.claim += message
	}
}

package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

func answer(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
}

// answers are how an API server refuses a write, and whether only a person can change that.
var answers = map[string]struct {
	err       error
	permanent bool
}{
	"a role or a policy": {answer(403, metav1.StatusReasonForbidden, "not yet"), true},
	// the default reason of a ValidatingAdmissionPolicy
	"a policy without a reason": {answer(422, metav1.StatusReasonInvalid, "denied request: not yet"), true},
	"a webhook without a code":  {answer(400, metav1.StatusReasonBadRequest, "admission webhook x denied the request: not yet"), true},
	"a webhook that is down":    {apierrors.NewInternalError(errors.New("failed calling webhook: not yet")), false},
}

// manyPVs knows several volumes of one pool, by the PV's name.
type manyPVs struct {
	nodePVs
	pool *volume.Pool
	all  []*corev1.PersistentVolume
}

func (p *manyPVs) All() []*corev1.PersistentVolume         { return p.all }
func (p *manyPVs) Migratable() []*corev1.PersistentVolume  { return nil }
func (p *manyPVs) IsForeign(*corev1.PersistentVolume) bool { return false }
func (p *manyPVs) Validate(_ context.Context, pv *corev1.PersistentVolume, _ bool) (*volume.Pool, volume.Volume, error) {
	v, err := p.pool.Get(pv.Name)
	return p.pool, v, err
}

// many is a migrator whose node has n bound hostPath volumes, and the PVs that its check finds.
func many(t *testing.T, n int) (*Migrator, *manyPVs) {
	t.Helper()
	m, j := begun(t, func(*corev1.PersistentVolume) {})
	if err := j.advance(record.CancelMigration()); err != nil {
		t.Fatal(err)
	}
	pvs := &manyPVs{pool: j.pool}
	m.PVs = pvs
	for i := range n {
		name := fmt.Sprintf("pvc-v%d", i)
		uid := types.UID("u-" + name)
		owner := record.Owner{Namespace: "default", Name: name, UID: string(uid)}
		if _, err := j.pool.Create(volume.Spec{Name: name, Bytes: 10 * mib, PV: name, Owner: owner}); err != nil {
			t.Fatal(err)
		}
		if _, err := j.pool.Bind(name, volume.Binding{PV: name, Owner: owner}); err != nil {
			t.Fatal(err)
		}
		pv, claim := older(), claimOf("10Mi")
		pv.Name, pv.UID, pv.Spec.ClaimRef.Name, pv.Spec.ClaimRef.UID = name, "old-"+uid, name, uid
		claim.Name, claim.UID, claim.Spec.VolumeName = name, uid, name
		for _, o := range []runtime.Object{pv, claim} {
			if err := m.Client.(apitest.Lister).Tracker().Add(o); err != nil {
				t.Fatal(err)
			}
		}
		pvs.all = append(pvs.all, pv)
	}
	return m, pvs
}

// refuse makes the API server refuse such writes of PVs, dry runs too if it is to.
func refuse(m *Migrator, verb string, dry bool, err error) {
	m.Client.(apitest.Lister).PrependReactor(verb, "persistentvolumes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return dry || !isDry(a), nil, err
	})
}

func isDry(a clienttesting.Action) bool {
	switch a := a.(type) {
	case clienttesting.CreateActionImpl:
		return len(a.CreateOptions.DryRun) > 0
	case clienttesting.PatchActionImpl:
		return len(a.PatchOptions.DryRun) > 0
	case clienttesting.DeleteActionImpl:
		return len(a.DeleteOptions.DryRun) > 0
	}
	return false
}

// writes are the verbs of the writes of PVs that were no dry runs.
func writes(m *Migrator) (all []string) {
	for _, a := range m.Client.(apitest.Lister).Actions() {
		if a.GetResource().Resource == "persistentvolumes" && a.GetVerb() != "get" && !isDry(a) {
			all = append(all, a.GetVerb())
		}
	}
	return all
}

// What the API server does not admit is known before anything is written: to the PV, to the
// journal, or to the claim.
func TestRefusedBeforeItBegins(t *testing.T) {
	for name, row := range answers {
		for _, verb := range []string{"create", "delete", "patch"} {
			t.Run(name+" refuses to "+verb, func(t *testing.T) {
				m, pvs := many(t, 3)
				refuse(m, verb, true, row.err)
				said := &warnings{Events: m.Events}
				m.Events = said
				m.work(t.Context(), m.check(t.Context()))
				if w := writes(m); len(w) > 0 {
					t.Errorf("writes of PVs: %q", w)
				}
				if open, err := pvs.pool.Migrations(); err != nil || len(open) > 0 {
					t.Errorf("%d journals, %v", len(open), err)
				}
				want := Waiting
				if row.permanent {
					want = Refused
				}
				if strings.Contains(said.claim, "not yet") != row.permanent || said.pv != "" {
					t.Errorf("event on the claim %q, on the PV %q", said.claim, said.pv)
				}
				m.Client.(apitest.Lister).ClearActions()
				for range 2 { // no attempt for a while
					all := m.check(t.Context())
					for _, f := range all {
						if f.Verdict != want || !strings.Contains(f.Reason, "not yet") {
							t.Errorf("%s: %s, %s; want %s", f.PV, f.Verdict, f.Reason, want)
						}
					}
					m.work(t.Context(), all)
				}
				for _, a := range m.Client.(apitest.Lister).Actions() {
					if a.GetResource().Resource == "persistentvolumes" {
						t.Errorf("it is tried again at once: %s", a.GetVerb())
					}
				}
			})
		}
	}
}

// A refusal ends with its time, or with an edit of the PV.
func TestRefusalEnds(t *testing.T) {
	m, pvs := many(t, 1)
	if err := m.refuse(t.Context(), pvs.all[0], toCSI, answers["a role or a policy"].err); !errors.Is(err, errCancelled) {
		t.Fatal(err)
	}
	verdict := func() (Verdict, bool) {
		f := m.check(t.Context())[0]
		return f.Verdict, f.retry
	}
	if v, retry := verdict(); v != Refused || retry {
		t.Errorf("%s, retry: %v", v, retry)
	}
	r := m.refusals[pvs.all[0].Name]
	r.until = time.Now()
	m.refusals[pvs.all[0].Name] = r
	if v, retry := verdict(); v != Refused || !retry {
		t.Errorf("after its time: %s, retry: %v", v, retry)
	}
	r.until = time.Now().Add(time.Hour)
	m.refusals[pvs.all[0].Name] = r
	pvs.all[0] = pvs.all[0].DeepCopy()
	pvs.all[0].Annotations["edited"] = "yes"
	if v, _ := verdict(); v != Ready {
		t.Errorf("edited: %s", v)
	}
	pvs.all = nil
	_ = m.refuse(t.Context(), older(), toCSI, answers["a role or a policy"].err)
	m.work(t.Context(), nil)
	if len(m.refusals) > 0 {
		t.Errorf("refusals of PVs that are gone: %v", m.refusals)
	}
}

// The API server admitted the new PV, and does not any more when the old one is about to go: the
// old one stays as it was.
func TestRefusedBeforeTheDeletion(t *testing.T) {
	for name, row := range answers {
		for _, verb := range []string{"create", "delete"} {
			t.Run(name+" refuses to "+verb, func(t *testing.T) {
				m, j := begun(t, func(*corev1.PersistentVolume) {})
				refuse(m, verb, true, row.err)
				m.Events = &warnings{Events: m.Events}
				if err := m.move(t.Context(), j); !errors.Is(err, errCancelled) {
					t.Errorf("error %v, want %v", err, errCancelled)
				}
				pv := readPV(t, m.Client)
				if pv.UID != older().UID || pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || pv.Annotations[contract.AnnPolicy] != "" {
					t.Errorf("PV %s has policy %s, annotations %v", pv.UID, pv.Spec.PersistentVolumeReclaimPolicy, pv.Annotations)
				}
				if v, err := j.pool.Get(pvName); err != nil || v.Migration != nil {
					t.Errorf("journal %+v, %v", v.Migration, err)
				}
			})
		}
	}
}

// Older versions left the annotation on a PV that was promised to stay with Retain. It goes before
// the next migration begins, which restores the policy of the annotation if it is cancelled.
func TestStalePolicyGoesFirst(t *testing.T) {
	m, pvs := stalePolicy(t)
	m.work(t.Context(), m.check(t.Context()))
	now, err := m.Client.CoreV1().PersistentVolumes().Get(t.Context(), pvs.all[0].Name, metav1.GetOptions{})
	if err != nil || now.Annotations[contract.AnnPolicy] != "" || now.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Errorf("policy %s, annotations %v, %v", now.Spec.PersistentVolumeReclaimPolicy, now.Annotations, err)
	}
	if v, err := pvs.pool.Get(now.Name); err != nil || v.Migrating() != nil {
		t.Errorf("journal %+v, %v", v.Migration, err)
	}
}

// stalePolicy is a migrator whose node has a PV with the annotation of a migration that is over.
func stalePolicy(t *testing.T) (*Migrator, *manyPVs) {
	t.Helper()
	m, pvs := many(t, 1)
	pv := pvs.all[0]
	pv.Annotations[contract.AnnMigrate], pv.Annotations[contract.AnnPolicy], pv.Spec.PersistentVolumeReclaimPolicy = "run", "Delete", corev1.PersistentVolumeReclaimRetain
	if err := m.Client.(apitest.Lister).Tracker().Update(corev1.SchemeGroupVersion.WithResource("persistentvolumes"), pv, ""); err != nil {
		t.Fatal(err)
	}
	data, err := encodePV(pv)
	if err != nil {
		t.Fatal(err)
	}
	_, err = pvs.pool.BeginMigration(pv.Name, record.Migration{To: toCSI, Old: data, New: data})
	if err == nil {
		err = pvs.pool.AdvanceMigration(pv.Name, record.FinishMigration("new", "the claim was deleted"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return m, pvs
}

// An answer "already exists" admits the new PV: the API server compares names last.
func TestNameIsComparedLast(t *testing.T) {
	m, _ := many(t, 1)
	refuse(m, "create", true, apierrors.NewAlreadyExists(corev1.Resource("persistentvolumes"), "x"))
	if err := m.admitNew(t.Context(), older()); err != nil {
		t.Error(err)
	}
}

func TestWebhookWithoutDryRuns(t *testing.T) {
	m, pvs := many(t, 1)
	refuse(m, "create", true, apierrors.NewBadRequest(`admission webhook "labels.example.com" does not support dry run`))
	said := &warnings{Events: m.Events}
	m.Events = said
	m.work(t.Context(), m.check(t.Context()))
	for _, words := range []string{"labels.example.com", "sideEffects"} {
		if !strings.Contains(said.claim, words) {
			t.Errorf("event %q, want %q in it", said.claim, words)
		}
	}
	if readPVs(t, m)[0] != pvs.all[0].UID {
		t.Error("the PV is another one")
	}
}

// readPVs returns the UIDs of the PVs of many.
func readPVs(t *testing.T, m *Migrator) (all []types.UID) {
	t.Helper()
	list, err := m.Client.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pv := range list.Items {
		if pv.Name != pvName {
			all = append(all, pv.UID)
		}
	}
	return all
}

// The old PV is gone when the API server changes its mind: journal and claim say why after ten
// seconds, whatever the error is, and no other claim loses its PV.
func TestRefusedAfterTheDeletion(t *testing.T) {
	for name, row := range answers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, pvs := many(t, 6)
				refuse(m, "create", false, row.err)
				said := &warnings{Events: m.Events}
				m.Events = said
				for range 2 {
					m.work(t.Context(), m.check(t.Context()))
				}
				if left := len(readPVs(t, m)); left != 5 {
					t.Errorf("%d of 6 claims have a PV, want 5", left)
				}
				var stopped []string
				for _, pv := range pvs.all {
					v, err := pvs.pool.Get(pv.Name)
					if err != nil {
						t.Fatal(err)
					}
					if v.Migration != nil {
						stopped = append(stopped, v.Migration.Stopped)
					}
				}
				if len(stopped) != 1 || !strings.Contains(stopped[0], "not yet") || !strings.Contains(said.claim, "not yet") {
					t.Errorf("stopped because of %q, event on the claim %q", stopped, said.claim)
				}
				if n := len(slices.DeleteFunc(writes(m), func(verb string) bool { return verb != "create" })); n < 8 {
					t.Errorf("%d attempts, want one a second for ten seconds, and one at the next check", n)
				}
			})
		})
	}
}

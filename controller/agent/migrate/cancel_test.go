package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A migration is cancelled, and the API server does not admit that the PV gets its policy back:
// verdict and events say so, no volume is deleted meanwhile, and it ends when the API server does.
func TestPolicyThatMayNotComeBack(t *testing.T) {
	for name, row := range answers {
		t.Run(name, func(t *testing.T) {
			m, j := begun(t, func(*corev1.PersistentVolume) {})
			said := &warnings{Events: m.Events}
			m.Events = said
			if _, err := m.next(t.Context(), j); err != nil { // retain
				t.Fatal(err)
			}
			m.Mode = settings.MigrateOff
			var admits atomic.Bool
			m.Client.(apitest.Lister).PrependReactor("patch", "persistentvolumes", func(clienttesting.Action) (bool, runtime.Object, error) {
				return !admits.Load(), nil, row.err
			})
			if err := m.move(t.Context(), j); errors.Is(err, errStopped) != row.permanent || errors.Is(err, errCancelled) || err == nil {
				t.Errorf("%v, want it stopped: %t", err, row.permanent)
			}
			if said := said.claim + said.pv; (said != "") != row.permanent || row.permanent && (!strings.Contains(said, "not yet") || !strings.Contains(said, "its policy Delete back")) {
				t.Errorf("events %q", said)
			}
			f := m.check(t.Context())[0]
			if want := map[bool]Verdict{true: Stopped, false: Moving}[row.permanent]; f.Verdict != want || f.job == nil {
				t.Errorf("%s: %s, want %s", f.Verdict, f.Reason, want)
			}
			if err := j.pool.Delete(pvName); !errors.Is(err, volume.ErrMigrating) {
				t.Errorf("it is not being migrated: %v", err)
			}
			admits.Store(true)
			if err := m.one(t.Context(), f); !errors.Is(err, errCancelled) {
				t.Errorf("%v, want it cancelled", err)
			}
			pv := readPV(t, m.Client)
			if v, err := j.pool.Get(pvName); err != nil || v.Migration != nil || pv.Annotations[contract.AnnPolicy] != "" || pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
				t.Errorf("journal %+v, %v, policy %s", v.Migration, err, pv.Spec.PersistentVolumeReclaimPolicy)
			}
		})
	}
}

func TestUnwrittenJournal(t *testing.T) {
	full := errors.New("no space left on device")
	if err := unwritten(full); !errors.As(err, new(stopped)) || !strings.Contains(err.Error(), full.Error()) {
		t.Errorf("%v, want it stopped", err)
	}
	for _, err := range []error{volume.ErrNotReady, volume.ErrConflict} {
		if err = fmt.Errorf("write: %w", err); unwritten(err) != err {
			t.Errorf("%v is not returned as it is", err)
		}
	}
}

// The pool has another name since the migration began: the PV that is made has it, too, and one
// that was made before is recognised.
func TestPoolRenamedInTheMiddle(t *testing.T) {
	m, pvs := many(t, 1)
	old := pvs.all[0]
	next := contract.MigratedCSIPV(old, contract.CSIProvisioner, old.Name, "former", *old.Spec.Capacity.Storage(), contract.Place{Node: "node-01"})
	var journal record.Migration
	var errs [2]error
	journal.To = toCSI
	journal.Old, errs[0] = encodePV(old)
	journal.New, errs[1] = encodePV(next)
	if _, err := pvs.pool.BeginMigration(old.Name, journal); errors.Join(err, errs[0], errs[1]) != nil {
		t.Fatal(err, errs)
	}
	f := m.check(t.Context())[0]
	if got := f.job.new.Spec.CSI.VolumeAttributes[contract.StoragePool]; got != pvs.pool.Name() {
		t.Errorf("it makes a PV of pool %q, whose name is %q now", got, pvs.pool.Name())
	}
	for _, name := range []string{"former", pvs.pool.Name()} {
		there := next.DeepCopy()
		there.UID, there.Spec.CSI.VolumeAttributes[contract.StoragePool] = "new", name
		if !f.job.isNew(there) {
			t.Errorf("a PV of pool %q is taken for a stranger's", name)
		}
	}
}

// A webhook that answers late delays the migrations that are under way by seconds, not by the
// number of PVs.
func TestSlowWebhook(t *testing.T) {
	m, pvs := many(t, 12)
	refuse(m, "create", true, answers["a webhook that is down"].err)
	asked := 0
	m.Client.(apitest.Lister).PrependReactor("create", "persistentvolumes", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked++
		time.Sleep(10 * time.Second)
		return false, nil, nil
	})
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		m.work(t.Context(), m.check(t.Context()))
		if spent := time.Since(begin); spent > batchFor+10*time.Second || asked < 2 || asked >= len(pvs.all) {
			t.Errorf("%d PVs in %s", asked, spent)
		}
		m.work(t.Context(), m.check(t.Context()))
		if asked < 5 {
			t.Errorf("%d of %d PVs were tried in two checks", asked, len(pvs.all))
		}
	})
}

// An agent that ends writes nothing more: neither to a PV nor to a journal, whose pool is closed next.
func TestNothingIsWrittenAtTheEnd(t *testing.T) {
	for _, at := range []string{"get", "patch", "delete", "create"} {
		m, j := begun(t, func(*corev1.PersistentVolume) {})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		writes, ended := 0, false
		m.Client.(apitest.Lister).PrependReactor("*", "persistentvolumes", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if ended && a.GetVerb() != "get" {
				writes++
			}
			if a.GetVerb() == at && !isDry(a) {
				cancel()
				ended = true
				return true, nil, context.Canceled
			}
			return false, nil, nil
		})
		j.stopped = "an earlier attempt" // an error then stops it at once
		_ = m.move(ctx, j)
		before, _ := j.pool.Cached(j.volume)
		_ = m.move(ctx, j)
		after, _ := j.pool.Cached(j.volume)
		if !ended || writes > 0 || before.Migration.Stopped != "" || before.Migration.Step != after.Migration.Step {
			t.Errorf("%s: ended: %v, %d writes, journal %+v, then %+v", at, ended, writes, before.Migration, after.Migration)
		}
	}
}

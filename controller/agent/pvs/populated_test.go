package pvs

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
)

// TestRebindWithoutPods: without the permission to list pods, the first claim keeps the volume
// until that claim is gone.
func TestRebindWithoutPods(t *testing.T) {
	k := newRetained(t, "wait")
	firstClaim(k)
	k.now.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
	var recorded []corev1.Event
	setAnswer(t, k.PVs, func(r *http.Request) (int, any) {
		switch path := r.URL.Path; {
		case r.Method == http.MethodPost:
			var e corev1.Event
			if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
				t.Error(err)
			}
			recorded = append(recorded, e)
			return http.StatusCreated, e
		case strings.HasSuffix(path, "/pods"):
			return http.StatusForbidden, apitest.Failure(http.StatusForbidden, metav1.StatusReasonForbidden)
		case strings.Contains(path, "/persistentvolumes/"):
			return http.StatusOK, k.now
		case strings.HasSuffix(path, k.first.Name):
			return http.StatusOK, k.first
		}
		return http.StatusOK, k.next
	})
	k.Events = events.New(k.Client, k.Node.Name())
	if owner, err := k.reconcileClaim(t); owner != testUID || !errors.Is(err, errPending) {
		t.Errorf("the volume is %s's, %v", owner, err)
	}
	if len(recorded) != 1 || recorded[0].Type != corev1.EventTypeNormal || !strings.Contains(recorded[0].Message, `"list pods"`) {
		t.Errorf("events %+v", recorded)
	}
}

// TestClaimChanged queues the PV if either claim changes, and no PV for ordinary claims.
func TestClaimChanged(t *testing.T) {
	k := newRetained(t, "csi")
	ordinary := validPV(k.PVs, "csi")
	ordinary.Name, ordinary.UID, ordinary.Spec.ClaimRef.UID = "pvc-third", "pv-uid-3", "third"
	for _, pv := range []*corev1.PersistentVolume{k.seen, ordinary} {
		if err := k.informer.GetStore().Add(pv); err != nil {
			t.Fatal(err)
		}
	}
	firstClaim(k)
	for what, row := range map[string]struct {
		obj  any
		want int
	}{
		"the next claim":            {k.next, 1},
		"the first claim":           {k.first, 1},
		"the first claim, gone":     {cache.DeletedFinalStateUnknown{Obj: k.first}, 1},
		"a claim with its own PV":   {classtest.Claim("third", "csi", ordinary.Name), 0},
		"a claim without PV":        {classtest.Claim("fourth", "csi", ""), 0},
		"a claim of a PV elsewhere": {classtest.Claim("fifth", "csi", "pvc-elsewhere"), 0},
	} {
		k.queue = workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryLast))
		if k.claimChanged(row.obj); k.queue.Len() != row.want {
			t.Errorf("%s: %d PVs are in the queue", what, k.queue.Len())
		}
		k.queue.ShutDown()
	}
}

// TestVolumeGoneMeanwhile deletes the volume after the PV was read and before its record is. No
// warning is recorded then. A PV that still exists and has no volume is refused.
func TestVolumeGoneMeanwhile(t *testing.T) {
	for what, row := range map[string]struct {
		now  func(pv *corev1.PersistentVolume) *corev1.PersistentVolume
		want int
	}{
		"the PV is gone":     {func(*corev1.PersistentVolume) *corev1.PersistentVolume { return nil }, 0},
		"the PV is released": {released, 0},
		"another PV has the name": {func(pv *corev1.PersistentVolume) *corev1.PersistentVolume {
			pv.UID = "another"
			return pv
		}, 0},
		"the PV is as it was": {func(pv *corev1.PersistentVolume) *corev1.PersistentVolume { return pv }, 1},
	} {
		c := newPVs(t)
		seen := validPV(c, "wait")
		seen.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
		seen.UID, seen.Status.Phase, seen.Spec.ClaimRef.UID = "pv-uid", corev1.VolumeBound, nextUID
		if err := c.informer.GetStore().Add(seen); err != nil {
			t.Fatal(err)
		}
		now, warnings := row.now(seen.DeepCopy()), 0
		setAnswer(t, c, func(r *http.Request) (int, any) {
			switch {
			case r.Method == http.MethodPost:
				warnings++
				return http.StatusCreated, corev1.Event{}
			case now == nil || !strings.HasSuffix(r.URL.Path, "/persistentvolumes/"+now.Name):
				return http.StatusNotFound, apitest.Failure(http.StatusNotFound, metav1.StatusReasonNotFound)
			}
			return http.StatusOK, now
		})
		c.Events = events.New(c.Client, c.Node.Name())
		if err := c.sync(t.Context(), seen.Name); err != nil || warnings != row.want {
			t.Errorf("%s: %d warnings, %v; want %d", what, warnings, err, row.want)
		}
	}
}

// released sets the phase Released and the policy Delete.
func released(pv *corev1.PersistentVolume) *corev1.PersistentVolume {
	pv.Status.Phase, pv.Spec.PersistentVolumeReclaimPolicy = corev1.VolumeReleased, corev1.PersistentVolumeReclaimDelete
	return pv
}

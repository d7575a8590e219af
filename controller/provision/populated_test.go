package provision

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

	"kubevirt.io/hostpath-provisioner/controller/events"
)

// Without the permission to list pods the volume stays the first claim's until that is gone, and no Warning is recorded.
func TestFollowWithoutPods(t *testing.T) {
	k := newKept(t, "wait")
	firstClaim(k)
	k.now.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
	var recorded []corev1.Event
	answers(t, k.Controller, func(r *http.Request) (int, any) {
		switch path := r.URL.Path; {
		case r.Method == http.MethodPost:
			var e corev1.Event
			if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
				t.Error(err)
			}
			recorded = append(recorded, e)
			return http.StatusCreated, e
		case strings.HasSuffix(path, "/pods"):
			return http.StatusForbidden, failure(http.StatusForbidden, metav1.StatusReasonForbidden)
		case strings.Contains(path, "/persistentvolumes/"):
			return http.StatusOK, k.now
		case strings.HasSuffix(path, k.first.Name):
			return http.StatusOK, k.first
		}
		return http.StatusOK, k.next
	})
	k.events = events.New(k.client, k.node)
	if owner, err := k.follow(t); owner != testUID || !errors.Is(err, errUnsettled) {
		t.Errorf("the volume is %s's, %v", owner, err)
	}
	if len(recorded) != 1 || recorded[0].Type != corev1.EventTypeNormal || !strings.Contains(recorded[0].Message, `"list pods"`) {
		t.Errorf("events %+v", recorded)
	}
}

// A change of either claim is what makes the record follow at once. Ordinary claims cost nothing.
func TestClaimChanged(t *testing.T) {
	k := newKept(t, "csi")
	ordinary := goodPV(t, k.Controller, "csi")
	ordinary.Name, ordinary.UID, ordinary.Spec.ClaimRef.UID = "pvc-third", "pv-uid-3", "third"
	for _, pv := range []*corev1.PersistentVolume{k.seen, ordinary} {
		if err := k.pvs.GetStore().Add(pv); err != nil {
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
		"a claim with its own PV":   {testClaim("third", "csi", ordinary.Name), 0},
		"a claim without PV":        {testClaim("fourth", "csi", ""), 0},
		"a claim of a PV elsewhere": {testClaim("fifth", "csi", "pvc-elsewhere"), 0},
	} {
		r := &records{Controller: k.Controller, queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryLast))}
		if r.claimChanged(row.obj); r.queue.Len() != row.want {
			t.Errorf("%s: %d PVs are looked at", what, r.queue.Len())
		}
		r.queue.ShutDown()
	}
}

package pvs

import (
	"context"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// described is a bound volume with its PV and its claim at the API server.
type described struct {
	*PVs
	pv    *corev1.PersistentVolume
	claim *corev1.PersistentVolumeClaim
	pool  *volume.Pool
}

func newDescribed(t *testing.T) *described {
	t.Helper()
	d := &described{PVs: newPVs(t)}
	d.pv = validPV(d.PVs, "csi")
	d.pv.UID, d.pv.Status.Phase, d.pv.Spec.MountOptions = "pv-uid", corev1.VolumeBound, []string{"noatime"}
	d.claim = classtest.Claim(testUID, "csi", d.pv.Name, contract.AnnProvisionOnNode, "node-01", "cdi.kubevirt.io/storage.import.endpoint", "https://x")
	d.claim.Labels = map[string]string{"app": "db"}
	d.claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("7Mi")}
	d.pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: d.claim.Namespace, Name: d.claim.Name, UID: d.claim.UID}
	name := ""
	d.pool, name = d.backendOf(d.pv).PoolOf(d.pv)
	if _, err := d.pool.Create(volume.Spec{Name: name, Bytes: 7 << 20, PV: d.pv.Name, Owner: ownerOf(d.pv), Cluster: "c"}); err != nil {
		t.Fatal(err)
	}
	return d
}

// sync handles the PV, and records the claims that are waiting then. It returns how many were.
func (d *described) sync(t *testing.T) (waiting int) {
	t.Helper()
	setObjects(t, d.PVs, d.pv, d.claim)
	if err := d.informer.GetStore().Add(d.pv); err != nil {
		t.Fatal(err)
	}
	if err := d.PVs.sync(t.Context(), d.pv.Name); err != nil {
		t.Fatal(err)
	}
	for waiting = d.recorder.queue.Len(); d.recorder.queue.Len() > 0; {
		name, _ := d.recorder.queue.Get()
		if err := d.readClaim(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		d.recorder.queue.Done(name)
	}
	return waiting
}

func (d *described) recorded() *record.Claim {
	v, _ := d.pool.Get(d.pv.Spec.CSI.VolumeHandle)
	return v.Claim
}

// The claim of a bound PV is recorded once, and again when it has grown, was given to another, or the
// agent starts.
func TestClaimIsRecorded(t *testing.T) {
	d := newDescribed(t)
	d.pv.Status.Phase = corev1.VolumeAvailable
	if n := d.sync(t); n != 0 || d.recorded() != nil {
		t.Errorf("a PV that is not bound: %d reads, %+v", n, d.recorded())
	}
	d.pv.Status.Phase = corev1.VolumeBound
	want := contract.Recorded(d.pv, d.claim, "")
	if n := d.sync(t); n != 1 || !d.recorded().Equal(want) || want.Labels["app"] != "db" || len(want.Annotations) != 1 || want.Request != 7<<20 {
		t.Errorf("%d reads: %+v, want %+v", n, d.recorded(), want)
	}
	if n := d.sync(t); n != 0 {
		t.Errorf("%d reads of a claim that was recorded", n)
	}
	d.pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("9Mi")}
	d.claim.Spec.Resources.Requests = d.pv.Spec.Capacity
	if n := d.sync(t); n != 1 || d.recorded().Request != 9<<20 {
		t.Errorf("grown: %d reads, %+v", n, d.recorded())
	}
	d.recorder = newClaimRecorder() // as another process has
	d.claim.Labels["app"] = "web"
	if n := d.sync(t); n != 1 || d.recorded().Labels["app"] != "web" {
		t.Errorf("after a start: %d reads, %+v", n, d.recorded())
	}
	d.forgetClaim(d.pv.Name)
	if len(d.recorder.recorded) != 0 {
		t.Error("a PV that is gone stays in memory")
	}
}

// A claim that has another PV, or is gone, is not recorded. Neither is the next claim of the PV before
// the volume is its own.
func TestOtherClaimIsNotRecorded(t *testing.T) {
	for what, spoil := range map[string]func(*described){
		"another PV":       func(d *described) { d.claim.Spec.VolumeName = "pvc-other" },
		"another UID":      func(d *described) { d.claim.UID = nextUID },
		"not bound yet":    func(d *described) { d.claim.Spec.VolumeName = "" },
		"a PV that leaves": func(d *described) { d.pv.DeletionTimestamp = &metav1.Time{Time: time.Now()} },
	} {
		d := newDescribed(t)
		spoil(d)
		d.sync(t)
		if d.recorded() != nil {
			t.Errorf("%s: %+v", what, d.recorded())
		}
	}
}

// An agent of an older version drops the key. The next start of a newer one fills it.
func TestClaimIsFilledAgain(t *testing.T) {
	d := newDescribed(t)
	d.sync(t)
	l := life{t: t, PVs: d.PVs, pool: d.pool, name: d.pv.Spec.CSI.VolumeHandle}
	l.rewrite(func(r map[string]any) {
		if r["claim"] == nil {
			t.Error("it was not written")
		}
		delete(r, "claim")
	})
	if d.recorded() != nil {
		t.Fatal("it was not dropped")
	}
	d.recorder = newClaimRecorder()
	if d.sync(t); d.recorded() == nil {
		t.Error("it is not filled again")
	}
}

// The UID of the claim's namespace is recorded, and read once for each claim. Without it the claim is
// recorded all the same, and the UID once it may be read.
func TestNamespaceIsRecorded(t *testing.T) {
	d := newDescribed(t)
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.claim.Namespace, UID: "first"}}
	status, reads := http.StatusForbidden, 0
	var again func() // what happens after the namespace was read
	start := func() {
		setAnswer(t, d.PVs, func(r *http.Request) (int, any) {
			code, answer := apitest.Objects("node-01", d.pv, d.claim, shop)(r)
			if r.URL.Path != "/api/v1/namespaces/"+shop.Name {
				return code, answer
			}
			if reads++; status != http.StatusOK {
				return status, apitest.Failure(status, metav1.StatusReasonForbidden)
			}
			if again != nil {
				again()
			}
			return code, answer
		})
		d.recorder = newClaimRecorder()
		if err := d.informer.GetStore().Add(d.pv); err != nil {
			t.Fatal(err)
		}
		if err := d.PVs.sync(t.Context(), d.pv.Name); err != nil {
			t.Fatal(err)
		}
		if err := d.readClaim(t.Context(), d.pv.Name); err != nil {
			t.Fatal(err)
		}
	}
	if start(); d.recorded() == nil || d.recorded().NamespaceUID != "" || reads != 1 {
		t.Fatalf("forbidden: %+v after %d reads", d.recorded(), reads)
	}
	// Namespace and claim are made again after the namespace was read: the claim is another one.
	status, again = http.StatusOK, func() { d.claim.UID = nextUID }
	if start(); d.recorded().NamespaceUID != "" {
		t.Errorf("the claim was made again: %+v", d.recorded())
	}
	d.claim.UID, again = testUID, nil
	if start(); d.recorded().NamespaceUID != "first" || reads != 3 {
		t.Errorf("%+v after %d reads, want the namespace's UID", d.recorded(), reads)
	}
	status, d.claim.Labels = http.StatusForbidden, map[string]string{"app": "web"}
	if start(); d.recorded().NamespaceUID != "first" || d.recorded().Labels["app"] != "web" || reads != 3 {
		t.Errorf("the claim was changed: %+v after %d reads", d.recorded(), reads)
	}
}

// counting is a limiter that counts who waits for it.
type counting struct {
	flowcontrol.RateLimiter
	waits int
}

func (c *counting) Wait(ctx context.Context) error {
	c.waits++
	return c.RateLimiter.Wait(ctx)
}

// All claims are read at a start, at a pace that a cluster of many nodes can bear: each read waits for
// its turn.
func TestClaimsAreReadAtAPace(t *testing.T) {
	d := newDescribed(t)
	if qps := d.recorder.pace.QPS(); qps != claimsPerSecond {
		t.Errorf("%v claims a second", qps)
	}
	turns := &counting{RateLimiter: d.recorder.pace}
	d.recorder.pace = turns
	if d.sync(t); turns.waits != 2 {
		t.Errorf("%d waits for the turns of a claim and its namespace", turns.waits)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	setAnswer(t, d.PVs, func(r *http.Request) (int, any) {
		t.Errorf("asked for %s without a turn", r.URL.Path)
		return http.StatusNotFound, nil
	})
	turns.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(0.001, 1)
	turns.TryAccept() // the only one
	if err := d.readClaim(over, d.pv.Name); err == nil {
		t.Error("a claim was read without its turn")
	}
}

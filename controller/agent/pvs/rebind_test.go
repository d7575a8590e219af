package pvs

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// TestRebind spoils one condition a row. Each condition alone must keep a PV from another claim's
// volume.
func TestRebind(t *testing.T) {
	type pv = corev1.PersistentVolume
	const pending = "pending"
	for what, row := range map[string]struct {
		spoil func(*retained)
		want  string // of the error; "" is none
	}{
		"bound to the next claim":                 {func(*retained) {}, ""},
		"both claims are gone":                    {func(k *retained) { k.release() }, ""},
		"the first claim's name is reused":        {func(k *retained) { firstClaim(k); k.first.UID = "third" }, ""},
		"the first claim is there":                {firstClaim, ""},
		"its pod runs":                            {func(k *retained) { k.runs("node-01", corev1.PodRunning) }, pending},
		"its pod starts":                          {func(k *retained) { k.runs("node-01", corev1.PodPending) }, pending},
		"its pod has ended":                       {func(k *retained) { k.runs("node-01", corev1.PodSucceeded) }, ""},
		"its pod runs elsewhere":                  {func(k *retained) { k.runs("node-02", corev1.PodRunning) }, ""},
		"it is there, the PV not bound yet":       {func(k *retained) { firstClaim(k); k.now.Status.Phase = corev1.VolumeAvailable }, pending},
		"it is there, the next asks for no PV":    {func(k *retained) { firstClaim(k); k.next.Spec.VolumeName = "" }, pending},
		"it is there, the next has another PV":    {func(k *retained) { firstClaim(k); k.next.Spec.VolumeName = "pvc-other" }, "has PV pvc-other"},
		"the first claim is there, the next gone": {func(k *retained) { firstClaim(k); k.release() }, "still there"},
		"no pool":      {func(k *retained) { k.both(func(pv *pv) { delete(pv.Annotations, contract.AnnPool) }) }, "kubectl annotate pv"},
		"another pool": {func(k *retained) { k.both(func(pv *pv) { pv.Annotations[contract.AnnPool] = "other" }) }, "kubectl annotate pv"},
		"no pool, waits": {func(k *retained) {
			k.both(func(pv *pv) { delete(pv.Annotations, contract.AnnPool); pv.Spec.ClaimRef.UID = "" })
		}, "annotate"},
		"another PV": {func(k *retained) {
			k.both(func(pv *pv) { pv.Name = "pvc-second" })
			k.next.Spec.VolumeName = "pvc-second"
		}, "belongs to PV"},
		"the PV was created again":             {func(k *retained) { k.now.UID = "pv-uid-2" }, pending},
		"the PV is gone":                       {func(k *retained) { k.now = nil }, pending},
		"the PV has another claim meanwhile":   {func(k *retained) { k.now.Spec.ClaimRef.UID, k.next.UID = "third", "third" }, pending},
		"the PV is bound only where it's seen": {func(k *retained) { k.now.Status.Phase = corev1.VolumeAvailable }, pending},
		"the claim asks for no PV yet":         {func(k *retained) { k.next.Spec.VolumeName = "" }, pending},
		"the claim has another PV":             {func(k *retained) { k.next.Spec.VolumeName = "pvc-other" }, "has PV pvc-other"},
		"the claim is gone, the PV not known":  {func(k *retained) { k.next = nil }, pending},
		"a claim of the name":                  {func(k *retained) { k.next.UID = "third" }, pending},
		"gone, in another cluster":             {func(k *retained) { k.release(); k.Node = infoOf(t, "c2") }, "another cluster"},
		"gone, and had it before":              {func(k *retained) { k.hadIt(); k.release() }, "had the volume before"},
		"gone, had it before, and confirmed":   {func(k *retained) { k.hadIt(); k.release(); k.both(confirmed) }, ""},
		"there, and had it before":             {func(k *retained) { k.hadIt() }, ""},
		"bound, in another cluster":            {func(k *retained) { k.Node = infoOf(t, "c2") }, ""},
	} {
		for _, className := range []string{"wait", "csi"} {
			k := newRetained(t, className)
			row.spoil(k)
			k.serve(t)
			owner, err := k.reconcileClaim(t)
			want := testUID
			if row.want == "" {
				want = nextUID
			}
			if owner != want || (err == nil) != (row.want == "") {
				t.Errorf("%s: %s: the volume is %s's, %v", className, what, owner, err)
			}
			if errors.Is(err, errPending) != (row.want == pending) || row.want != pending && err != nil && !strings.Contains(err.Error(), row.want) {
				t.Errorf("%s: %s: %v", className, what, err)
			}
		}
	}
}

// confirmed is what an administrator does to have the volume of a PV deleted.
func confirmed(pv *corev1.PersistentVolume) {
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, contract.AnnDeleteVolume, string(pv.UID))
}

// TestRebindWaits accepts a PV that waits for its next claim, without a request to the API server.
func TestRebindWaits(t *testing.T) {
	k := newRetained(t, "wait")
	k.seen.Spec.ClaimRef.UID = ""
	if owner, err := k.reconcileClaim(t); owner != testUID || err != nil {
		t.Errorf("the volume is %s's, %v", owner, err)
	}
}

// TestReboundIsLabelled labels a PV again that lost its label, so that it is watched.
func TestReboundIsLabelled(t *testing.T) {
	k := newRetained(t, "wait")
	b := k.backendOf(k.seen)
	if err := k.checkUnlabelled(b, k.seen); err != nil {
		t.Error(err)
	}
	k.seen.Name = "pvc-second"
	if k.checkUnlabelled(b, k.seen) == nil {
		t.Error("a second PV of the directory is labelled")
	}
}

// TestRebindWithoutName has a record with only the UID of the claim, as a sidecar may leave it.
func TestRebindWithoutName(t *testing.T) {
	for _, there := range []bool{false, true} {
		k := newRetained(t, "csi")
		if there {
			k.runs("node-01", corev1.PodRunning)
		}
		k.serve(t)
		v, err := k.pool.Get(k.name)
		if err != nil {
			t.Fatal(err)
		}
		v.Owner = record.Owner{UID: testUID}
		if _, _, err := k.nextClaim(t.Context(), k.seen, k.pool, v, claimMismatch{}); (err != nil) != there {
			t.Errorf("the claim is there: %v, %v", there, err)
		}
		v.PV = "" // then no record names this PV
		if _, _, err := k.nextClaim(t.Context(), k.seen, k.pool, v, claimMismatch{}); !errors.As(err, new(claimMismatch)) {
			t.Errorf("no PV is recorded: %v", err)
		}
	}
}

func TestRebindUnanswered(t *testing.T) {
	k := newRetained(t, "wait")
	k.serve(t)
	for _, silent := range []string{"/persistentvolumes/", "/persistentvolumeclaims/claim-", "/persistentvolumeclaims/restored"} {
		setAnswer(t, k.PVs, func(r *http.Request) (int, any) {
			switch path := r.URL.Path; {
			case strings.Contains(path, silent):
				return http.StatusForbidden, apitest.Failure(http.StatusForbidden, metav1.StatusReasonForbidden)
			case strings.Contains(path, "/persistentvolumes/"):
				return http.StatusOK, k.now
			}
			return http.StatusNotFound, apitest.Failure(http.StatusNotFound, metav1.StatusReasonNotFound)
		})
		k.now.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
		if owner, err := k.reconcileClaim(t); owner != testUID || !errors.Is(err, volume.ErrNotReady) {
			t.Errorf("no answer to %s: the volume is %s's, %v", silent, owner, err)
		}
	}
}

// TestDeleteRebound deletes a volume by its PV's policy once its claim is gone, the first one or
// the next. A phase or a claimRef that is still changing deletes nothing, and neither does a record
// that names another claim than the PV.
func TestDeleteRebound(t *testing.T) {
	const deletes, kept, refused = "deletes", "kept", "refused"
	for what, row := range map[string]struct {
		spoil func(*retained)
		// should is true if Deletable returns nil, which decides from memory.
		should bool
		want   string // what Delete does
		// rebound is what Delete does once the record was reconciled; "" if that is the same.
		rebound string
	}{
		"recorded and gone":                                {func(k *retained) { k.mustTransfer(); k.release() }, true, deletes, ""},
		"both gone, not recorded":                          {func(k *retained) { k.release() }, false, refused, deletes},
		"both gone, in a PV that is older than the record": {func(k *retained) { k.hadIt(); k.release() }, false, refused, ""},
		"a deletion failed before": {func(k *retained) {
			k.release()
			k.both(func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeFailed })
		}, false, refused, deletes},
		"the first is there":      {func(k *retained) { k.release(); firstClaim(k) }, false, refused, ""},
		"the first has a pod":     {func(k *retained) { next := k.next; k.release(); k.next = next; k.runs("node-01", corev1.PodRunning) }, false, kept, ""},
		"the next has it":         {func(k *retained) { next := k.next; k.release(); k.next = next }, false, kept, ""},
		"recorded, and it has it": {func(k *retained) { k.mustTransfer(); next := k.next; k.release(); k.next = next }, true, kept, ""},
		"waits for a claim":       {func(k *retained) { k.release(); k.both(func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef = nil }) }, false, kept, ""},
		"waits for one of a name": {func(k *retained) {
			k.release()
			k.both(func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef.UID = "" })
		}, false, kept, ""},
		"gone before": {func(k *retained) { k.release(); k.mustDelete() }, true, deletes, ""},
		"gone before, and no pool": {func(k *retained) {
			k.release()
			k.mustDelete()
			k.both(func(pv *corev1.PersistentVolume) { delete(pv.Annotations, contract.AnnPool) })
		}, false, refused, ""},
	} {
		for _, className := range []string{"wait", "csi"} {
			k := newRetained(t, className)
			k.serve(t)
			row.spoil(k)
			k.serve(t)
			there, err := k.pool.HasDirectory(k.name)
			if err != nil {
				t.Fatal(err)
			}
			if got := k.Deletable(k.seen) == nil; got != row.should {
				t.Errorf("%s: %s: should be deleted: %v", className, what, got)
			}
			did := func() string {
				err := k.Delete(t.Context(), k.seen)
				left, unread := k.pool.HasDirectory(k.name)
				if left != (err != nil && there) || unread != nil {
					t.Errorf("%s: %s: the directory is there: %v, %v, after %v", className, what, left, unread, err)
				}
				switch {
				case err == nil:
					return deletes
				case errors.As(err, new(Kept)):
					return kept
				}
				return refused
			}
			if got := did(); got != row.want {
				t.Errorf("%s: %s: %s, want %s", className, what, got, row.want)
			}
			if row.want == deletes || !there {
				continue
			}
			_, _ = k.reconcileClaim(t) // its errors are those of TestRebind
			if got := did(); got != cmp.Or(row.rebound, row.want) {
				t.Errorf("%s: %s: once reconciled, %s", className, what, got)
			}
		}
	}
}

// noClaims has no claims to try or to place again.
type noClaims struct{}

func (noClaims) Retry() {}

func (noClaims) SourceChanged(string, string) {}

func (noClaims) BoundHere(string, string, types.UID) {}

package pvs

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// life is a volume, the PV of its name as the API server has it, and its claim.
type life struct {
	*PVs
	t      *testing.T
	client *fake.Clientset
	pv     *corev1.PersistentVolume
	claim  *corev1.PersistentVolumeClaim // nil if it is gone
	pool   *volume.Pool
	name   string
}

// newLife has the volume of a new PV that the agent has not seen yet.
func newLife(t *testing.T, className string) *life {
	l := &life{PVs: newPVs(t), t: t, claim: classtest.Claim(testUID, className, "")}
	l.pv = validPV(l.PVs, className)
	l.pv.UID, l.pv.CreationTimestamp = "a", metav1.Now()
	l.pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	l.pv.Status.Phase = corev1.VolumePending
	l.pool, l.name = l.Names(l.pv)
	spec := volume.Spec{Name: l.name, Bytes: 1 << 20, PV: l.pv.Name, Owner: ownerOf(l.pv), Cluster: l.Node.Cluster()}
	if _, err := l.pool.Create(spec); err != nil {
		t.Fatal(err)
	}
	return l
}

// bound binds PV and claim.
func (l *life) bound() {
	l.claim.Spec.VolumeName = l.pv.Name
	l.pv.Status.Phase = corev1.VolumeBound
}

// again replaces the PV by the same one as it is applied an hour later, when there is no claim.
func (l *life) again() {
	l.claim = nil
	l.pv.UID, l.pv.Status.Phase = "b", corev1.VolumeReleased
	l.pv.CreationTimestamp = metav1.NewTime(time.Now().Add(time.Hour))
}

// released deletes the claim.
func (l *life) released() { l.claim, l.pv.Status.Phase = nil, corev1.VolumeReleased }

// in makes the cluster another one.
func (l *life) in(cluster types.UID) { l.Node = infoOf(l.t, cluster) }

// serve replaces the API server by one with PV and claim.
func (l *life) serve() {
	l.client = fake.NewClientset(l.pv)
	if l.claim != nil {
		l.client = fake.NewClientset(l.pv, l.claim)
	}
	l.Client, l.Events = l.client, events.New(l.client, "node-01")
}

// see has the agent sync the PV, and returns the events that it wrote about it.
func (l *life) see() (messages []string) {
	l.t.Helper()
	l.serve()
	if err := l.informer.GetStore().Add(l.pv.DeepCopy()); err != nil {
		l.t.Fatal(err)
	}
	if err := l.sync(l.t.Context(), l.pv.Name); err != nil {
		l.t.Fatal(err)
	}
	list, err := l.client.CoreV1().Events("").List(l.t.Context(), metav1.ListOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	for _, e := range list.Items {
		messages = append(messages, e.Reason+": "+e.Message)
	}
	return messages
}

// olderVersion rewrites the record as an agent of a version that knows no UIDs of PVs.
func (l *life) olderVersion() { l.rewrite(func(r map[string]any) { delete(r, "pvUID") }) }

func (l *life) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// away calls do with the directory of the pool while the pool is not open. The records are on the
// disk.
func (l *life) away(do func(dir string)) {
	l.t.Helper()
	_, err := l.pool.Purge(l.t.Context()) // writes the record
	l.must(err)
	away := l.pool.Path() + ".away"
	l.must(os.Rename(l.pool.Path(), away))
	if err := l.pool.Ready(); !errors.Is(err, volume.ErrNotReady) {
		l.t.Fatal(err)
	}
	do(away)
	l.must(os.Rename(away, l.pool.Path()))
	l.must(l.pool.Ready())
}

// rewrite changes the record on the disk while the pool is not open.
func (l *life) rewrite(change func(map[string]any)) {
	l.t.Helper()
	l.away(func(dir string) {
		path := filepath.Join(dir, ".hostpath-provisioner/records", l.name)
		data, err := os.ReadFile(path)
		l.must(err)
		var r map[string]any
		l.must(json.Unmarshal(data, &r))
		change(r)
		data, err = json.Marshal(r)
		l.must(err)
		l.must(os.WriteFile(path, data, 0o600))
	})
}

// deletes reports whether the PV deletes the volume, and why not.
func (l *life) deletes() (bool, error) {
	l.t.Helper()
	l.serve()
	should := l.Deletable(l.pv)
	err := l.Delete(l.t.Context(), l.pv)
	there, unread := l.pool.HasDirectory(l.name)
	if unread != nil || there == (err == nil) || (should == nil) != (err == nil) {
		l.t.Errorf("deletable: %v, deleted: %v, and the directory is there: %v, %v", should, err, there, unread)
	}
	return err == nil, err
}

// TestOldPVAppliedAgain has a PV that was exported and is applied again, to this cluster or another
// one: it is Released at once and deletes nothing, and an event tells that. Volumes that are
// deleted in the usual way are.
func TestOldPVAppliedAgain(t *testing.T) {
	seen := func(l *life) { l.bound(); l.see() } // the usual life of a volume
	older := func(l *life) { seen(l); l.olderVersion() }
	boundAgain := func(l *life, claim *corev1.PersistentVolumeClaim) { // the PV that was applied again
		l.claim = claim
		l.bound()
		l.see()
		l.released()
	}
	for what, row := range map[string]struct {
		story func(*life)
		why   string // part of the reason why the volume is kept; "" if it is deleted
	}{
		"usual":                       {func(l *life) { seen(l); l.released() }, ""},
		"released before it was seen": {func(l *life) { l.released() }, ""},
		"seen before it was bound":    {func(l *life) { l.see(); l.released() }, ""},
		"applied again":               {func(l *life) { seen(l); l.again() }, "a former PV of this name"},
		"applied again, then bound": {func(l *life) {
			claim := l.claim
			seen(l)
			l.again()
			l.see()
			boundAgain(l, claim)
		}, ""},
		"applied again, and confirmed":     {func(l *life) { seen(l); l.again(); l.pv.Annotations[contract.AnnDeleteVolume] = "b" }, ""},
		"confirmed before it was exported": {func(l *life) { seen(l); l.again(); l.pv.Annotations[contract.AnnDeleteVolume] = "a" }, "a former PV"},
		"another cluster":                  {func(l *life) { seen(l); l.in("other"); l.again() }, "another cluster"},
		"another cluster, never seen":      {func(l *life) { l.in("other"); l.again() }, "another cluster"},
		"another cluster, then bound": {func(l *life) {
			claim := l.claim
			seen(l)
			l.in("other")
			l.again()
			l.see()
			boundAgain(l, claim)
		}, ""},
		"bound there, and applied here":    {func(l *life) { l.in("other"); seen(l); l.in("c"); l.again() }, "another cluster"},
		"upgraded":                         {func(l *life) { older(l); l.see(); l.released() }, ""},
		"released right after the upgrade": {func(l *life) { older(l); l.released() }, ""},
		"upgraded, PV younger, bound": {func(l *life) {
			claim := l.claim
			older(l)
			l.again()
			boundAgain(l, claim)
		}, ""},
		"applied, then upgraded":           {func(l *life) { older(l); l.again() }, "was not created with the volume"},
		"another cluster, then upgraded":   {func(l *life) { older(l); l.in("other"); l.again() }, "another cluster"},
		"upgraded, back, applied, forward": {func(l *life) { older(l); l.see(); l.olderVersion(); l.again(); l.see() }, "was not created with the volume"},
		"back, and the record not written": {func(l *life) { seen(l); l.again() }, "a former PV"},
		"forward again, and deleted":       {func(l *life) { older(l); l.see(); l.olderVersion(); l.see(); l.released() }, ""},
		"older, of no cluster":             {func(l *life) { older(l); l.rewrite(func(r map[string]any) { delete(r, "cluster") }); l.again() }, "unknown whether"},
		"older, of no cluster, bound": {func(l *life) {
			older(l)
			l.rewrite(func(r map[string]any) { delete(r, "cluster") })
			l.see()
			l.released()
		}, ""},
		"the role lacks the cluster":       {func(l *life) { l.in(""); seen(l); l.released() }, ""},
		"the role lacks it, applied again": {func(l *life) { l.in(""); seen(l); l.again() }, "a former PV"},
		"the role lacked it at an upgrade": {func(l *life) { older(l); l.in(""); l.see(); l.released() }, ""},
		"bound, and its claim is another's": {func(l *life) {
			seen(l)
			l.again()
			l.claim = classtest.Claim(testUID, "wait", "")
			l.claim.Spec.VolumeName = "pvc-other"
			l.pv.Status.Phase = corev1.VolumeBound
			l.see()
			l.released()
		}, "a former PV"},
	} {
		for _, className := range []string{"wait", "csi"} {
			for _, sync := range []bool{true, false} { // the library asks before or after the agent has seen the PV
				l := newLife(t, className)
				row.story(l)
				var told []string
				if sync {
					told = l.see()
				}
				deleted, err := l.deletes()
				if deleted != (row.why == "") || err != nil && (!strings.Contains(err.Error(), row.why) || !errors.As(err, new(Kept))) {
					t.Errorf("%s, %s: deleted: %v, %v", className, what, deleted, err)
				}
				if !sync {
					continue
				}
				if row.why == "" && len(told) > 0 || row.why != "" && (len(told) != 1 || !strings.HasPrefix(told[0], events.VolumeFailedDelete+": ") ||
					!strings.Contains(told[0], contract.AnnDeleteVolume+"="+string(l.pv.UID))) {
					t.Errorf("%s, %s: events %q", className, what, told)
				}
			}
		}
	}
}

// TestBoundPVWaitsForItsClaim retries while the controller-manager has not written the PV to the
// claim.
func TestBoundPVWaitsForItsClaim(t *testing.T) {
	l := newLife(t, "wait")
	c := l.claim
	l.bound()
	l.see()
	l.again()
	l.see()
	l.claim, l.pv.Status.Phase = c, corev1.VolumeBound
	c.Spec.VolumeName = ""
	l.serve()
	if err := l.informer.GetStore().Add(l.pv); err != nil {
		t.Fatal(err)
	}
	if err := l.sync(t.Context(), l.pv.Name); !errors.Is(err, errPending) {
		t.Errorf("not retried: %v", err)
	}
	if r, _ := l.pool.Cached(l.name); r.PVUID != "a" {
		t.Errorf("recorded %q", r.PVUID)
	}
}

// TestReplacedPVIsItsSuccessor has a volume whose PV an older version migrated.
func TestReplacedPVIsItsSuccessor(t *testing.T) {
	began := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	for what, row := range map[string]struct {
		created  time.Time
		replaces string
		deletes  bool
	}{
		"the successor":         {began.Add(time.Minute), "a", true},
		"another PV's":          {began.Add(time.Minute), "x", false},
		"applied again":         {began.Add(time.Hour), "a", false},
		"in the same second":    {began, "a", true},
		"clocks that differ":    {began.Add(150 * time.Second), "a", true},
		"older than that":       {began.Add(-2 * time.Minute), "a", false},
		"of a PV without a UID": {began.Add(time.Minute), "", false},
	} {
		l := newLife(t, "csi")
		l.bound()
		l.see()
		old, err := json.Marshal(l.pv)
		if err != nil {
			t.Fatal(err)
		}
		l.rewrite(func(r map[string]any) {
			delete(r, "pvUID")
			r["migration"] = record.Migration{Step: record.MigrationDone, To: "csi", Old: old, Began: began.Add(time.Second / 2), Changed: began.Add(2 * time.Minute)}
		})
		l.again()
		l.pv.CreationTimestamp, l.pv.Annotations[contract.AnnReplaces] = metav1.NewTime(row.created), row.replaces
		if deleted, err := l.deletes(); deleted != row.deletes {
			t.Errorf("%s: deleted: %v, %v", what, deleted, err)
		}
	}
}

// newAdopted has a directory without a record, and the PV of an older provisioner that names it.
func newAdopted(t *testing.T) *life {
	l := &life{PVs: newPVs(t), t: t, claim: classtest.Claim(testUID, "wait", "")}
	l.pv = validPV(l.PVs, "wait")
	l.pv.UID, l.pv.CreationTimestamp = "a", metav1.Now()
	l.pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	l.pool, l.name = l.Names(l.pv)
	l.must(os.MkdirAll(filepath.Join(l.pool.Path(), l.name), 0o777))
	return l
}

// TestAdoptedPVAppliedAgain has the PV of an older provisioner. Directories are copied to the disk of
// a rebuilt cluster, and their PVs are applied again: they are as young as the directories, and get
// the phase Released when the controller-manager gets to them. Only a claim proves that the volume
// is in use here.
func TestAdoptedPVAppliedAgain(t *testing.T) {
	bound := func(l *life) { l.bound(); l.see() }
	in := func(phase corev1.PersistentVolumePhase) func(*life) {
		return func(l *life) {
			l.claim, l.pv.Status.Phase = nil, phase
			l.see()
			late := metav1.NewTime(time.Now().Add(time.Hour)) // the controller-manager was away
			l.pv.Status.LastPhaseTransitionTime = &late
		}
	}
	for what, row := range map[string]struct {
		adopted func(*life)
		later   func(*life)
		deletes bool
	}{
		"bound":                      {adopted: bound, deletes: true},
		"not in a phase yet":         {adopted: in("")},
		"pending":                    {adopted: in(corev1.VolumePending)},
		"available":                  {adopted: in(corev1.VolumeAvailable)},
		"released":                   {adopted: in(corev1.VolumeReleased)},
		"bound to a claim that went": {adopted: in(corev1.VolumeBound)},
		"bound later": {adopted: in(corev1.VolumeReleased), later: func(l *life) {
			l.claim = classtest.Claim(testUID, "wait", "")
			bound(l)
		}, deletes: true},
		"confirmed": {adopted: in(corev1.VolumeReleased), later: func(l *life) {
			l.pv.Annotations[contract.AnnDeleteVolume] = "a"
		}, deletes: true},
		"recorded by an older version": {adopted: in(corev1.VolumePending), later: func(l *life) {
			l.rewrite(func(r map[string]any) { r["pvUID"] = "a" })
		}, deletes: true},
	} {
		l := newAdopted(t)
		row.adopted(l)
		if row.later != nil {
			row.later(l)
		}
		l.released()
		events := l.see()
		deleted, err := l.deletes()
		if deleted != row.deletes || !deleted && !errors.As(err, new(Kept)) {
			t.Errorf("%s: deleted: %v, %v", what, deleted, err)
		}
		if deleted != (len(events) == 0) || !deleted && !strings.Contains(events[0], contract.AnnDeleteVolume+"=a") {
			t.Errorf("%s: events %q", what, events)
		}
	}
}

// TestAdoptionRecordsTheObject: the PV of a claim may be Released right after its adoption.
func TestAdoptionRecordsTheObject(t *testing.T) {
	l := newAdopted(t)
	l.bound()
	l.see()
	if r, _ := l.pool.Cached(l.name); r.PVUID != "a" || !r.Adopted {
		t.Errorf("recorded %+v", r)
	}
}

package provision

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"kubevirt.io/hostpath-provisioner/controller/class"
)

// feedTest is a feed whose source the test plays.
type feedTest struct {
	*feed
	items   []corev1.PersistentVolumeClaim
	source  *watch.FakeWatcher
	classes map[string]bool                          // that are known
	there   map[string]*corev1.PersistentVolumeClaim // at the API server, by name; nil if it does not answer
	out     watch.Interface
	t       *testing.T
}

func newFeedTest(t *testing.T) *feedTest {
	f := &feedTest{t: t, source: watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 10}), classes: map[string]bool{},
		there: map[string]*corev1.PersistentVolumeClaim{}}
	p := testPlacer()
	p.class = func(name string) *storagev1.StorageClass {
		if name == "late" && f.classes[name] {
			return testClass("now")
		}
		return testClass(name)
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &corev1.PersistentVolumeClaimList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: f.items}, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return f.source, nil },
	}
	f.feed = newFeed(lw, p, func(*corev1.PersistentVolumeClaim, placement) {}, f.read)
	w, err := f.WatchWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.out = w
	t.Cleanup(w.Stop)
	return f
}

func (f *feedTest) read(_, name string) (*corev1.PersistentVolumeClaim, error) {
	switch claim, ok := f.there[name]; {
	case !ok:
		return nil, apierrors.NewNotFound(corev1.Resource("persistentvolumeclaims"), name)
	case claim == nil:
		return nil, apierrors.NewInternalError(errors.New("not now"))
	default:
		return claim, nil
	}
}

// next returns the next event, or fails after a while.
func (f *feedTest) next(want watch.EventType, uid string) *corev1.PersistentVolumeClaim {
	f.t.Helper()
	select {
	case e := <-f.out.ResultChan():
		c, ok := e.Object.(*corev1.PersistentVolumeClaim)
		if !ok || e.Type != want || string(c.UID) != uid {
			f.t.Fatalf("got %s %v, want %s of %q", e.Type, e.Object, want, uid)
		}
		return c
	case <-time.After(5 * time.Second):
		f.t.Fatalf("no event, want %s of %q", want, uid)
		return nil
	}
}

// nothing sends a bookmark through and expects it first.
func (f *feedTest) nothing() {
	f.t.Helper()
	f.source.Action(watch.Bookmark, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "99"}})
	f.next(watch.Bookmark, "")
}

func TestFeedListsOursOnly(t *testing.T) {
	f := newFeedTest(t)
	f.items = []corev1.PersistentVolumeClaim{
		*testClaim("a", "now", "", class.AnnProvisionOnNode, "node-01"),
		*testClaim("b", "now", "", class.AnnProvisionOnNode, "node-02"),
		*testClaim("c", "theirs", ""),
	}
	obj, err := f.ListWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	list := obj.(*corev1.PersistentVolumeClaimList)
	if len(list.Items) != 1 || list.Items[0].UID != "a" || list.ResourceVersion != "9" {
		t.Errorf("listed %d claims at %s", len(list.Items), list.ResourceVersion)
	}
	if list.Items[0].Annotations[class.AnnStorageProvisioner] == "" {
		t.Error("the listed claim was not prepared")
	}
}

func TestFeedFilters(t *testing.T) {
	f := newFeedTest(t)
	f.source.Add(testClaim("x", "wait", ""))
	f.source.Add(testClaim("y", "theirs", "", class.AnnProvisionOnNode, "node-01"))
	f.nothing()

	// The scheduler chooses us: what was a Modified of the cluster is new here.
	f.source.Modify(testClaim("x", "wait", "", class.AnnSelectedNode, "node-01"))
	f.next(watch.Added, "x")
	f.source.Modify(testClaim("x", "wait", "", class.AnnSelectedNode, "node-01"))
	f.next(watch.Modified, "x")

	// It changes its mind: the claim is gone, as far as we are concerned.
	gone := testClaim("x", "wait", "", class.AnnSelectedNode, "node-02")
	gone.ResourceVersion = "12"
	f.source.Modify(gone)
	if c := f.next(watch.Deleted, "x"); c.ResourceVersion != "12" || c.Annotations[class.AnnSelectedNode] != "node-01" {
		t.Errorf("deleted as version %s with %v", c.ResourceVersion, c.Annotations)
	}
	f.source.Delete(gone)
	f.nothing()

	f.source.Add(testClaim("z", "now", "", class.AnnProvisionOnNode, "node-01"))
	f.next(watch.Added, "z")
	if f.isDeleted("x") || f.isDeleted("z") {
		t.Error("a claim is taken for deleted that is another node's, or there")
	}
	f.source.Delete(testClaim("z", "now", "", class.AnnProvisionOnNode, "node-01"))
	f.next(watch.Deleted, "z")
	if !f.isDeleted("z") {
		t.Error("it is not remembered that a claim of ours was deleted")
	}
}

func TestFeedHoldsUnknownClasses(t *testing.T) {
	f := newFeedTest(t)
	f.there["claim-a"] = testClaim("a", "late", "", class.AnnProvisionOnNode, "node-01", "more", "than was kept")
	f.there["claim-b"] = testClaim("b", "late", "", class.AnnProvisionOnNode, "node-02")
	f.source.Add(testClaim("a", "late", "", class.AnnProvisionOnNode, "node-01"))
	f.source.Add(testClaim("b", "late", "", class.AnnProvisionOnNode, "node-02"))
	f.source.Add(testClaim("gone", "late", "", class.AnnProvisionOnNode, "node-01"))
	f.source.Delete(testClaim("gone", "late", "", class.AnnProvisionOnNode, "node-01"))
	f.nothing()

	f.classes["late"] = true
	f.classAppeared("other")
	f.nothing()
	f.classAppeared("late")
	if c := f.next(watch.Added, "a"); c.Annotations["more"] == "" {
		t.Error("the claim is passed as it was kept, not as it is")
	}
	if c := f.next(watch.Bookmark, ""); c.ResourceVersion != "99" {
		t.Errorf("the reader is left at version %s", c.ResourceVersion)
	}
	f.nothing()
	if len(f.held) != 0 {
		t.Errorf("%d claims are held after their class appeared", len(f.held))
	}
}

// Any user can create claims of a class that does not exist, and every agent holds them.
func TestFeedHoldsLittle(t *testing.T) {
	const claims, size = 1000, 64 << 10
	f := newFeedTest(t)
	heard := map[types.UID]string{}
	over, cancel := context.WithCancel(t.Context())
	cancel() // its timers fire while the test runs, and have nobody to ask
	v := newVoice(over, nil, nil, "node-01", nil)
	f.feed = newFeed(nil, f.placer, func(c *corev1.PersistentVolumeClaim, where placement) {
		heard[c.UID] = c.Annotations[class.AnnProvisionOnNode]
		v.hear(c, where)
	}, f.read) // which no stream reads from
	heap := func() uint64 {
		var m goruntime.MemStats
		goruntime.GC()
		goruntime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range claims {
		uid := fmt.Sprint(i)
		long := strings.Repeat(uid[:1], size)
		c := testClaim(uid, "late", "", "note", long)
		switch i % 4 {
		case 1:
			c.Annotations[class.AnnProvisionOnNode] = long
		case 2:
			c.Annotations[class.AnnSelectedNode] = long
		case 3:
			c.Annotations[corev1.BetaStorageClassAnnotation] = "late" + long
		}
		if _, passed := f.filter(watch.Event{Type: watch.Added, Object: c}); passed {
			t.Fatal("a claim of an unknown class was passed")
		}
		clear(heard)
	}
	if grown := heap() - before; grown > 4<<20 {
		t.Errorf("%d claims of %d bytes hold %d bytes", claims, size, grown)
	}
	// A name that no node can have places the claim elsewhere, also if it begins like a node's.
	f.classes["late"] = true
	f.classAppeared("late")
	if events := f.retries(); len(events) > 0 {
		t.Errorf("%d events of claims that are not of this node", len(events))
	}
	if name := heard["1"]; len(name) > 2*maxName || f.placer.place(testClaim("1", "now", "", class.AnnProvisionOnNode, name)) != elsewhere {
		t.Errorf("heard of a claim for node %.20q of %d bytes", name, len(name))
	}
	if _, is := hold(testClaim("x", strings.Repeat("c", maxName+1), "")); is {
		t.Error("a class is waited for that cannot exist")
	}
	goruntime.KeepAlive(f.held)
}

// A class cannot be edited, so that administrators delete it and make it again. Claims change meanwhile.
func TestFeedClassGoneAndBack(t *testing.T) {
	f := newFeedTest(t)
	f.classes["late"] = true
	claim := testClaim("a", "late", "", class.AnnProvisionOnNode, "node-01")
	f.source.Add(claim)
	f.next(watch.Added, "a")

	f.classes["late"] = false
	changed := claim.DeepCopy()
	changed.Labels = map[string]string{"changed": "meanwhile"}
	f.there["claim-a"] = changed
	f.source.Modify(changed)
	f.next(watch.Deleted, "a")
	if f.isDeleted("a") {
		t.Error("the claim is taken for deleted")
	}
	f.classes["late"] = true
	f.classAppeared("late")
	if c := f.next(watch.Added, "a"); c.Labels["changed"] == "" {
		t.Error("the claim came back as it was before")
	}
	f.next(watch.Bookmark, "")
	f.nothing()
}

// The class may appear between the moment when a claim is placed and the moment when it is held.
func TestFeedClassAppearsMeanwhile(t *testing.T) {
	f := newFeedTest(t)
	claim := testClaim("a", "late", "", class.AnnProvisionOnNode, "node-01")
	f.there["claim-a"] = claim
	f.heard = func(*corev1.PersistentVolumeClaim, placement) {
		if !f.classes["late"] {
			f.classes["late"] = true
			f.classAppeared("late")
		}
	}
	f.source.Add(claim)
	f.next(watch.Added, "a")
}

// What the watch brings while a held claim is read wins.
func TestFeedReadsHeldClaims(t *testing.T) {
	for what, row := range map[string]struct {
		edit func(*corev1.PersistentVolumeClaim) // the claim that is read
		then func(f *feedTest, claim *corev1.PersistentVolumeClaim)
		want bool // that it is passed
	}{
		"as it is":        {nil, func(*feedTest, *corev1.PersistentVolumeClaim) {}, true},
		"another":         {func(c *corev1.PersistentVolumeClaim) { c.UID = "b" }, func(*feedTest, *corev1.PersistentVolumeClaim) {}, false},
		"for another now": {func(c *corev1.PersistentVolumeClaim) { c.Annotations[class.AnnProvisionOnNode] = "node-02" }, func(*feedTest, *corev1.PersistentVolumeClaim) {}, false},
		"deleted since": {nil, func(f *feedTest, claim *corev1.PersistentVolumeClaim) {
			f.filter(watch.Event{Type: watch.Deleted, Object: claim})
		}, false},
	} {
		f := newFeedTest(t)
		f.feed = newFeed(nil, f.placer, f.heard, f.read) // which no stream reads from
		claim := testClaim("a", "late", "", class.AnnProvisionOnNode, "node-01")
		read := claim.DeepCopy()
		if row.edit != nil {
			row.edit(read)
		}
		f.there["claim-a"] = read
		f.filter(watch.Event{Type: watch.Added, Object: claim})
		f.classes["late"] = true
		f.classAppeared("late")
		row.then(f, claim)
		if events := f.retries(); (len(events) == 1) != row.want {
			t.Errorf("%s: %d events", what, len(events))
		}
	}
}

func TestFeedRetries(t *testing.T) {
	f := newFeedTest(t)
	f.source.Add(testClaim("a", "now", "", class.AnnProvisionOnNode, "node-01"))
	f.next(watch.Added, "a")
	f.retry("a", "unheard-of")
	f.next(watch.Modified, "a")
	f.next(watch.Bookmark, "")
	f.source.Delete(testClaim("a", "now", "", class.AnnProvisionOnNode, "node-01"))
	f.next(watch.Deleted, "a")
	f.retry("a")
	f.nothing()
}

// A scheduled claim comes before the controller-manager wrote on it, and again after.
func TestFeedIsEarly(t *testing.T) {
	const chosen, by = class.AnnSelectedNode, class.AnnStorageProvisioner
	f := newFeedTest(t)
	step := func(what string, e watch.EventType, c *corev1.PersistentVolumeClaim, then watch.EventType, want bool) {
		f.source.Action(e, c)
		if out := f.next(then, "a"); out.Annotations[by] == "" && then != watch.Deleted {
			t.Errorf("%s: the library would wait for %s", what, by)
		}
		if f.isEarly("a") != want {
			t.Errorf("%s: early %v", what, !want)
		}
	}
	step("scheduled", watch.Added, testClaim("a", "csi", "", chosen, "node-01"), watch.Added, true)
	step("named", watch.Modified, testClaim("a", "csi", "", chosen, "node-01", by, class.CSIProvisioner), watch.Modified, false)
	step("scheduled once more", watch.Modified, testClaim("a", "csi", "", chosen, "node-01"), watch.Modified, true)
	step("scheduled elsewhere", watch.Modified, testClaim("a", "csi", "", chosen, "node-02"), watch.Deleted, false)
}

func TestFeedPassesErrorsAndEnds(t *testing.T) {
	f := newFeedTest(t)
	f.source.Error(&metav1.Status{Message: "too old"})
	if e := <-f.out.ResultChan(); e.Type != watch.Error {
		t.Errorf("got %s", e.Type)
	}
	f.source.Stop()
	if _, open := <-f.out.ResultChan(); open {
		t.Error("the stream outlives its source")
	}
}

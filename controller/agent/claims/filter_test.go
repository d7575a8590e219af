package claims

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// filterTest is a filter with a source that the test controls.
type filterTest struct {
	*filter
	items   []corev1.PersistentVolumeClaim
	source  *watch.FakeWatcher
	classes map[string]bool                          // the known classes
	there   map[string]*corev1.PersistentVolumeClaim // at the API server, by name; nil if it does not answer
	out     watch.Interface
	t       *testing.T
}

// nobody does not follow claims.
var nobody = listener{placed: func(*corev1.PersistentVolumeClaim, placement) {}, forget: func() {}}

func newFilterTest(t *testing.T) *filterTest {
	f := &filterTest{t: t, source: watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 10}), classes: map[string]bool{},
		there: map[string]*corev1.PersistentVolumeClaim{}}
	p := testPlacer()
	p.class = func(name string) *storagev1.StorageClass {
		if name == "late" && f.classes[name] {
			return classtest.Class("now")
		}
		return classtest.Class(name)
	}
	from := source{
		list: func(_ context.Context, each func(*corev1.PersistentVolumeClaim) bool) (string, error) {
			for i := range f.items {
				each(&f.items[i])
			}
			return "9", nil
		},
		watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return f.source, nil },
	}
	f.filter = newFilter(from, p, nobody, f.read)
	w, err := f.WatchWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.out = w
	t.Cleanup(w.Stop)
	return f
}

func (f *filterTest) read(_, name string) (*corev1.PersistentVolumeClaim, error) {
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
func (f *filterTest) next(want watch.EventType, uid string) *corev1.PersistentVolumeClaim {
	f.t.Helper()
	select {
	case e := <-f.out.ResultChan():
		c, ok := e.Object.(*corev1.PersistentVolumeClaim)
		if !ok || e.Type != want || string(c.UID) != uid {
			f.t.Fatalf("got %s %v, want %s of %q", e.Type, e.Object, want, uid)
		}
		return c
	case <-time.After(30 * time.Second):
		f.t.Fatalf("no event, want %s of %q", want, uid)
		return nil
	}
}

// nothing fails if an event comes before a bookmark that it sends.
func (f *filterTest) nothing() {
	f.t.Helper()
	f.source.Action(watch.Bookmark, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "99"}})
	f.next(watch.Bookmark, "")
}

func TestFilterListsLocalClaims(t *testing.T) {
	f := newFilterTest(t)
	f.items = []corev1.PersistentVolumeClaim{
		*classtest.Claim("a", "now", "", contract.AnnProvisionOnNode, "node-01"),
		*classtest.Claim("b", "now", "", contract.AnnProvisionOnNode, "node-02"),
		*classtest.Claim("c", "theirs", ""),
	}
	obj, err := f.ListWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	list := obj.(*corev1.PersistentVolumeClaimList)
	if len(list.Items) != 1 || list.Items[0].UID != "a" || list.ResourceVersion != "9" {
		t.Errorf("listed %d claims at %s", len(list.Items), list.ResourceVersion)
	}
	if list.Items[0].Annotations[contract.AnnStorageProvisioner] == "" {
		t.Error("the listed claim was not prepared")
	}
}

// Any user can choose the node by an annotation, and its agent keeps the claim.
func TestFilterKeepsLittle(t *testing.T) {
	f := newFilterTest(t)
	large := classtest.Claim("a", "now", "", contract.AnnProvisionOnNode, "node-01", "x", strings.Repeat("y", 250<<10))
	large.Labels = map[string]string{"x": strings.Repeat("y", 63)}
	f.source.Add(large)
	passed := f.next(watch.Added, "a")
	for what, claim := range map[string]*corev1.PersistentVolumeClaim{"passed": passed, "kept": f.passed["a"]} {
		if size := claim.Size(); size > 1<<10 {
			t.Errorf("%d bytes of a claim are %s", size, what)
		}
	}
}

func TestFilterWatchesLocalClaims(t *testing.T) {
	f := newFilterTest(t)
	f.source.Add(classtest.Claim("x", "wait", ""))
	f.source.Add(classtest.Claim("y", "theirs", "", contract.AnnProvisionOnNode, "node-01"))
	f.nothing()

	// The scheduler chooses this node: Modified becomes Added.
	f.source.Modify(classtest.Claim("x", "wait", "", contract.AnnSelectedNode, "node-01"))
	f.next(watch.Added, "x")
	f.source.Modify(classtest.Claim("x", "wait", "", contract.AnnSelectedNode, "node-01"))
	f.next(watch.Modified, "x")

	// The scheduler chooses another node: Modified becomes Deleted.
	gone := classtest.Claim("x", "wait", "", contract.AnnSelectedNode, "node-02")
	gone.ResourceVersion = "12"
	f.source.Modify(gone)
	if c := f.next(watch.Deleted, "x"); c.ResourceVersion != "12" || c.Annotations[contract.AnnSelectedNode] != "node-01" {
		t.Errorf("deleted as version %s with %v", c.ResourceVersion, c.Annotations)
	}
	f.source.Delete(gone)
	f.nothing()

	f.source.Add(classtest.Claim("z", "now", "", contract.AnnProvisionOnNode, "node-01"))
	f.next(watch.Added, "z")
	f.source.Delete(classtest.Claim("z", "now", "", contract.AnnProvisionOnNode, "node-01"))
	f.next(watch.Deleted, "z")
}

func TestFilterRetries(t *testing.T) {
	f := newFilterTest(t)
	f.source.Add(classtest.Claim("a", "now", "", contract.AnnProvisionOnNode, "node-01"))
	f.next(watch.Added, "a")
	f.retry("a", "unknown")
	f.next(watch.Modified, "a")
	f.next(watch.Bookmark, "")
	f.source.Delete(classtest.Claim("a", "now", "", contract.AnnProvisionOnNode, "node-01"))
	f.next(watch.Deleted, "a")
	f.retry("a")
	f.nothing()
}

// A scheduled claim is passed before the controller-manager writes its provisioner, and again
// after.
func TestFilterIsEarly(t *testing.T) {
	const chosen, by = contract.AnnSelectedNode, contract.AnnStorageProvisioner
	f := newFilterTest(t)
	step := func(what string, e watch.EventType, c *corev1.PersistentVolumeClaim, then watch.EventType, want bool) {
		f.source.Action(e, c)
		if out := f.next(then, "a"); out.Annotations[by] == "" && then != watch.Deleted {
			t.Errorf("%s: the library would wait for %s", what, by)
		}
		if f.isEarly("a") != want {
			t.Errorf("%s: early %v", what, !want)
		}
	}
	step("scheduled", watch.Added, classtest.Claim("a", "csi", "", chosen, "node-01"), watch.Added, true)
	step("named", watch.Modified, classtest.Claim("a", "csi", "", chosen, "node-01", by, contract.CSIProvisioner), watch.Modified, false)
	step("scheduled once more", watch.Modified, classtest.Claim("a", "csi", "", chosen, "node-01"), watch.Modified, true)
	step("scheduled to another node", watch.Modified, classtest.Claim("a", "csi", "", chosen, "node-02"), watch.Deleted, false)
}

func TestFilterPassesErrorsAndEnds(t *testing.T) {
	f := newFilterTest(t)
	f.source.Error(&metav1.Status{Message: "too old"})
	if e := <-f.out.ResultChan(); e.Type != watch.Error {
		t.Errorf("got %s", e.Type)
	}
	f.source.Stop()
	if _, open := <-f.out.ResultChan(); open {
		t.Error("the stream outlives its source")
	}
}

// A claim that is deleted while no watch runs keeps no check.
func TestListForgetsClaims(t *testing.T) {
	f := newFilterTest(t)
	r := newUnservedRecorder(&Config{Node: "node-01"}, f.placer.class) // which checks nothing
	t.Cleanup(r.queue.ShutDown)
	f.listener = listener{r.update, r.forget}
	list := func(want int) {
		t.Helper()
		if _, err := f.ListWithContext(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		if len(r.pending) != want {
			t.Errorf("%d claims are to be checked, want %d", len(r.pending), want)
		}
	}
	f.items = []corev1.PersistentVolumeClaim{*classtest.Claim("a", "now", "")} // it names no node
	list(1)
	f.items = nil
	list(0)
	if r.next(t.Context(), "a") {
		t.Error("a deleted claim was checked")
	}
}

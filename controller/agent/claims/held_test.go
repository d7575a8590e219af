package claims

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

func TestFilterHoldsUnknownClasses(t *testing.T) {
	f := newFilterTest(t)
	f.there["claim-a"] = classtest.Claim("a", "late", "", contract.AnnProvisionOnNode, "node-01", contract.AnnMigrated, "more than was kept")
	f.there["claim-b"] = classtest.Claim("b", "late", "", contract.AnnProvisionOnNode, "node-02")
	f.source.Add(classtest.Claim("a", "late", "", contract.AnnProvisionOnNode, "node-01"))
	f.source.Add(classtest.Claim("b", "late", "", contract.AnnProvisionOnNode, "node-02"))
	f.source.Add(classtest.Claim("gone", "late", "", contract.AnnProvisionOnNode, "node-01"))
	f.source.Delete(classtest.Claim("gone", "late", "", contract.AnnProvisionOnNode, "node-01"))
	f.nothing()

	f.classes["late"] = true
	f.classAppeared("other")
	f.nothing()
	f.classAppeared("late")
	if c := f.next(watch.Added, "a"); c.Annotations[contract.AnnMigrated] == "" {
		t.Error("the held claim was passed instead of the current one")
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
func TestFilterHoldsLittle(t *testing.T) {
	const claims, size = 1000, 64 << 10
	f := newFilterTest(t)
	placed := map[types.UID]string{}
	r := newUnservedRecorder(&Config{Node: "node-01"}, f.placer.class) // which checks nothing
	t.Cleanup(r.queue.ShutDown)
	f.filter = newFilter(source{}, f.placer, listener{func(c *corev1.PersistentVolumeClaim, where placement) {
		placed[c.UID] = c.Annotations[contract.AnnProvisionOnNode]
		r.update(c, where)
	}, r.forget}, f.read) // which no stream reads from
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range claims {
		uid := fmt.Sprint(i)
		long := strings.Repeat(uid[:1], size)
		c := classtest.Claim(uid, "late", "", "note", long)
		switch i % 5 {
		case 1:
			c.Annotations[contract.AnnProvisionOnNode] = long
		case 2:
			c.Annotations[contract.AnnSelectedNode] = long
		case 3:
			c.Annotations[corev1.BetaStorageClassAnnotation] = "late" + long
		case 4:
			c.Spec.VolumeName = long
		}
		if _, passed := f.apply(watch.Event{Type: watch.Added, Object: c}); passed {
			t.Fatal("a claim of an unknown class was passed")
		}
		clear(placed)
	}
	if grown := heap() - before; grown > 4<<20 {
		t.Errorf("%d claims of %d bytes hold %d bytes", claims, size, grown)
	}
	// A name that no node can have makes the claim remote, even if it starts with the name of a
	// node.
	f.classes["late"] = true
	f.classAppeared("late")
	if events := f.retryEvents(); len(events) > 0 {
		t.Errorf("%d events of claims that are not of this node", len(events))
	}
	if name := placed["1"]; len(name) > 2*253 || f.placer.place(classtest.Claim("1", "now", "", contract.AnnProvisionOnNode, name)) != remoteByAnnotation {
		t.Errorf("placed a claim for node %.20q of %d bytes", name, len(name))
	}
	if _, is := hold(classtest.Claim("x", strings.Repeat("c", 253+1), "")); is {
		t.Error("a claim is held for a class that cannot exist")
	}
	runtime.KeepAlive(f.held)
}

// A class cannot be edited, so that administrators delete it and make it again. Claims change
// meanwhile.
func TestFilterClassGoneAndBack(t *testing.T) {
	f := newFilterTest(t)
	f.classes["late"] = true
	claim := classtest.Claim("a", "late", "", contract.AnnProvisionOnNode, "node-01")
	f.source.Add(claim)
	f.next(watch.Added, "a")

	f.classes["late"] = false
	changed := claim.DeepCopy()
	changed.ResourceVersion = "8"
	f.there["claim-a"] = changed
	f.source.Modify(changed)
	f.next(watch.Deleted, "a")
	f.classes["late"] = true
	f.classAppeared("late")
	if c := f.next(watch.Added, "a"); c.ResourceVersion != "8" {
		t.Error("the claim came back as it was before")
	}
	f.next(watch.Bookmark, "")
	f.nothing()
}

// The class may appear between the moment when a claim is placed and the moment when it is held.
func TestFilterClassAppearsMeanwhile(t *testing.T) {
	f := newFilterTest(t)
	claim := classtest.Claim("a", "late", "", contract.AnnProvisionOnNode, "node-01")
	f.there["claim-a"] = claim
	f.placed = func(*corev1.PersistentVolumeClaim, placement) {
		if !f.classes["late"] {
			f.classes["late"] = true
			f.classAppeared("late")
		}
	}
	f.source.Add(claim)
	f.next(watch.Added, "a")
}

// Events of the watch take precedence over a held claim that is read at the same time.
func TestFilterReadsHeldClaims(t *testing.T) {
	for what, row := range map[string]struct {
		edit func(*corev1.PersistentVolumeClaim) // the claim that is read
		then func(f *filterTest, claim *corev1.PersistentVolumeClaim)
		want bool // that it is passed
	}{
		"as it is":        {nil, func(*filterTest, *corev1.PersistentVolumeClaim) {}, true},
		"another":         {func(c *corev1.PersistentVolumeClaim) { c.UID = "b" }, func(*filterTest, *corev1.PersistentVolumeClaim) {}, false},
		"for another now": {func(c *corev1.PersistentVolumeClaim) { c.Annotations[contract.AnnProvisionOnNode] = "node-02" }, func(*filterTest, *corev1.PersistentVolumeClaim) {}, false},
		"deleted since": {nil, func(f *filterTest, claim *corev1.PersistentVolumeClaim) {
			f.apply(watch.Event{Type: watch.Deleted, Object: claim})
		}, false},
	} {
		f := newFilterTest(t)
		f.filter = newFilter(source{}, f.placer, nobody, f.read) // which no stream reads from
		claim := classtest.Claim("a", "late", "", contract.AnnProvisionOnNode, "node-01")
		read := claim.DeepCopy()
		if row.edit != nil {
			row.edit(read)
		}
		f.there["claim-a"] = read
		f.apply(watch.Event{Type: watch.Added, Object: claim})
		f.classes["late"] = true
		f.classAppeared("late")
		row.then(f, claim)
		if events := f.retryEvents(); (len(events) == 1) != row.want {
			t.Errorf("%s: %d events", what, len(events))
		}
	}
}

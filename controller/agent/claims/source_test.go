package claims

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// copyOf is a claim whose source is the claim of that name.
func copyOf(source, uid, class, volume string, annotations ...string) *corev1.PersistentVolumeClaim {
	claim := classtest.Claim(uid, class, volume, annotations...)
	claim.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: source}
	return claim
}

// Only the node of the source serves a copy, whatever node the scheduler chose.
func TestPlaceCopies(t *testing.T) {
	const chosen = contract.AnnSelectedNode
	p := testPlacer()
	p.copiesHere = func(claim *corev1.PersistentVolumeClaim) bool { return claim.Spec.DataSource.Name == "here" }
	for _, row := range []struct {
		what  string
		claim *corev1.PersistentVolumeClaim
		want  placement
	}{
		{"source here, waits for its pod", copyOf("here", "u", "csi", ""), local},
		{"source here, another node chosen", copyOf("here", "u", "csi", "", chosen, "node-02"), local},
		{"source here, Immediate", copyOf("here", "u", "csi-now", ""), local},
		{"source elsewhere", copyOf("there", "u", "csi", ""), remoteBySource},
		{"source elsewhere, this node chosen", copyOf("there", "u", "csi", "", chosen, "node-01"), remoteBySource},
		{"source elsewhere, Immediate", copyOf("there", "u", "csi-now", ""), remoteBySource},
		{"bound", copyOf("here", "u", "csi", "pv-there", chosen, "node-02"), remote},
		{"hostPath, which is refused as before", copyOf("there", "u", "now", "", contract.AnnProvisionOnNode, "node-01"), local},
		{"another provisioner's", copyOf("here", "u", "theirs", ""), remote},
		{"class not known yet", copyOf("here", "u", "later", ""), unknown},
	} {
		if got := p.place(row.claim); got != row.want {
			t.Errorf("%s: got %d, want %d", row.what, got, row.want)
		}
	}
}

// A held claim has what the placer reads, its source among it.
func TestHeldKeepsTheSource(t *testing.T) {
	for _, claim := range []*corev1.PersistentVolumeClaim{copyOf("there", "u", "csi", ""), classtest.Claim("u", "csi", "")} {
		h, _ := hold(claim)
		want, copies := contract.CopiedClaim(claim)
		if got, ok := contract.CopiedClaim(h.claim("u")); got != want || ok != copies {
			t.Errorf("held %v %v, want %v %v", got, ok, want, copies)
		}
		if slim := contract.Slim(claim); !h.matches(slim) {
			t.Errorf("the slim claim %+v is another one", slim.Spec)
		}
	}
}

// The source is bound to a PV of this node after the claim was seen, and is gone later.
func TestFilterFollowsTheSource(t *testing.T) {
	f := newFilterTest(t)
	here := false
	f.placer.copiesHere = func(*corev1.PersistentVolumeClaim) bool { return here }
	claim := copyOf("data", "a", "csi", "")
	f.there["claim-a"] = claim
	f.source.Add(claim)
	f.nothing()

	here = true
	f.sourceChanged(contract.Named{Namespace: "default", Name: "other"})
	f.nothing()
	f.sourceChanged(contract.Named{Namespace: "default", Name: "data"})
	if c := f.next(watch.Added, "a"); c.Spec.DataSource.Name != "data" {
		t.Errorf("passed %+v", c.Spec)
	}
	f.next(watch.Bookmark, "")

	here = false
	f.sourceChanged(contract.Named{Namespace: "default", Name: "data"})
	f.next(watch.Deleted, "a")
	f.next(watch.Bookmark, "")
	here = true
	f.sourceChanged(contract.Named{Namespace: "default", Name: "data"})
	f.next(watch.Added, "a")
}

// The source may be bound between the moment when a claim is placed and the moment when it is held.
func TestFilterSourceIsBoundMeanwhile(t *testing.T) {
	f := newFilterTest(t)
	here := false
	f.placer.copiesHere = func(*corev1.PersistentVolumeClaim) bool { return here }
	claim := copyOf("data", "a", "csi", "")
	f.there["claim-a"] = claim
	f.placed = func(*corev1.PersistentVolumeClaim, placement) {
		if !here {
			here = true
			f.sourceChanged(contract.Named{Namespace: "default", Name: "data"})
		}
	}
	f.source.Add(claim)
	f.next(watch.Added, "a")
}

// Copies of a namespace, and since when they name their node.
func TestCopiesIn(t *testing.T) {
	const chosen, provisioner = contract.AnnSelectedNode, contract.AnnStorageProvisioner
	synctest.Test(t, func(t *testing.T) {
		f := newFilterTest(t)
		began, since := time.Now(), 0
		step := func(what string, claim *corev1.PersistentVolumeClaim, want ...Copy) {
			t.Helper()
			f.apply(watch.Event{Type: watch.Modified, Object: claim})
			for i := range want {
				want[i].Since = began.Add(time.Duration(since) * time.Second)
			}
			if got := f.copiesIn("default"); !slices.Equal(got, want) {
				t.Errorf("%s: %+v, want %+v", what, got, want)
			}
			time.Sleep(time.Second)
		}
		step("none chosen", copyOf("data", "a", "csi", ""), Copy{UID: "a"})
		since = 1
		step("this node", copyOf("data", "a", "csi", "", chosen, "node-01"), Copy{UID: "a", Node: "node-01"})
		step("changed since", copyOf("data", "a", "csi", "", chosen, "node-01", "x", "y"), Copy{UID: "a", Node: "node-01"})
		since = 3
		step("asked for", copyOf("data", "a", "csi", "", chosen, "node-01", provisioner, "p"), Copy{UID: "a", Node: "node-01", Asked: true})
		since = 4
		step("moved", copyOf("data", "a", "csi", "", chosen, "node-02"), Copy{UID: "a", Node: "node-02", Left: true})
		step("changed since", copyOf("data", "a", "csi", "", chosen, "node-02", "x", "y"), Copy{UID: "a", Node: "node-02", Left: true})
		since = 6
		step("back", copyOf("data", "a", "csi", "", chosen, "node-01"), Copy{UID: "a", Node: "node-01"})
		step("Immediate", copyOf("data", "a", "csi-now", ""))
		step("bound", copyOf("data", "a", "csi", "pv-there"))
		step("empty", classtest.Claim("a", "csi", "", chosen, "node-01"))
		since = 10
		step("straight to another node", copyOf("data", "b", "csi", "", chosen, "node-02"), Copy{UID: "b", Node: "node-02"})
		if got := f.copiesIn("other"); len(got) > 0 {
			t.Errorf("in another namespace: %+v", got)
		}
	})
}

// A copy that left this node may be bound before the empty claim of its pod is placed.
func TestCopyThatLeftAndIsBound(t *testing.T) {
	const chosen = contract.AnnSelectedNode
	bound := Copy{UID: "a", Node: "node-02", Left: true}
	for what, row := range map[string]struct {
		before []string // the nodes that it named, one after the other
		want   []Copy
	}{
		"named this node":         {[]string{"node-01"}, []Copy{bound}},
		"moved, and then is":      {[]string{"node-01", "node-02"}, []Copy{bound}},
		"never named this node":   {[]string{"node-02"}, nil},
		"not known when it moved": {nil, nil},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFilterTest(t)
				modified := func(volume, node string) {
					f.apply(watch.Event{Type: watch.Modified, Object: copyOf("data", "a", "csi", volume, chosen, node)})
				}
				for _, node := range row.before {
					modified("", node)
				}
				for range 2 { // an event after it was bound changes nothing
					modified("pv-there", "node-02")
					if got := f.copiesIn("default"); !slices.Equal(got, row.want) {
						t.Errorf("bound: %+v, want %+v", got, row.want)
					}
				}
				f.reset() // the claims are listed again
				if got := f.copiesIn("default"); !slices.Equal(got, row.want) {
					t.Errorf("listed again: %+v, want %+v", got, row.want)
				}
				if got := f.copiesIn("other"); len(got) > 0 {
					t.Errorf("in another namespace: %+v", got)
				}
				time.Sleep(leftFor + time.Second)
				if got := f.copiesIn("default"); len(got) > 0 {
					t.Errorf("later: %+v", got)
				}
			})
		})
	}
}

// A copy that no agent makes gets one event that says why.
func TestSourcesThatNoAgentCopies(t *testing.T) {
	bound := func(name, volume string) *corev1.PersistentVolumeClaim {
		c := classtest.Claim("s", "csi", volume)
		c.Name = name
		return c
	}
	pv := func(name, driver, node string) *corev1.PersistentVolume {
		pv := contract.CSIPV(name, name, "legacy", classtest.Claim("s", "csi", ""), classtest.Class("csi"), contract.Place{Node: node}, corev1.PersistentVolumeReclaimDelete)
		pv.Spec.CSI.Driver = driver
		return pv
	}
	lost := bound("data", "pv")
	lost.Status.Phase = corev1.ClaimLost
	other := copyOf("data", "u", "csi", "")
	namespace := "theirs"
	other.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "data", Namespace: &namespace}
	hostPath := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}
	for what, row := range map[string]struct {
		claim   *corev1.PersistentVolumeClaim
		objects []runtime.Object
		want    []string
	}{
		"none":              {copyOf("data", "u", "csi", ""), nil, []string{`claim "data"`, "does not exist"}},
		"not bound":         {copyOf("data", "u", "csi-now", ""), []runtime.Object{bound("data", "")}, []string{`"data"`, "not bound", "once it is"}},
		"Lost":              {copyOf("data", "u", "csi", ""), []runtime.Object{lost}, []string{`"data"`, "is Lost", "another dataSource"}},
		"its PV gone":       {copyOf("data", "u", "csi", ""), []runtime.Object{bound("data", "pv")}, []string{`PV "pv"`, "does not exist"}},
		"another driver's":  {copyOf("data", "u", "csi", ""), []runtime.Object{bound("data", "pv"), pv("pv", "example.com", "node-0")}, []string{"CSI driver example.com", contract.CSIProvisioner}},
		"hostPath":          {copyOf("data", "u", "csi", ""), []runtime.Object{bound("data", "pv"), hostPath}, []string{"not of a CSI driver"}},
		"on a node gone":    {copyOf("data", "u", "csi", ""), []runtime.Object{bound("data", "pv"), pv("pv", contract.CSIProvisioner, "node-9")}, []string{`node "node-9"`, "does not exist"}},
		"another namespace": {other, nil, []string{`namespace "theirs"`, "only within its namespace"}},
		"on another node":   {copyOf("data", "u", "csi", "", contract.AnnSelectedNode, "node-9"), []runtime.Object{bound("data", "pv"), pv("pv", contract.CSIProvisioner, "node-0"), node}, nil},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := startAgents(t, 3, func(int, *storagev1.StorageClass, int64) Fit { return Fit{} }, row.objects...)
				a.seen(row.claim)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				a.wantEvents(row.want...)
			})
		})
	}
}

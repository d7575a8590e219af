package provision

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// copyTest is a controller of node-01, which has the volume of the bound claim claim-src, with a file.
type copyTest struct {
	*Controller
	t       *testing.T
	client  *fake.Clientset
	source  *corev1.PersistentVolumeClaim
	pv      *corev1.PersistentVolume
	o       lib.ProvisionOptions // of a claim whose source is claim-src
	release func()               // a copy that is held
	at      chan struct{}        // receives when the copy waits
}

func newCopyTest(t *testing.T, className string, held bool) *copyTest {
	t.Helper()
	c := &copyTest{t: t, o: options(className, "1Mi"), at: make(chan struct{}, 100)}
	gate := make(chan struct{})
	c.release = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(c.release)
	c.Controller = examinerOf(t, classtest.PoolsOf(t, func(config *volume.Config) {
		config.Step = func(step string) {
			if step == "clone.entry" && held {
				c.at <- struct{}{}
				<-gate
			}
		}
	}))
	c.o.StorageClass.Parameters = map[string]string{contract.CopyParameter: "allowed"}
	c.check(c.Claims.Classes().GetStore().Add(c.o.StorageClass))
	c.o.PVC.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "claim-src"}

	c.source = classtest.Claim("src", className, "pvc-src")
	c.source.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
	owner := record.Owner{Namespace: "default", Name: "claim-src", UID: "src"}
	pool := c.Pools.Named("legacy")
	v, err := c.Pools.Create(pool, volume.Spec{Name: "pvc-src", Bytes: 1 << 20, PV: "pvc-src", Owner: owner, Cluster: "c"})
	c.check(err)
	c.check(os.WriteFile(filepath.Join(v.Path, "file"), []byte("of the source"), 0o600))
	_, err = pool.Bind("pvc-src", volume.Binding{PV: "pvc-src", Owner: owner, UID: "uid-pv", Cluster: "c", ReclaimPolicy: "Delete", Bound: true})
	c.check(err)
	c.pv = classtest.PV(c.Pools, "src", className)
	c.pv.UID, c.pv.Status.Phase = "uid-pv", corev1.VolumeBound
	c.saved(c.pv)
	c.client = fake.NewClientset(c.source, c.o.PVC)
	c.Client, c.Events = c.client, events.New(c.client, "node-01")
	t.Cleanup(c.Events.Close)
	return c
}

func (c *copyTest) check(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// saved has the watch report the PV.
func (c *copyTest) saved(pv *corev1.PersistentVolume) {
	c.t.Helper()
	c.check(c.PVs.Informer().GetStore().Add(pv.DeepCopy()))
}

// events returns the reasons and messages of all events.
func (c *copyTest) events() string {
	c.t.Helper()
	list, err := c.client.CoreV1().Events("").List(context.Background(), metav1.ListOptions{})
	c.check(err)
	var all []string
	for _, e := range list.Items {
		all = append(all, e.Type+" "+e.Reason+" "+e.Message)
	}
	return strings.Join(all, "\n")
}

// chosen returns the node that the claim names at the API server.
func (c *copyTest) chosen() string {
	c.t.Helper()
	claim, err := c.client.CoreV1().PersistentVolumeClaims("default").Get(context.Background(), c.o.PVC.Name, metav1.GetOptions{})
	c.check(err)
	return claim.Annotations[contract.AnnSelectedNode]
}

func (c *copyTest) should(what string, want bool) {
	c.t.Helper()
	if got := c.ShouldProvision(c.t.Context(), c.o.PVC); got != want {
		c.t.Errorf("%s: should provision: %v; events %q", what, got, c.events())
	}
}

func TestCopy(t *testing.T) {
	c := newCopyTest(t, "csi-now", false)
	c.should("at first", true)
	pv, state, err := c.Provision(t.Context(), c.o)
	if err != nil || state != lib.ProvisioningFinished || pv.Spec.CSI == nil {
		t.Fatal(pv, state, err)
	}
	v, err := c.Pools.Named("legacy").Get(c.o.PVName)
	c.check(err)
	data, err := os.ReadFile(filepath.Join(v.Path, "file"))
	if err != nil || string(data) != "of the source" || v.Source.UID != "src" || v.Source.Volume != "pvc-src" || v.Owner.UID != testUID {
		t.Errorf("%q, %v; recorded %+v", data, err, v.Record)
	}
	// The source is not asked for once the copy is there.
	c.check(c.client.CoreV1().PersistentVolumeClaims("default").Delete(t.Context(), "claim-src", metav1.DeleteOptions{}))
	c.check(c.PVs.Informer().GetStore().Delete(c.pv))
	c.should("the source is gone", true)
	if again, _, err := c.Provision(t.Context(), c.o); err != nil || again.Name != pv.Name {
		t.Error(again, err)
	}
}

// The library is asked once more when the copy has ended, and not before.
func TestCopyUnderWay(t *testing.T) {
	c := newCopyTest(t, "csi-now", true)
	c.should("at first", true)
	_, state, err := c.Provision(t.Context(), c.o)
	if state != lib.ProvisioningFinished || !errors.As(err, new(*lib.IgnoredError)) {
		t.Fatal(state, err)
	}
	<-c.at
	// The source's claim may go now, and its PV is released.
	c.check(c.client.CoreV1().PersistentVolumeClaims("default").Delete(t.Context(), "claim-src", metav1.DeleteOptions{}))
	c.pv.Status.Phase = corev1.VolumeReleased
	c.saved(c.pv)
	c.should("under way", false)
	if all := c.events(); !strings.Contains(all, "Normal Copying node node-01 copies the volume of the claim \"claim-src\"") || strings.Contains(all, "Warning") {
		t.Errorf("events %q", all)
	}
	_, job, _ := c.jobOf(c.o.PVC)
	c.release()
	<-job.Ended
	c.should("made", true)
	if pv, _, err := c.Provision(t.Context(), c.o); err != nil || pv == nil {
		t.Error(pv, err)
	}
}

// The scheduler may have chosen any node. It keeps to the one that it finds.
func TestCopyChoosesItsNode(t *testing.T) {
	c := newCopyTest(t, "csi", false)
	step := func(what, selected, by string, want bool, chosen string) {
		t.Helper()
		c.o.PVC.Annotations = map[string]string{}
		for key, value := range map[string]string{contract.AnnSelectedNode: selected, contract.AnnStorageProvisioner: by} {
			if value != "" {
				c.o.PVC.Annotations[key] = value
			}
		}
		_, err := c.client.CoreV1().PersistentVolumeClaims("default").Update(t.Context(), c.o.PVC, metav1.UpdateOptions{})
		c.check(err)
		c.should(what, want)
		if got := c.chosen(); got != chosen {
			t.Errorf("%s: node %q, want %q", what, got, chosen)
		}
	}
	step("no pod yet", "", "", false, "")
	step("no pod any more", "", contract.CSIProvisioner, false, "")
	step("Kubernetes has yet to write", "node-02", "", false, "node-02")
	step("another provisioner's by now", "node-02", "example.com", false, "node-02")
	if all := c.events(); all != "" {
		t.Errorf("events %q", all)
	}
	step("another node", "node-02", contract.CSIProvisioner, false, "node-01")
	if all := c.events(); !strings.Contains(all, "not on node node-02") || !strings.Contains(all, "must run on another node") || !strings.Contains(all, "podAntiAffinity") {
		t.Errorf("events %q", all)
	}
	step("this node", "node-01", contract.CSIProvisioner, true, "node-01")
	// What does not fit stays where it was, and is not given back.
	c.o.PVC.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("1Ei")
	step("too large", "node-02", contract.CSIProvisioner, false, "node-02")
	if all := c.events(); !strings.Contains(all, "no other node can serve this claim") {
		t.Errorf("events %q", all)
	}
	if c.Backends.Named(contract.CSIProvisioner).GivesBack(c.o.PVC, c.o.StorageClass, (&refusal{reason: refusedSpace, temporary: true}).why()) {
		t.Error("it is given back")
	}
}

func TestCopyRefusals(t *testing.T) {
	block := corev1.PersistentVolumeBlock
	for what, row := range map[string]struct {
		spoil func(c *copyTest)
		want  string
	}{
		"no source": {func(c *copyTest) { c.source.Name = "other" }, `"claim-src"`},
		"not bound": {func(c *copyTest) { c.source.Status.Phase = corev1.ClaimPending }, "not bound"},
		"Lost":      {func(c *copyTest) { c.source.Status.Phase = corev1.ClaimLost }, "is Lost"},
		"being deleted": {func(c *copyTest) {
			c.source.DeletionTimestamp, c.source.Finalizers = new(metav1.Now()), []string{"x/y"}
		}, "being deleted"},
		"no class": {func(c *copyTest) { c.source.Spec.StorageClassName = nil }, "no class"},
		"block":    {func(c *copyTest) { c.source.Spec.VolumeMode = &block }, "volumeMode Block"},
		"larger": {func(c *copyTest) {
			c.source.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Mi")
		}, "at least as large"},
		"made again":        {func(c *copyTest) { c.source.UID = "again" }, "not bound to it on node node-01"},
		"another PV":        {func(c *copyTest) { c.source.Spec.VolumeName = "pv-there" }, "not bound to it on node node-01"},
		"another driver":    {func(c *copyTest) { c.o.StorageClass.Provisioner = "example.com" }, ""},
		"PV refused":        {func(c *copyTest) { c.pv.Annotations[contract.AnnPool] = "another"; c.saved(c.pv) }, "names pool another"},
		"PV made again":     {func(c *copyTest) { c.pv.UID = "again"; c.saved(c.pv) }, "cannot copy"},
		"another's still":   {func(c *copyTest) { c.source.UID, c.pv.Spec.ClaimRef.UID = "next", "next"; c.saved(c.pv) }, "cannot copy"},
		"another namespace": {func(c *copyTest) { c.o.PVC.Spec.DataSourceRef.Namespace = new("default2") }, ""},
		"node not allowed":  {func(c *copyTest) { c.o.StorageClass.AllowedTopologies = onNode("node-02") }, "allowedTopologies"},
		"node allowed":      {func(c *copyTest) { c.o.StorageClass.AllowedTopologies = onNode("node-02", "node-01") }, "-"},
		"as it is":          {func(*copyTest) {}, "-"},
	} {
		t.Run(what, func(t *testing.T) {
			c := newCopyTest(t, "csi-now", false)
			row.spoil(c)
			c.client = fake.NewClientset(c.source)
			c.Client, c.Events = c.client, events.New(c.client, "node-01")
			t.Cleanup(c.Events.Close)
			c.should(what, row.want == "-")
			if all := c.events(); row.want == "" || row.want == "-" {
				if all != "" {
					t.Errorf("events %q, want none", all)
				}
			} else if !strings.Contains(all, "Warning ProvisioningFailed") || !strings.Contains(all, row.want) {
				t.Errorf("events %q, want %q", all, row.want)
			}
		})
	}
}

// A class that is made again while its copy is under way may permit less: no claim of it gets that copy.
func TestCopyOfAClassThatIsMadeAgain(t *testing.T) {
	c := newCopyTest(t, "csi-now", true)
	if _, _, err := c.Provision(t.Context(), c.o); !errors.As(err, new(*lib.IgnoredError)) {
		t.Fatal(err)
	}
	<-c.at
	_, job, _ := c.jobOf(c.o.PVC)
	c.o.StorageClass = c.o.StorageClass.DeepCopy()
	c.o.StorageClass.Parameters = map[string]string{contract.ConsistencyParameter: "fuzzy"}
	c.check(c.Claims.Classes().GetStore().Update(c.o.StorageClass))
	c.should("under way", false)
	c.release()
	<-job.Ended
	if r, there := c.Pools.Named("legacy").Cached(c.o.PVName); there {
		t.Errorf("the copy is there: %+v", r)
	}
	c.should("ended", true)
	if all := c.events(); strings.Contains(all, "Warning") {
		t.Errorf("events %q", all)
	}
}

func onNode(names ...string) []corev1.TopologySelectorTerm {
	return []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: contract.TopologyNode, Values: names}}}}
}

// A copy whose claim is gone is ended, and one whose claim was only reported so is not.
func TestCopyEnds(t *testing.T) {
	for _, gone := range []bool{false, true} {
		c := newCopyTest(t, "csi-now", true)
		_, _, err := c.Provision(t.Context(), c.o)
		if !errors.As(err, new(*lib.IgnoredError)) {
			t.Fatal(err)
		}
		<-c.at
		_, job, _ := c.jobOf(c.o.PVC)
		if gone {
			c.check(c.client.CoreV1().PersistentVolumeClaims("default").Delete(t.Context(), c.o.PVC.Name, metav1.DeleteOptions{}))
		}
		c.endCopy(t.Context(), c.o.PVC)
		c.release()
		<-job.Ended
		if _, there := c.Pools.Named("legacy").Cached(c.o.PVName); there == gone {
			t.Errorf("claim gone: %v, and the copy is there: %v", gone, there)
		}
	}
}

// A copy that gives way to pods is loud from the third time, and one that fails waits longer each time.
func TestCopyBeginsAnew(t *testing.T) {
	c := newCopyTest(t, "csi-now", false)
	for i := 1; i <= 3; i++ {
		r := c.refusalForCopy(place{pool: c.Pools.Named("legacy")}, c.o.PVC, fmt.Errorf("clone: %w", volume.ErrYielded))
		if !r.temporary || r.silent != (i < loudYields) || !strings.Contains(r.message, fmt.Sprintf("%d times", i)) {
			t.Errorf("%d: %+v", i, r)
		}
	}
	if c.copies.waits(testUID) {
		t.Error("it waits before anything failed")
	}
	for _, want := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
		c.copies.failed(testUID, "")
		if got := c.copies.of(testUID).pause; got != want*time.Second || !c.copies.waits(testUID) {
			t.Errorf("pause %v, want %d s", got, want)
		}
	}
	c.should("a copy that failed", false)
	c.copies.forget(testUID)
	c.should("forgotten", true)
	r := c.refusalForCopy(place{pool: c.Pools.Named("legacy")}, c.o.PVC, fmt.Errorf("clone: %w", volume.ErrUnshared))
	if !r.temporary || !strings.Contains(r.message, contract.CopyParameter+": allowed") {
		t.Errorf("%+v", r)
	}
}

// A copy that is under way has an event when it was begun, after ten minutes, and each hour.
func TestCopyTellsHowFarItIs(t *testing.T) {
	c := newCopyTest(t, "csi-now", false)
	for _, since := range []time.Duration{0, 9, 11, 50, 61, 119, 121} {
		c.noteProgress(t.Context(), c.o.PVC, c.Pools.Named("legacy"), volume.CloneJob{Began: time.Now().Add(-since * time.Minute), Entries: 7, Bytes: 3 << 20})
	}
	got := c.events()
	if strings.Count(got, "Normal Copying") != 4 || strings.Count(got, "7 files and directories so far, and 3Mi written") != 4 {
		t.Errorf("events %q", got)
	}
	for _, since := range []string{"for 0s", "for 11m0s", "for 1h1m0s", "for 2h1m0s"} {
		if !strings.Contains(got, since) {
			t.Errorf("no event %s: %q", since, got)
		}
	}
}

// The source is gone first, and in use once it was brought back: the claim has both events, each once.
func TestReasonsAboutASourceFollowIt(t *testing.T) {
	c := newCopyTest(t, "csi-now", false)
	for _, message := range []string{"the source is gone", "the source has 1 reader", "the source is gone", "the source has 2 reader"} {
		c.refuse(t.Context(), c.o.PVC, sourceRefused("%s", message))
	}
	if got := c.events(); strings.Count(got, "is gone") != 1 || strings.Count(got, "reader") != 1 {
		t.Errorf("events %q", got)
	}
}

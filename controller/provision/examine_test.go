package provision

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/volume"
)

const testUID = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"

// examiner is a controller that knows its node and has the open pools legacy,
// which is that of hostPath claims, and fast.
func examiner(t *testing.T) *Controller {
	t.Helper()
	var all []*volume.Pool
	for _, name := range []string{"legacy", "fast"} {
		pool, err := volume.New(volume.Config{Name: name, Path: filepath.Join(t.TempDir(), name)})
		if err != nil {
			t.Fatal(err)
		}
		if err := pool.Open(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pool.Close() })
		all = append(all, pool)
	}
	pools, err := volume.NewPools(all...)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Client: kubernetes.NewForConfigOrDie(&rest.Config{}), Node: "node-01",
		Pools: pools, HostPath: all[0], CSIDriver: class.CSIProvisioner})
	if err != nil {
		t.Fatal(err)
	}
	c.facts = &facts{hostname: "host-a", cluster: "c"}
	return c
}

// goodPV is what the agent itself makes for testClaim in a class, with what the
// library adds.
func goodPV(t *testing.T, c *Controller, className string) *corev1.PersistentVolume {
	t.Helper()
	claim, sc := testClaim(testUID, className, ""), testClass(className)
	s := c.shapeNamed(sc.Provisioner)
	name, pool := pvName(claim), s.pool(sc)
	pv := s.newPV(lib.ProvisionOptions{PVName: name, PVC: claim, StorageClass: sc}, pool,
		volume.Volume{Record: volume.Record{Name: name}, Path: filepath.Join(pool.Path(), name)})
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, class.AnnProvisionedBy, sc.Provisioner)
	return pv
}

// examine is what the loop does with a PV that it sees.
func examine(c *Controller, pv *corev1.PersistentVolume) (string, error) {
	s := c.shapeOf(pv)
	if s == nil {
		return "", errors.New("nobody's")
	}
	_, name, err := s.examine(pv)
	return name, err
}

func TestExamine(t *testing.T) {
	c := examiner(t)
	good := goodPV(t, c, "wait")
	if name, err := examine(c, good); err != nil || name != good.Name {
		t.Fatalf("our own PV: %q, %v", name, err)
	}
	annotate := func(key, value string) func(*corev1.PersistentVolume) {
		return func(pv *corev1.PersistentVolume) { pv.Annotations[key] = value }
	}
	path := func(p string) func(*corev1.PersistentVolume) {
		return func(pv *corev1.PersistentVolume) { pv.Spec.HostPath.Path = p }
	}
	base := c.pools.All()[0].Path()
	for name, row := range map[string]struct {
		spoil func(*corev1.PersistentVolume)
		want  string // in the error
	}{
		"no hostPath":         {func(pv *corev1.PersistentVolume) { pv.Spec.HostPath = nil }, "no hostPath"},
		"another identity":    {annotate(class.AnnIdentity, "somebody"), "somebody"},
		"no identity":         {func(pv *corev1.PersistentVolume) { delete(pv.Annotations, class.AnnIdentity) }, "hostPathProvisionerIdentity"},
		"another provisioner": {annotate(class.AnnProvisionedBy, "example.com/x"), "provisioned-by"},
		"another node":        {annotate(class.AnnProvisionOnNode, "node-02"), "node-02"},
		"another pool":        {annotate(class.AnnPool, "6e0c"), "6e0c"},
		"no affinity":         {func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = nil }, "affinity"},
		"another's affinity": {func(pv *corev1.PersistentVolume) {
			pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{"host-b"}
		}, "host-a"},
		"two hosts": {func(pv *corev1.PersistentVolume) {
			pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{"host-a", "host-b"}
		}, "affinity"},
		"outside":            {path("/etc/passwd"), "/etc/passwd"},
		"the pool itself":    {path(base), "right below"},
		"below a volume":     {path(base + "/pvc-x/data"), "right below"},
		"dots":               {path(base + "/../../etc"), "right below"},
		"dots in disguise":   {path(base + "/x/../pvc-x"), "right below"},
		"a slash too many":   {path(base + "//pvc-x"), "right below"},
		"a slash at its end": {path(base + "/pvc-x/"), "right below"},
		"private directory":  {path(base + "/.hostpath-provisioner"), "dot"},
		"a sibling":          {path(base + "2/pvc-x"), "right below"},
		"nothing":            {path(""), "right below"},
	} {
		t.Run(name, func(t *testing.T) {
			pv := goodPV(t, c, "wait")
			row.spoil(pv)
			name, err := examine(c, pv)
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %q, %v; want an error with %q", name, err, row.want)
			}
		})
	}
}

// An older provisioner wrote the node's name into the affinity, whatever the label.
func TestExamineOlderAffinity(t *testing.T) {
	c := examiner(t)
	pv := goodPV(t, c, "wait")
	delete(pv.Annotations, class.AnnPool)
	pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{"node-01"}
	if _, err := examine(c, pv); err != nil {
		t.Error(err)
	}
}

func TestMatches(t *testing.T) {
	c := examiner(t)
	pv := goodPV(t, c, "wait")
	v := volume.Volume{Record: volume.Record{PV: pv.Name, Owner: volume.Owner{UID: testUID}}}
	if err := matches(v, pv); err != nil {
		t.Error(err)
	}
	v.PV = "pvc-other"
	if err := matches(v, pv); err == nil || !strings.Contains(err.Error(), "pvc-other") {
		t.Errorf("another's directory: %v", err)
	}
	v.PV, v.Owner.UID = pv.Name, "other"
	if err := matches(v, pv); err == nil || !strings.Contains(err.Error(), testUID) {
		t.Errorf("another claim's directory: %v", err)
	}
	pv.Spec.ClaimRef = nil
	if matches(v, pv) == nil {
		t.Error("a PV without claim matches a claim's directory")
	}
}

func TestAdoptable(t *testing.T) {
	c := examiner(t)
	pv := goodPV(t, c, "wait")
	claim := pv.Spec.ClaimRef.Name
	for name, want := range map[string]bool{
		pv.Name: true, claim + "-" + pv.Name: true, "other-" + pv.Name: false, "data": false, claim: false,
	} {
		if got := namedAfterClaim(pv, name) == nil; got != want {
			t.Errorf("directory %q adoptable: %v", name, got)
		}
	}
	pv.Name = "my-pv"
	if namedAfterClaim(pv, "my-pv") == nil {
		t.Error("a PV of any name is adopted")
	}
	pv.Name, pv.Spec.ClaimRef = "pvc-"+testUID, nil
	if namedAfterClaim(pv, pv.Name) == nil {
		t.Error("a PV without claim is adopted")
	}
}

func TestEventName(t *testing.T) {
	ref := claimRef(testClaim(testUID, "", ""))
	if eventName(ref, "space") == eventName(ref, "ready") {
		t.Error("two topics share an event")
	}
	if eventName(ref, "space") != eventName(claimRef(testClaim(testUID, "", "")), "space") {
		t.Error("the same topic has two names")
	}
	ref.Name = strings.Repeat("x", 253)
	if n := len(eventName(ref, "space")); n > 253 {
		t.Errorf("%d bytes do not fit", n)
	}
}

func TestHeldHere(t *testing.T) {
	for by, want := range map[string]bool{
		Holder("node-01", "a") + ", pid 7": true,
		Holder("node-011", "a"):            false,
		Holder("node-02", "a"):             false,
		"somebody":                         false,
	} {
		if got := heldHere(&volume.Error{Err: &volume.HeldError{By: by}}, "node-01"); got != want {
			t.Errorf("held by %q: here %v", by, got)
		}
	}
	if heldHere(volume.ErrNotReady, "node-01") {
		t.Error("a pool that nobody holds is held")
	}
}

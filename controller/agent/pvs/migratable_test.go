package pvs

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// otherPV returns a PV of another provisioner. Its directory is in the pool fast and holds a file.
func otherPV(t *testing.T, c *PVs) *corev1.PersistentVolume {
	t.Helper()
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + testUID, UID: "pv-uid", Annotations: map[string]string{
			contract.AnnProvisionedBy: "hostpath", contract.AnnIdentity: "node-01",
		}},
		Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: "data", UID: testUID}},
	}
	path := filepath.Join(c.Pools.Named("fast").Path(), "ns-data-"+pv.Name)
	pv.Spec.HostPath = &corev1.HostPathVolumeSource{Path: path}
	for _, err := range []error{os.Mkdir(path, 0o755), os.WriteFile(filepath.Join(path, "data"), []byte("x"), 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return pv
}

// TestValidateOther changes the PV or its directory in one way a row.
func TestValidateOther(t *testing.T) {
	type pv = corev1.PersistentVolume
	for name, row := range map[string]struct {
		edit func(*testing.T, *PVs, *pv)
		want string // in the error, "" for none
	}{
		"as made": {func(*testing.T, *PVs, *pv) {}, ""},
		"another node": {func(_ *testing.T, _ *PVs, pv *pv) { pv.Annotations[contract.AnnIdentity] = "node-02" },
			"node-02"},
		"an affinity to another node": {func(t *testing.T, c *PVs, pv *pv) { former(t, c, pv, nodeNamed("node-02", "host-b")) }, "is another node"},
		"an affinity to another node, and recorded": {func(t *testing.T, c *PVs, pv *pv) {
			recordedAs(t, c, pv, pv.Name)
			former(t, c, pv, nodeNamed("node-02", "host-b"))
		}, "is another node"},
		"an affinity to a hostname that no node has": {func(t *testing.T, c *PVs, pv *pv) { former(t, c, pv) }, "is not this node"},
		"an affinity to a hostname that no node has, and recorded": {func(t *testing.T, c *PVs, pv *pv) {
			recordedAs(t, c, pv, pv.Name)
			former(t, c, pv)
		}, ""},
		"an affinity to a hostname that may be a node's, and recorded": {func(t *testing.T, c *PVs, pv *pv) {
			recordedAs(t, c, pv, pv.Name)
			former(t, c, pv)
			server(t, c, http.StatusForbidden)
		}, "may be another node"},
		"another pool's UUID": {func(_ *testing.T, _ *PVs, pv *pv) { pv.Annotations[contract.AnnPool] = "other" },
			"it names pool other"},
		"another parent": {func(t *testing.T, _ *PVs, pv *pv) {
			pv.Spec.HostPath.Path = filepath.Join(t.TempDir(), filepath.Base(pv.Spec.HostPath.Path))
		}, "right below the pool's"},
		"slash at the end": {func(_ *testing.T, _ *PVs, pv *pv) { pv.Spec.HostPath.Path += "/" }, "right below the pool's"},
		"dots": {func(_ *testing.T, _ *PVs, pv *pv) {
			pool, name := filepath.Split(pv.Spec.HostPath.Path)
			pv.Spec.HostPath.Path = pool + "../" + filepath.Base(pool) + "/" + name
		}, "right below the pool's"},
		"another name": {func(_ *testing.T, _ *PVs, pv *pv) { pv.Spec.HostPath.Path += "-x" }, "want \"ns-data-pvc-"},
		"below a volume": {func(_ *testing.T, _ *PVs, pv *pv) {
			pv.Spec.HostPath.Path = filepath.Join(filepath.Dir(pv.Spec.HostPath.Path), "sub", filepath.Base(pv.Spec.HostPath.Path))
		}, "right below the pool's"},
		"not there": {func(t *testing.T, _ *PVs, pv *pv) { remove(t, pv) }, "is not there"},
		"a link": {func(t *testing.T, _ *PVs, pv *pv) {
			remove(t, pv)
			if err := os.Symlink(t.TempDir(), pv.Spec.HostPath.Path); err != nil {
				t.Fatal(err)
			}
		}, "a file or a link"},
		"empty": {func(t *testing.T, _ *PVs, pv *pv) { emptied(t, pv) }, "names no node"},
		"empty, and confirmed": {func(t *testing.T, _ *PVs, pv *pv) {
			emptied(t, pv)
			pv.Annotations[contract.AnnMigrate] = "run"
		}, ""},
		"recorded for another PV": {func(t *testing.T, c *PVs, pv *pv) { recordedAs(t, c, pv, "pvc-other") }, "belongs to PV"},
		"recorded":                {func(t *testing.T, c *PVs, pv *pv) { recordedAs(t, c, pv, pv.Name) }, ""},
		"not named by the flag":   {func(_ *testing.T, c *PVs, _ *pv) { c.Others = nil }, "annotation"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newPVs(t)
			c.Others, _ = contract.ParseProvisioners("hostpath")
			pv := otherPV(t, c)
			row.edit(t, c, pv)
			pool, v, err := c.Validate(t.Context(), pv, true)
			switch {
			case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
				t.Errorf("%v, want %q", err, row.want)
			case row.want == "" && (err != nil || pool.Name() != "fast" || v.Name != filepath.Base(pv.Spec.HostPath.Path)):
				t.Errorf("%v, %+v, %v", pool, v, err)
			}
			// VolumeOf refuses it even if it has the node label.
			if _, _, err := c.VolumeOf(pv); err == nil {
				t.Error("VolumeOf accepts a PV of another provisioner")
			}
		})
	}
}

func TestValidateOtherPoolNotReady(t *testing.T) {
	c := newPVs(t)
	c.Others, _ = contract.ParseProvisioners("hostpath")
	pv := otherPV(t, c)
	if err := c.Pools.Named("fast").Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Validate(t.Context(), pv, true); !errors.Is(err, volume.ErrNotReady) {
		t.Errorf("%v, want that the pool is not ready", err)
	}
}

// What such a PV has is allocated, whatever its claim requests now: a growth of that provisioner's
// volumes was never served.
func TestAdoptWhatThePVHas(t *testing.T) {
	c := newPVs(t)
	c.Others, _ = contract.ParseProvisioners("hostpath")
	pv := otherPV(t, c)
	pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Mi")}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: testUID}}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Ti")}
	c.Client = fake.NewClientset(claim)
	if _, _, err := c.Adopt(pv, record.Migration{To: "csi"}); err != nil {
		t.Fatal(err)
	}
	if _, v, err := c.Validate(t.Context(), pv, true); err != nil || v.Bytes != 10<<20 || v.Migrating() == nil {
		t.Errorf("%+v, %v", v, err)
	}
}

// former pins the PV to the hostname host-b, in a cluster that has these other nodes.
func former(t *testing.T, c *PVs, pv *corev1.PersistentVolume, others ...*corev1.Node) {
	t.Helper()
	pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"host-b"}}}}}}}
	list := &corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, Items: []corev1.Node{*nodeNamed("node-01", "node-01")}}
	for _, node := range others {
		list.Items = append(list.Items, *node)
	}
	server(t, c, list)
}

// A PV of the way back is valid only for its volume, also one of a provisioner whose PVs are not to
// be migrated any more.
func TestValidateReturn(t *testing.T) {
	for name, row := range map[string]struct {
		edit func(*corev1.PersistentVolume)
		want string
	}{
		"as it was": {func(*corev1.PersistentVolume) {}, ""},
		"another place": {func(pv *corev1.PersistentVolume) {
			pv.Spec.HostPath.Path = "/elsewhere/" + filepath.Base(pv.Spec.HostPath.Path)
		}, "not a directory right below the pool"},
		"another volume":  {func(pv *corev1.PersistentVolume) { pv.Spec.HostPath.Path += "-x" }, "it is not named as provisioner"},
		"another claim":   {func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef.UID = "other" }, "it is not named as provisioner"},
		"another machine": {func(pv *corev1.PersistentVolume) { pv.Annotations[contract.AnnIdentity] = "node-02" }, "names this node"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newPVs(t)
			pv := otherPV(t, c)
			recordedAs(t, c, pv, pv.Name)
			v, err := c.Pools.Named("fast").Get(filepath.Base(pv.Spec.HostPath.Path))
			if err != nil {
				t.Fatal(err)
			}
			row.edit(pv)
			err = c.ValidateReturn(pv, v)
			if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Errorf("%v, want %q", err, row.want)
			}
		})
	}
}

// A hostPath PV of this provisioner, whose hostname changed since.
func TestValidateReturnOfOwn(t *testing.T) {
	c := newPVs(t)
	pool := c.Pools.Named("legacy")
	pv := validPV(c, "wait")
	_, name := c.Names(pv)
	v, err := pool.Create(volume.Spec{Name: name, Bytes: 1 << 20, PV: pv.Name, Owner: ownerOf(pv)})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ValidateReturn(pv, v); err != nil {
		t.Error(err)
	}
	contract.Relocate(pv, v.Path, contract.Place{Hostname: "host-b"})
	if err := c.ValidateReturn(pv, v); err == nil {
		t.Error("the PV of another host is valid")
	}
	contract.Relocate(pv, v.Path, c.At(pool))
	other := v
	other.Path += "-x"
	if err := c.ValidateReturn(pv, other); err == nil || !strings.Contains(err.Error(), "the volume is at") {
		t.Errorf("for another volume: %v", err)
	}
}

func remove(t *testing.T, pv *corev1.PersistentVolume) {
	t.Helper()
	if err := os.RemoveAll(pv.Spec.HostPath.Path); err != nil {
		t.Fatal(err)
	}
}

func emptied(t *testing.T, pv *corev1.PersistentVolume) {
	t.Helper()
	remove(t, pv)
	if err := os.Mkdir(pv.Spec.HostPath.Path, 0o755); err != nil {
		t.Fatal(err)
	}
}

func recordedAs(t *testing.T, c *PVs, pv *corev1.PersistentVolume, name string) {
	t.Helper()
	_, err := c.Pools.Named("fast").Adopt(volume.Spec{
		Name: filepath.Base(pv.Spec.HostPath.Path), Bytes: 1, PV: name, Owner: ownerOf(pv),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The PVs that a migration makes have all marks of node, cluster and pool, in place of older ones:
// the agent need not write them again.
func TestSuccessorsAreMarked(t *testing.T) {
	c := newPVs(t)
	registeredAs(t, c, "new", "")
	pool := c.Pools.Named("legacy")
	old := validPV(c, "wait")
	old.UID, old.Annotations[contract.AnnNodeUID] = "first", "older"
	csi := contract.MigratedCSIPV(old, contract.CSIProvisioner, old.Name, pool.Name(), *old.Spec.Capacity.Storage(), c.At(pool))
	csi.UID = "second"
	back := contract.ReturnedHostPathPV(old, csi, contract.DirectoryOf(old), c.At(pool), false)
	for what, pv := range map[string]*corev1.PersistentVolume{"CSI": csi, "hostPath": back} {
		patches := 0
		setAnswer(t, c, func(r *http.Request) (int, any) {
			patches++
			return http.StatusOK, pv
		})
		if err := c.annotate(t.Context(), pv, pool); err != nil || patches > 0 {
			t.Errorf("%s: %d patches, %v; annotations %v", what, patches, err, pv.Annotations)
		}
		if pv.Annotations[contract.AnnNodeUID] != "new" || pv.Annotations[contract.AnnCluster] != "c" || pv.Annotations[contract.AnnPool] != pool.ID() {
			t.Errorf("%s: annotations %v", what, pv.Annotations)
		}
	}
}

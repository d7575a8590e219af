package recovery

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/agent/backends"
	"kubevirt.io/hostpath-provisioner/controller/agent/nodeinfo"
	"kubevirt.io/hostpath-provisioner/controller/agent/orphans"
	"kubevirt.io/hostpath-provisioner/controller/agent/pvs"
	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/recovery"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// answers are answers of an API server; see apitest.Paths.
type answers = map[string]any

const (
	atPV, atClaim, atNamespace = "persistentvolumes/pvc-1", "namespaces/shop/persistentvolumeclaims/data", "namespaces/shop"
	atClasses                  = "/apis/storage.k8s.io/v1/storageclasses"
)

// node has an agent with the pools legacy and fast, and one volume that was bound to a claim.
type node struct {
	*Planner
	pool *volume.Pool
	made volume.Volume
	says answers
}

func newNode(t *testing.T, cluster string, had *record.Claim) *node {
	return newNodeKeeping(t, cluster, had, 0)
}

// newNodeKeeping is newNode with pools that keep deleted volumes.
func newNodeKeeping(t *testing.T, cluster string, had *record.Claim, retention time.Duration) *node {
	t.Helper()
	classes := &storagev1.StorageClassList{Items: []storagev1.StorageClass{*classtest.Class("csi"), *classtest.Class("wait")}}
	n := &node{says: answers{
		"namespaces/kube-system": corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "here"}},
		atNamespace:              corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		"persistentvolumes":      corev1.PersistentVolumeList{}, atClasses: classes,
	}}
	pools := classtest.PoolsOf(t, func(c *volume.Config) { c.TrashRetention = retention })
	n.pool = pools.Named("legacy")
	owner := record.Owner{Namespace: "shop", Name: "data", UID: "old"}
	var err error
	if n.made, err = n.pool.Create(volume.Spec{Name: "pvc-1", Bytes: 1 << 20, PV: "pvc-1", Owner: owner, Cluster: cluster}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.pool.Bind("pvc-1", volume.Binding{PV: "pvc-1", Owner: owner, ReclaimPolicy: "Delete", UID: "pv", Cluster: cluster, Bound: true}); err != nil {
		t.Fatal(err)
	}
	if had != nil {
		if _, err := n.pool.RecordClaim("pvc-1", "pvc-1", owner, had); err != nil {
			t.Fatal(err)
		}
	}
	client := apitest.Client(t, apitest.Paths(n.says))
	info := nodeinfo.New(apitest.Client(t, apitest.Objects("node-01", apitest.Node("node-01", "host-a", "here")...)), "node-01")
	if err := info.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	of, err := backends.New(backends.Config{Node: info, Pools: pools, CSIDriver: contract.CSIProvisioner,
		Dialects: []backends.Served{{Dialect: contract.Own(false), Pools: pools.All()[:1]}}})
	if err != nil {
		t.Fatal(err)
	}
	local := pvs.New(pvs.Config{Client: client, Node: info, Events: events.New(client, "node-01"), Pools: pools, Backends: of.All})
	n.Planner = &Planner{Client: client, Pools: pools, PVs: local}
	return n
}

// plan asks about the volume.
func (n *node) plan(t *testing.T, o recovery.Options) (recovery.Volume, error) {
	t.Helper()
	return n.Volume(t.Context(), Request{Options: o,
		Named: orphans.Named{Pool: n.pool.ID(), Name: n.made.Name, Created: n.made.Created, Trash: n.made.Trash}})
}

func had() *record.Claim {
	return &record.Claim{Provisioner: contract.CSIProvisioner, Class: "csi", AccessModes: []string{"ReadWriteOncePod"}, MountOptions: []string{"noatime"},
		FSType: "xfs", Request: 1 << 19, Labels: map[string]string{"app": "db"}, Annotations: map[string]string{contract.AnnProvisionOnNode: "node-01"}}
}

// The objects are those that the volume had: the claim names the PV, the PV names the claim without a
// UID and has policy Retain, with the recorded one noted.
func TestObjects(t *testing.T) {
	n := newNode(t, "here", had())
	v, err := n.plan(t, recovery.Options{})
	if err != nil || v.Verdict != recovery.Made || v.ClaimWrite != recovery.CreateClaim || !v.PVWrite || len(v.Notes) != 0 {
		t.Fatalf("%+v, %v", v, err)
	}
	c, pv := v.Objects.Claim, v.Objects.PV
	if c.Namespace != "shop" || c.Name != "data" || c.UID != "" || c.Spec.VolumeName != "pvc-1" || *c.Spec.StorageClassName != "csi" || c.Labels["app"] != "db" ||
		len(c.Annotations) != 1 || c.Spec.AccessModes[0] != corev1.ReadWriteOncePod || c.Spec.Resources.Requests.Storage().Value() != 1<<19 || c.Spec.DataSource != nil {
		t.Errorf("claim %+v", c)
	}
	if pv.Name != "pvc-1" || pv.UID != "" || len(pv.Finalizers) > 0 || pv.Spec.ClaimRef.Name != "data" || pv.Spec.ClaimRef.Namespace != "shop" || pv.Spec.ClaimRef.UID != "" ||
		pv.Spec.PersistentVolumeReclaimPolicy != "Retain" || pv.Annotations[contract.AnnFormerPolicy] != "Delete" || pv.Annotations[contract.AnnPool] != n.pool.ID() ||
		pv.Annotations[contract.AnnCluster] != "here" || pv.Spec.CSI == nil || pv.Spec.CSI.VolumeHandle != "pvc-1" || pv.Spec.CSI.FSType != "xfs" ||
		!slices.Equal(pv.Spec.MountOptions, []string{"noatime"}) || pv.Spec.Capacity.Storage().Value() != 1<<20 || contract.TopologyOf(pv) != "node-01" ||
		pv.Spec.StorageClassName != "csi" || pv.Spec.AccessModes[0] != corev1.ReadWriteOncePod {
		t.Errorf("PV %+v", pv)
	}
}

// What was not recorded, or is missing in the cluster, is said, and the objects are made.
func TestObjectsWithNotes(t *testing.T) {
	for what, row := range map[string]struct {
		had   *record.Claim
		says  func(answers)
		class string
		note  string
	}{
		"an older record":  {nil, nil, "wait", "has no class"},
		"a missing class":  {had(), func(a answers) { a[atClasses] = storagev1.StorageClassList{} }, "csi", `class "csi" does not exist`},
		"no class":         {&record.Claim{Provisioner: contract.CSIProvisioner, Class: ""}, nil, "", ""},
		"labels too long":  {&record.Claim{Class: "csi", Omitted: []string{"annotations", "labels"}}, nil, "csi", "missing: annotations, labels"},
		"forbidden":        {had(), func(a answers) { a[atNamespace] = 403 }, "csi", "may not read namespace shop"},
		"more was wanted":  {&record.Claim{Class: "csi", Request: 1 << 30}, nil, "csi", ""},
		"another's class":  {&record.Claim{Provisioner: contract.CSIProvisioner, Class: "wait", MountOptions: []string{"noatime"}}, nil, "wait", ""},
		"a claim is Lost":  {had(), func(a answers) { a[atClaim] = lostClaim() }, "csi", ""},
		"policy and class": {&record.Claim{Provisioner: contract.HostPathProvisioner, Class: "wait"}, nil, "wait", ""},
	} {
		n := newNode(t, "here", row.had)
		if row.says != nil {
			row.says(n.says)
		}
		v, err := n.plan(t, recovery.Options{})
		if err != nil || v.Verdict != recovery.Made || v.Objects == nil {
			t.Errorf("%s: %+v, %v", what, v, err)
			continue
		}
		c, pv := v.Objects.Claim, v.Objects.PV
		if c.Spec.StorageClassName == nil || *c.Spec.StorageClassName != row.class || pv.Spec.StorageClassName != row.class ||
			row.note == "" && len(v.Notes) > 0 || !strings.Contains(strings.Join(v.Notes, ";"), row.note) {
			t.Errorf("%s: class %v, PV %q, notes %q", what, c.Spec.StorageClassName, pv.Spec.StorageClassName, v.Notes)
		}
		if request := c.Spec.Resources.Requests.Storage(); request.Cmp(*pv.Spec.Capacity.Storage()) > 0 {
			t.Errorf("%s: the claim requests %s of %s", what, request, pv.Spec.Capacity.Storage())
		}
		if isCSI := pv.Spec.CSI != nil; row.had != nil && row.had.Provisioner != "" && isCSI != (row.had.Provisioner == contract.CSIProvisioner) {
			t.Errorf("%s: CSI %v", what, isCSI)
		}
		if row.had != nil && !slices.Equal(pv.Spec.MountOptions, row.had.MountOptions) {
			t.Errorf("%s: mount options %q", what, pv.Spec.MountOptions)
		}
		if uid := pv.Spec.ClaimRef.UID; (uid != "") != (what == "a claim is Lost") {
			t.Errorf("%s: claimRef has the UID %q", what, uid)
		}
	}
}

func lostClaim() corev1.PersistentVolumeClaim {
	c := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "old"}}
	c.Spec.VolumeName, c.Status.Phase = "pvc-1", corev1.ClaimLost
	return c
}

// Each volume that is left has the reason, and no objects but those that show what would be made.
func TestLeft(t *testing.T) {
	waits := lostClaim()
	waits.Spec.VolumeName, waits.Status.Phase = "", corev1.ClaimPending
	waits.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
	class := "csi"
	waits.Spec.StorageClassName = &class
	imported := waits
	imported.Annotations = map[string]string{"cdi.kubevirt.io/storage.import.source": "http"}
	released := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"}}
	released.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: contract.CSIProvisioner, VolumeHandle: "pvc-1"}
	released.Status.Phase = corev1.VolumeReleased
	bound := *released.DeepCopy()
	bound.Spec.ClaimRef, bound.Status.Phase = &corev1.ObjectReference{Namespace: "shop", Name: "data", UID: "old"}, corev1.VolumeBound
	journal := record.Migration{To: "csi", Old: []byte("{}"), New: []byte("{}")}
	for what, row := range map[string]struct {
		cluster string
		spoil   func(*testing.T, *node)
		options recovery.Options
		want    string // part of the reason; "" if it is made
	}{
		"another cluster":           {"there", nil, recovery.Options{}, "--from-cluster=there"},
		"the cluster that is named": {"there", nil, recovery.Options{FromCluster: "there"}, ""},
		"a missing directory":       {"here", func(t *testing.T, n *node) { must(t, os.Remove(n.made.Path)) }, recovery.Options{}, "is missing"},
		"a missing namespace":       {"here", func(_ *testing.T, n *node) { delete(n.says, atNamespace) }, recovery.Options{}, "does not exist"},
		"a later namespace": {"here", func(_ *testing.T, n *node) {
			n.says[atNamespace] = corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", CreationTimestamp: metav1.NewTime(time.Now().Add(time.Hour))}}
		}, recovery.Options{}, "another tenant"},
		"a namespace with another UID": {"here", func(t *testing.T, n *node) {
			c := had()
			c.Created, c.NamespaceUID = time.Now(), "later"
			_, err := n.pool.RecordClaim("pvc-1", "pvc-1", n.made.Owner, c)
			must(t, err)
			n.says[atNamespace] = corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "restored"}}
		}, recovery.Options{}, "another tenant"},
		"another namespace": {"here", func(_ *testing.T, n *node) {
			n.says["namespaces/b"] = corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
		}, recovery.Options{ToNamespace: "b"}, ""},
		"a claim with another volume": {"here", func(_ *testing.T, n *node) {
			c := lostClaim()
			c.Spec.VolumeName = "pvc-2"
			n.says[atClaim] = c
		}, recovery.Options{}, "has another volume"},
		"a Released PV": {"here", func(_ *testing.T, n *node) { n.says[atPV] = released }, recovery.Options{}, "kubectl patch pv pvc-1"},
		"a PV of another driver": {"here", func(_ *testing.T, n *node) {
			n.Driver = "own"
			n.says[atPV], n.says[atClaim] = bound, lostClaim()
		}, recovery.Options{}, "names another volume"},
		"a claim that waits":   {"here", func(_ *testing.T, n *node) { n.says[atClaim] = waits }, recovery.Options{}, ""},
		"one that is imported": {"here", func(_ *testing.T, n *node) { n.says[atClaim] = imported }, recovery.Options{}, "import"},
		"one with another PV": {"here", func(_ *testing.T, n *node) {
			n.says[atClaim] = waits
			n.says["persistentvolumes"] = corev1.PersistentVolumeList{Items: []corev1.PersistentVolume{{ObjectMeta: metav1.ObjectMeta{Name: "pvc-old"}}}}
		}, recovery.Options{}, "PV pvc-old was made for it"},
		"being migrated here": {"here", func(t *testing.T, n *node) { must1(t)(n.pool.BeginMigration("pvc-1", journal)) }, recovery.Options{}, "being replaced"},
		"prepared elsewhere": {"there", func(t *testing.T, n *node) { must1(t)(n.pool.BeginMigration("pvc-1", journal)) },
			recovery.Options{FromCluster: "there"}, ""},
	} {
		n := newNode(t, row.cluster, had())
		if row.spoil != nil {
			row.spoil(t, n)
		}
		v, err := n.plan(t, row.options)
		if err != nil || (v.Verdict == recovery.Made) != (row.want == "") || v.Verdict == recovery.There || !strings.Contains(v.Why, row.want) {
			t.Errorf("%s: %+v, %v; want %q", what, v.Finding, err, row.want)
		}
		if v.Verdict == recovery.Left && len(v.Notes) > 0 {
			t.Errorf("%s: notes %q", what, v.Notes)
		}
	}
}

// A volume whose PV was being replaced in the lost cluster gets the new kind once the old one may be
// gone, and the old kind before.
func TestOpenJournal(t *testing.T) {
	for _, cutOver := range []bool{false, true} {
		for _, to := range []string{"csi", "hostpath"} {
			n := newNode(t, "there", nil)
			must1(t)(n.pool.BeginMigration("pvc-1", record.Migration{To: to, Old: []byte("{}"), New: []byte("{}")}))
			if cutOver {
				must(t, n.pool.AdvanceMigration("pvc-1", record.CutOver()))
			}
			v, err := n.plan(t, recovery.Options{FromCluster: "there"})
			if err != nil || v.Objects == nil {
				t.Fatalf("%+v, %v", v, err)
			}
			if isCSI := v.Objects.PV.Spec.CSI != nil; isCSI != (cutOver == (to == "csi")) {
				t.Errorf("cut over %v to %s: a CSI PV %v", cutOver, to, isCSI)
			}
			if r, _ := n.pool.Cached("pvc-1"); r.Migrating() == nil || r.Migration.Step == record.MigrationDone {
				t.Errorf("the plan changed the journal: %+v", r.Migration)
			}
		}
	}
}

// Inline volumes, and those in the trash, are left. A name alone means no volume, and no answer of the
// API server is no plan.
func TestOtherRecords(t *testing.T) {
	n := newNode(t, "here", had())
	inline, err := n.pool.Create(volume.Spec{Name: "csi-1", Bytes: 1, Ephemeral: true, Owner: record.Owner{Namespace: "shop", Name: "data", UID: "pod"}})
	must(t, err)
	v, err := n.Volume(t.Context(), Request{Named: orphans.Named{Pool: n.pool.ID(), Name: inline.Name, Created: inline.Created, Trash: inline.Trash}})
	if err != nil || v.Verdict != recovery.Left || !strings.Contains(v.Why, "inline") {
		t.Errorf("%+v, %v", v.Finding, err)
	}
	if _, err := n.Volume(t.Context(), Request{Named: orphans.Named{Pool: n.pool.ID(), Name: "pvc-1"}}); !errors.Is(err, volume.ErrNotFound) {
		t.Errorf("by its name alone: %v", err)
	}
	for _, path := range []string{"namespaces/kube-system", atPV, atClaim, atNamespace, atClasses} {
		n := newNode(t, "here", had())
		n.says[path] = 500
		if _, err := n.plan(t, recovery.Options{}); !errors.Is(err, volume.ErrNotReady) {
			t.Errorf("no answer for %s: %v", path, err)
		}
	}
	must(t, os.Rename(filepath.Join(n.pool.Path(), "pvc-1"), filepath.Join(n.pool.Path(), ".hostpath-provisioner/trash", n.made.Trash)))
	n.pool.Close()
	pool, err := volume.New(volume.Config{Name: "legacy", Path: n.pool.Path()})
	must(t, err)
	must(t, pool.Open())
	t.Cleanup(func() { pool.Close() })
	n.Pools, err = volume.NewPools(pool)
	must(t, err)
	n.pool = pool
	if v, err := n.plan(t, recovery.Options{}); err != nil || v.Verdict != recovery.Left || !strings.Contains(v.Why, "trash") {
		t.Errorf("set aside: %+v, %v", v.Finding, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must1(t *testing.T) func(record.Record, error) {
	return func(_ record.Record, err error) { must(t, err) }
}

// Volumes that were adopted from other provisioners come back where they are, with the names that those
// provisioners gave them, and their size as far as it is known.
func TestAdoptedVolumes(t *testing.T) {
	const uid = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"
	for compat, directory := range map[string]string{"local-path": "pvc-" + uid + "_shop_data", "hostpath": "shop-data-pvc-" + uid} {
		for _, bytes := range []int64{0, 1 << 20} {
			dialects, err := contract.ParseCompat(compat)
			must(t, err)
			n := newNode(t, "here", nil)
			info := nodeinfo.New(apitest.Client(t, apitest.Objects("node-01", apitest.Node("node-01", "host-a", "here")...)), "node-01")
			must(t, info.Read(t.Context()))
			of, err := backends.New(backends.Config{Node: info, Pools: n.Pools, Dialects: []backends.Served{{Dialect: dialects[0], Pools: n.Pools.All()[:1]}}})
			must(t, err)
			n.PVs = pvs.New(pvs.Config{Client: n.Client, Node: info, Events: events.New(n.Client, "node-01"), Pools: n.Pools, Backends: of.All})
			must(t, os.Mkdir(filepath.Join(n.pool.Path(), directory), 0o755))
			owner := record.Owner{Namespace: "shop", Name: "data", UID: uid}
			n.made, err = n.pool.Adopt(volume.Spec{Name: directory, Bytes: bytes, PV: "pvc-" + uid, Owner: owner, Cluster: "here", ReclaimPolicy: "Delete"})
			must(t, err)
			_, err = n.pool.RecordClaim(directory, "pvc-"+uid, owner, &record.Claim{Provisioner: dialects[0].Provisioner, Class: "theirs", Request: 3 << 20})
			must(t, err)
			v, err := n.plan(t, recovery.Options{})
			if err != nil || v.Verdict != recovery.Made {
				t.Errorf("%s: %+v, %v", compat, v.Finding, err)
				continue
			}
			pv, want := v.Objects.PV, int64(3<<20)
			if bytes > 0 {
				want = bytes
			}
			if contract.DirectoryOf(pv) != n.made.Path || pv.Annotations[contract.AnnProvisionedBy] != dialects[0].Provisioner || pv.Spec.StorageClassName != "theirs" ||
				pv.Spec.Capacity.Storage().Value() != want || v.Objects.Claim.Spec.Resources.Requests.Storage().Value() > want {
				t.Errorf("%s, %d bytes: PV %+v, claim %+v", compat, bytes, pv, v.Objects.Claim.Spec)
			}
			if err := recovery.CheckObjects(v, "node-01", contract.CSIProvisioner, "shop"); err != nil {
				t.Errorf("%s: the plugin refuses it: %v", compat, err)
			}
		}
	}
}

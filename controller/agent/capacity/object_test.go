package capacity

import (
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

func publisher() *Publisher {
	return &Publisher{
		config: Config{Node: "node-01", Driver: contract.CSIProvisioner, Namespace: "storage"},
		owner:  &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "41d7"},
	}
}

func TestObject(t *testing.T) {
	got, err := yaml.Marshal(publisher().object("fast", 10<<30))
	if err != nil {
		t.Fatal(err)
	}
	const want = `capacity: 10Gi
maximumVolumeSize: 10Gi
metadata:
  labels:
    csi.storage.k8s.io/drivername: kubevirt.io.hostpath-provisioner
    csi.storage.k8s.io/managed-by: hostpath-provisioner-node-01
    hostpath-provisioner.kubevirt.io/node: node-01
  name: node-01.fast.b0513a83cb8adf76
  namespace: storage
  ownerReferences:
  - apiVersion: apps/v1
    kind: DaemonSet
    name: agent
    uid: 41d7
nodeTopology:
  matchLabels:
    topology.hostpath.csi/node: node-01
storageClassName: fast
`
	if string(got) != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("n", 63)
	longClass := strings.Repeat("c", 149) + "." + strings.Repeat("c", 103)
	seen := map[string]bool{}
	for _, row := range []struct{ driver, node, class string }{
		{"d", "a.b", "c"},
		{"d", "a", "b.c"},
		{"e", "a", "b.c"},
		{"d", long, longClass},
		{"d", long, longClass[:252]},
		{"d", "node-01", "fast"},
		{"d", "node-02", "fast"},
	} {
		name := objectName(row.driver, row.node, row.class)
		if why := validation.IsDNS1123Subdomain(name); len(why) > 0 {
			t.Errorf("%q cannot be a name: %v", name, why)
		}
		if seen[name] {
			t.Errorf("%+v: %q is another's name too", row, name)
		}
		seen[name] = true
		for key, value := range labelsOf(row.driver, row.node) {
			if why := validation.IsValidLabelValue(value); len(why) > 0 {
				t.Errorf("label %s cannot be %q: %v", key, value, why)
			}
		}
	}
	if a, b := managedBy(long), managedBy(long[1:]+"m"); a == b {
		t.Errorf("two nodes with long names share %q", a)
	}
}

// What others did to an object is seen, and set right without touching what is
// theirs.
func TestMerged(t *testing.T) {
	want := publisher().object("fast", 10<<30)
	for name, row := range map[string]struct {
		spoil             func(*storagev1.CSIStorageCapacity)
		key, badges, says bool // as they should be
	}{
		"untouched": {func(*storagev1.CSIStorageCapacity) {}, true, true, true},
		"a label of others": {func(o *storagev1.CSIStorageCapacity) { o.Labels["team"] = "a" },
			true, true, true},
		"a label gone": {func(o *storagev1.CSIStorageCapacity) { delete(o.Labels, contract.LabelNode) },
			true, false, true},
		"no labels": {func(o *storagev1.CSIStorageCapacity) { o.Labels = nil }, true, false, true},
		"another manager": {func(o *storagev1.CSIStorageCapacity) { o.Labels[labelManagedBy] = "x" },
			true, false, true},
		"no owner": {func(o *storagev1.CSIStorageCapacity) { o.OwnerReferences = nil }, true, false, true},
		"an older owner": {func(o *storagev1.CSIStorageCapacity) { o.OwnerReferences[0].UID = "x" },
			true, false, true},
		"a further owner": {func(o *storagev1.CSIStorageCapacity) {
			o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{UID: "x"})
		}, true, false, true},
		"another class":    {func(o *storagev1.CSIStorageCapacity) { o.StorageClassName = "slow" }, false, true, true},
		"another node":     {func(o *storagev1.CSIStorageCapacity) { o.NodeTopology = topologyOf("x") }, false, true, true},
		"no topology":      {func(o *storagev1.CSIStorageCapacity) { o.NodeTopology = nil }, false, true, true},
		"no capacity":      {func(o *storagev1.CSIStorageCapacity) { o.Capacity = nil }, true, true, false},
		"no maximum":       {func(o *storagev1.CSIStorageCapacity) { o.MaximumVolumeSize = nil }, true, true, false},
		"a higher maximum": {func(o *storagev1.CSIStorageCapacity) { o.MaximumVolumeSize.Add(resource.MustParse("1")) }, true, true, false},
	} {
		o := want.DeepCopy()
		row.spoil(o)
		if got := sameKey(o, want); got != row.key {
			t.Errorf("%s: key as it should be: %v", name, got)
		}
		if got := sameMetadata(o, want); got != row.badges {
			t.Errorf("%s: owner and labels as they should be: %v", name, got)
		}
		if got := bytesOf(o) == 10<<30; got != row.says {
			t.Errorf("%s: number as it should be: %v", name, got)
		}
		theirs, before := o.Labels["team"], o.DeepCopy()
		m := merged(o, want)
		if !sameMetadata(m, want) || bytesOf(m) != 10<<30 || m.Labels["team"] != theirs {
			t.Errorf("%s: set right it is %+v", name, m)
		}
		if o.String() != before.String() {
			t.Errorf("%s: the object in the cache was changed", name)
		}
	}
}

// An agent whose pod is gone reads that once a pass, however many objects need its owner.
func TestOwnPodIsReadOnce(t *testing.T) {
	p, client := publisher(), fake.NewClientset()
	p.config.Client, p.config.Pod = client, "gone"
	for pass := 1; pass <= 2; pass++ {
		p.ownerRead = false
		for range 5 {
			if err := p.findOwner(t.Context()); !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
		}
		if got := len(client.Actions()); got != pass {
			t.Errorf("%d requests in %d passes", got, pass)
		}
	}
}

package disks

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/volume/disk"
)

// The names of the older program stay; a hash makes those that it could not have.
func TestPVName(t *testing.T) {
	free, taken := func(string) bool { return false }, func(string) bool { return true }
	for path, want := range map[string]string{
		"/dev/sdb":                     "local-node-01-sdb",
		"/dev/disk/by-path/pci_0:1.0":  "local-node-01-pci-0-1.0",
		"/dev/disk/by-id/WWN__0xAB+=C": "local-node-01-wwn-0xab-c",
	} {
		if got := pvName("node-01", path, free); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if a, b := pvName("n", "/a/x_y", taken), pvName("n", "/b/x_y", taken); a == b ||
		!strings.HasPrefix(a, "local-n-x-y-") {
		t.Errorf("two devices get the names %s and %s", a, b)
	}
	long := strings.Repeat("x", 200)
	a, b := pvName(long, "/dev/"+long, free), pvName(long, "/dev/"+long+"y", free)
	if a == b || len(a) > 253 || len(validation.IsDNS1123Subdomain(a)) > 0 {
		t.Errorf("long names become %s and %s", a, b)
	}
}

func TestExcludesNode(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelHostname: "host"}}}
	of := func(a *corev1.VolumeNodeAffinity) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{NodeAffinity: a}}
	}
	either := affinity("other")
	either.Required.NodeSelectorTerms = append(either.Required.NodeSelectorTerms,
		affinity("host").Required.NodeSelectorTerms...)
	zone := affinity("other")
	zone.Required.NodeSelectorTerms[0].MatchExpressions[0].Key = "zone"
	for name, row := range map[string]struct {
		pv   *corev1.PersistentVolume
		want bool
	}{
		"this node": {of(affinity("host")), false}, "another": {of(affinity("n")), true}, "one of two": {of(either), false},
		"none": {of(nil), false}, "a zone": {of(zone), false},
	} {
		if got := excludesNode(row.pv, node); got != row.want {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
}

// The PV is the older program's, field by field.
func TestPVContract(t *testing.T) {
	s, err := parseSpec(configMap())
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-01", UID: "uid",
		Labels: map[string]string{corev1.LabelHostname: "host"}}}
	pv := newPV("pv", disk.Device{Path: "/dev/disk/by-id/data-1", Bytes: 12345}, s, node)
	if len(pv.OwnerReferences) > 0 || identity.DiskNodeUID(pv) != "uid" {
		t.Errorf("owners %+v, and the Node has the UID %q: the PV would be deleted with the Node object", pv.OwnerReferences, identity.DiskNodeUID(pv))
	}
	for _, label := range []string{"local-pv-provisioner.cybozu.io/node", "local-pv-provisioner.cybozu.com/node"} {
		if pv.Labels[label] != "node-01" {
			t.Errorf("label %s is %q", label, pv.Labels[label])
		}
	}
	for key, want := range map[string]string{"storageClassName": "local-storage", "volumeMode": "Filesystem",
		"fsType": "ext4", "deviceDir": "/dev/disk/by-id", "deviceNameFilter": "^data-"} {
		if got := pv.Annotations["local-pv-provisioner.cybozu.io/"+key]; got != want {
			t.Errorf("annotation %s is %q, want %q", key, got, want)
		}
	}
	capacity := pv.Spec.Capacity[corev1.ResourceStorage]
	if capacity.Value() != 12345 || pv.Spec.Local.Path != "/dev/disk/by-id/data-1" || *pv.Spec.Local.FSType != "ext4" ||
		pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain ||
		*pv.Spec.VolumeMode != corev1.PersistentVolumeFilesystem ||
		pv.Spec.StorageClassName != "local-storage" || len(pv.Spec.AccessModes) != 1 ||
		pv.Spec.AccessModes[0] != corev1.ReadWriteOnce {
		t.Errorf("%+v", pv.Spec)
	}
	if expr := pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]; expr.Key != corev1.LabelHostname ||
		expr.Values[0] != "host" {
		t.Errorf("affinity %+v", expr)
	}
}

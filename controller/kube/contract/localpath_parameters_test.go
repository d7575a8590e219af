package contract

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What newer versions of the local-path provisioner offer is served, or refused with words: it is
// never ignored.
func TestLocalPathParameters(t *testing.T) {
	all, err := ParseCompat("local-path")
	if err != nil {
		t.Fatal(err)
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "u"}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	for what, row := range map[string]struct {
		parameters map[string]string
		words      string // of the refusal, "" if it is served
	}{
		"numbers":           {map[string]string{"userPattern": "1000", "groupPattern": "1001", "permPattern": "0700"}, ""},
		"a template":        {map[string]string{"userPattern": "{{ .PVC.Annotations.uid }}"}, "userPattern"},
		"another mode":      {map[string]string{"permPattern": "rwx"}, "permPattern"},
		"the hostname":      {map[string]string{"nodeAffinityKey": corev1.LabelHostname}, ""},
		"another label":     {map[string]string{"nodeAffinityKey": "example.com/machine-id"}, "nodeAffinityKey"},
		"a key of no use":   {map[string]string{"allowUnsafePathPattern": "true"}, ""},
		"another directory": {map[string]string{"pathPattern": "{{ .PVC.Namespace }}/{{ .PVC.Name }}/{{ .PVName }}"}, "pathPattern"},
	} {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local-path"}, Provisioner: all[0].Provisioner, Parameters: row.parameters}
		p, err := ParametersOf(class)
		if err == nil {
			err = all[0].Check(claim, class)
		}
		if (err == nil) != (row.words == "") || err != nil && !strings.Contains(err.Error(), row.words) {
			t.Errorf("%s: %v, want %q", what, err, row.words)
		}
		if what == "numbers" && (p.Spec.Mode != 0o700 || p.Spec.UID != 1000 || p.Spec.GID != 1001) {
			t.Errorf("mode %v, uid %d, gid %d", p.Spec.Mode, p.Spec.UID, p.Spec.GID)
		}
	}
}

// A PV of a class with nodeAffinityKey names its node by an optional annotation alone. The agent of
// that node refuses it, with words, and no other agent does.
func TestPVPinnedByAnotherLabel(t *testing.T) {
	all, err := ParseCompat("local-path")
	if err != nil {
		t.Fatal(err)
	}
	d := &all[0]
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "u"}}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local-path"}, Provisioner: d.Provisioner}
	at, other := Place{Node: "node-1", Hostname: "host-1"}, Place{Node: "node-2", Hostname: "host-2"}
	pv := d.PV("pvc-u", "/opt/local-path-provisioner/pvc-u_ns_data", claim, class, at, corev1.PersistentVolumeReclaimDelete)
	pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0] = corev1.NodeSelectorRequirement{
		Key: "example.com/machine-id", Operator: corev1.NodeSelectorOpIn, Values: []string{"4c4c4544"}}
	if !d.Names(pv, at) || d.Names(pv, other) {
		t.Errorf("named here %v, elsewhere %v", d.Names(pv, at), d.Names(pv, other))
	}
	if _, err := d.Validate(pv, at); err == nil || !strings.Contains(err.Error(), "example.com/machine-id") ||
		!strings.Contains(err.Error(), "deletes its volume") {
		t.Errorf("%v", err)
	}
	delete(pv.Annotations, "local.path.provisioner/selected-node")
	if d.Names(pv, at) {
		t.Error("without an annotation it names no node")
	}
	own := Own(false)
	if own.Names(pv, at) {
		t.Error("another dialect has no such parameter")
	}
}

// Parameters that have no effect are named, and those that have one are not.
func TestIgnoredParameters(t *testing.T) {
	parameters := map[string]string{"userPattern": "1000", "nodePath": "/a", "pathPattern": "{{.PVName}}", "nodeAffinityKey": "x",
		"allowUnsafePathPattern": "true", "mode": "0700", "csi.storage.k8s.io/fstype": "xfs", "quotas": "required", "Mode": "0700"}
	for provisioner, want := range map[string]string{
		LocalPathProvisioner: "Mode quotas",
		HostPathProvisioner:  "Mode allowUnsafePathPattern nodeAffinityKey nodePath pathPattern quotas",
		CSIProvisioner:       "", // Parse refuses them
		"example.com/other":  "",
	} {
		c := &storagev1.StorageClass{Provisioner: provisioner, Parameters: parameters}
		if got := strings.Join(Ignored(c), " "); got != want {
			t.Errorf("%s: %q, want %q", provisioner, got, want)
		}
	}
}

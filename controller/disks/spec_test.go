package disks

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/volume/disk"
)

func configMap(changes ...string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "cm"},
		Data: map[string]string{
			"storageClassName": "local-storage", "volumeMode": "Filesystem", "fsType": "ext4", "deviceDir": "/dev/disk/by-id",
			"deviceNameFilter": "^data-", "unknown": "x",
		},
	}
	for _, change := range changes {
		key, value, set := strings.Cut(change, "=")
		if delete(cm.Data, key); set {
			cm.Data[key] = value
		}
	}
	return cm
}

func TestSpec(t *testing.T) {
	s, err := parseSpec(configMap())
	if err != nil || s.wipe != disk.Zero || s.existing {
		t.Fatalf("%+v, %v", s, err)
	}
	s, err = parseSpec(configMap("wipe=quick", "existing=wipe", "volumeMode=Block", "fsType", "storageClassName="))
	if err != nil || s.wipe != disk.Quick || !s.existing || s.fsType != "" {
		t.Fatalf("%+v, %v", s, err)
	}
	s, err = parseSpec(configMap("mountOptions=prjquota, allocsize=64k,context=system_u:object_r:svirt_t:s0"))
	if err != nil || !slices.Equal(s.options, []string{"prjquota", "allocsize=64k",
		"context=system_u:object_r:svirt_t:s0"}) {
		t.Fatalf("%+v, %v", s, err)
	}
	if _, err = parseSpec(configMap("volumeMode=Block", "mountOptions=noatime")); err == nil ||
		!strings.Contains(err.Error(), "nothing is mounted") {
		t.Errorf("mount options of a block volume: %v", err)
	}
	for change, want := range map[string]string{
		"storageClassName":     "storageClassName is missing",
		"volumeMode":           `volumeMode "" is neither`,
		"volumeMode=block":     `volumeMode "block" is neither`,
		"fsType":               `fsType "" is none of`,
		"fsType=ntfs":          `fsType "ntfs" is none of`,
		"deviceDir=dev":        `deviceDir "dev" is not an absolute path`,
		"deviceNameFilter":     "deviceNameFilter is missing",
		"deviceNameFilter=(":   "deviceNameFilter: error parsing regexp",
		"wipe=shred":           `wipe mode "shred"`,
		"existing=keep":        `existing "keep" is neither refuse nor wipe`,
		"encrypt=true":         "devices are not encrypted",
		"wipe=":                `wipe mode ""`,
		"deviceDir":            `deviceDir "" is not an absolute path`,
		"volumeMode=Ephemeral": "neither Filesystem nor Block",

		"mountOptions=noatime,":            `mountOptions: "" is no mount option`,
		"mountOptions=noatime nodiratime":  `"noatime nodiratime" is no mount option`,
		"mountOptions=-o noatime":          `is no mount option`,
		"mountOptions=logdev=":             `"logdev=" is no mount option`,
		"mountOptions=ro":                  `"ro" is not for a volume that pods write to`,
		"mountOptions=noatime,loop=/dev/a": `"loop=/dev/a" is not for`,
		"mountOptions=prjquota\nnoatime":   `is no mount option`,
	} {
		if _, err := parseSpec(configMap(change)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", change, err, want)
		}
	}
}

// differences returns the keys that changed since a PV was made; PVs of old versions have no
// annotations.
func TestDifferences(t *testing.T) {
	s, err := parseSpec(configMap())
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	pv := newPV("pv", disk.Device{Path: "/dev/x", Bytes: 1}, s, node)
	for change, want := range map[string][]string{
		"wipe=quick": nil, "storageClassName=other": {"storageClassName"}, "fsType=xfs": {"fsType"},
		"volumeMode=Block": {"volumeMode"}, "deviceDir=/dev": {"deviceDir"}, "deviceNameFilter=": {"deviceNameFilter"},
		"mountOptions=prjquota": {"mountOptions"},
	} {
		now, err := parseSpec(configMap(change))
		if err != nil {
			t.Fatal(err)
		}
		if got := now.differences(pv); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", change, got, want)
		}
	}
	mounted, err := parseSpec(configMap("mountOptions=prjquota"))
	if err != nil {
		t.Fatal(err)
	}
	with := newPV("pv", disk.Device{Path: "/dev/x", Bytes: 1}, mounted, node)
	if !slices.Equal(with.Spec.MountOptions, []string{"prjquota"}) ||
		!slices.Equal(s.differences(with), []string{"mountOptions"}) {
		t.Errorf("the PV has the mount options %q, and differs in %q from a ConfigMap without any", with.Spec.MountOptions,
			s.differences(with))
	}
	maps.DeleteFunc(pv.Annotations, func(string, string) bool { return true })
	if got := s.differences(pv); len(got) > 0 {
		t.Errorf("a PV without annotations differs in %q", got)
	}
}

// TestNamesOfSlots has a warning for names that another disk can have, if the kubelet formats what it
// finds there.
func TestNamesOfSlots(t *testing.T) {
	for change, want := range map[string]bool{
		"deviceDir=/dev/disk/by-path":          true,
		"deviceDir=/dev/disk/by-path/":         true,
		"deviceDir=/dev":                       true,
		"deviceDir=/dev/disk/by-id":            false,
		"deviceDir=/dev/disk/by-local-pv":      false,
		"volumeMode=Block deviceDir=/dev":      false,
		"volumeMode=Block deviceDir=/dev/disk": false,
	} {
		s, err := parseSpec(configMap(strings.Fields(change)...))
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		c := New(Config{Events: reasons{&said}, Node: "n"})
		if c.warnOfSlots(t.Context(), s); len(said) > 0 != want {
			t.Errorf("%s: events %q", change, said)
		}
	}
	var said []string
	if New(Config{Events: reasons{&said}}).warnOfSlots(t.Context(), nil); len(said) > 0 {
		t.Errorf("without a ConfigMap: %q", said)
	}
}

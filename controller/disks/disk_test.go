//go:build disk

package disks

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A disk is offered, bound, released, wiped, and offered again by the same name.
func TestDiskLife(t *testing.T) {
	b := newBench(t)
	first := b.pv("pv-1")
	b.await(Available)
	b.phase(first, corev1.VolumeBound)
	b.await(Bound)
	b.write("secret")
	b.phase(b.pv("pv-1"), corev1.VolumeReleased)
	b.pv("pv-2")
	if got := b.read(); got != "" {
		t.Errorf("the second tenant reads %q", got)
	}
	if r := b.await(Available); r.PV != "local-n-disk" || r.Bytes != 8<<20 {
		t.Errorf("%+v", r)
	}
}

// A Released PV whose device a claim names by that PV is not wiped, and its PV stays.
func TestDiskNamedByAClaim(t *testing.T) {
	b := newBench(t)
	first := b.pv("pv-1")
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "c"},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: first.Name}}
	if _, err := b.client.CoreV1().PersistentVolumeClaims("a").Create(t.Context(), claim,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.phase(first, corev1.VolumeBound)
	b.await(Bound)
	b.write("secret")
	b.phase(first, corev1.VolumeReleased)
	if r := b.await(Busy); !strings.Contains(r.Why, "claim a/c names PV local-n-disk") || b.read() != "secret" {
		t.Errorf("%+v; the disk has %q", r, b.read())
	}
	b.event("DeviceBusy", "claim a/c names PV local-n-disk; delete the claim")
	b.pv("pv-1")
}

// Another PV of the node, of any provisioner, is on the same device by another path.
func TestDiskOfAnotherPV(t *testing.T) {
	b := newBench(t)
	first := b.pv("pv-1")
	other := first.DeepCopy()
	other.ObjectMeta = metav1.ObjectMeta{Name: "other"}
	other.Spec.Local.Path = b.device
	if _, err := b.client.CoreV1().PersistentVolumes().Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.phase(first, corev1.VolumeBound)
	b.await(Bound)
	b.write("secret")
	b.phase(first, corev1.VolumeReleased)
	if r := b.await(Busy); !strings.Contains(r.Why, "PV other is on it") || b.read() != "secret" {
		t.Errorf("%+v; the disk has %q", r, b.read())
	}
}

// A disk that carries data is refused, until the ConfigMap allows to wipe it. Meanwhile it is not
// opened exclusively, so that its owner can mount it.
func TestDiskRefused(t *testing.T) {
	b := newBench(t, "deviceNameFilter=none")
	b.write("secret")
	cm := configMap("deviceDir="+filepath.Dir(b.path), "deviceNameFilter=^disk")
	cm.Namespace = "ns"
	set := func() {
		if _, err := b.client.CoreV1().ConfigMaps("ns").Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	owner, err := unix.Open(b.device, unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0) // as mount(8) has it
	if err != nil {
		t.Fatal(err)
	}
	set()
	if r := b.await(Refused); b.read() != "secret" ||
		!strings.Contains(r.Why, "data without a known signature at byte 65536") {
		t.Errorf("%+v; the disk has %q", r, b.read())
	}
	cm.Data["existing"] = "wipe"
	set()
	b.await(Busy) // the owner has it
	if b.read() != "secret" {
		t.Errorf("the disk has %q", b.read())
	}
	unix.Close(owner)
	b.await(Available)
	if got := b.read(); got != "" {
		t.Errorf("the disk has %q", got)
	}
}

// The tables of a disk were overwritten, and its data is where no probe looks: all that quick would
// wipe is read before the first write, in every mode.
func TestDiskRefusedInEveryMode(t *testing.T) {
	for _, mode := range []string{"zero", "discard", "quick"} {
		t.Run(mode, func(t *testing.T) {
			b := newBench(t, "deviceNameFilter=none", "wipe="+mode)
			const at = 2<<20 + 8192
			writeTo(t, b.device, "secret", at)
			b.configure("deviceNameFilter=^disk")
			if r := b.await(Refused); !strings.Contains(r.Why, "data without a known signature at byte 2097152") {
				t.Errorf("%+v", r)
			}
			has(t, b.device, "secret", at)
		})
	}
}

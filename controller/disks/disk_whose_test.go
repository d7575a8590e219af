//go:build disk

package disks

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// has fails the test if the disk does not have the data of the tenant.
func has(t *testing.T, device, data string, at int64) {
	t.Helper()
	f, err := os.Open(device)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := make([]byte, len(data))
	if _, err := f.ReadAt(got, at); err != nil || string(got) != data {
		t.Errorf("the disk has %q (%v), want the tenant's %q", got, err, data)
	}
}

// relink has a name lead to another device, as after a boot.
func (b *bench) relink(device, name string) {
	b.Helper()
	if err := os.Remove(filepath.Join(filepath.Dir(b.path), name)); err != nil && !os.IsNotExist(err) {
		b.Fatal(err)
	}
	b.link(device, name)
}

func (b *bench) editNode(edit func(*corev1.Node)) {
	b.Helper()
	node, err := b.client.CoreV1().Nodes().Get(b.Context(), "n", metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	edit(node)
	if _, err := b.client.CoreV1().Nodes().Update(b.Context(), node, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// The names of two disks are swapped by a boot. One PV is Released, the other Bound: neither disk
// is wiped.
func TestDiskNamesSwap(t *testing.T) {
	b := newBench(t)
	one := b.pv("pv-1")
	second := b.attach("disk-2", 8<<20)
	two := b.named(b.report(second, Available).PV)
	device2, err := os.Readlink(second)
	if err != nil {
		t.Fatal(err)
	}
	b.claimed(one, corev1.VolumeBound)
	b.claimed(two, corev1.VolumeBound)
	writeTo(t, b.device, "tenant1", dataAt)
	writeTo(t, device2, "tenant2", dataAt)
	b.stop()
	b.relink(device2, "disk")
	b.relink(b.device, "disk-2")
	b.phase(b.named(one.Name), corev1.VolumeReleased)
	b.start()
	r := b.report(b.path, Unclear)
	if r.PV != one.Name || !strings.HasPrefix(r.Confirm, AnnConfirmed+"=") {
		t.Errorf("%+v", r)
	}
	b.event("DeviceUnclear", "the disk is not wiped, and not offered to another claim: the PV's disk has no ID")
	if r := b.report(second, Bound); !strings.Contains(r.Why, "attached since") {
		t.Errorf("%+v", r)
	}
	has(t, device2, "tenant2", dataAt)
}

// A disk without an ID is attached again, as by a boot: it is wiped once an administrator confirms
// that it is the PV's.
func TestDiskConfirmed(t *testing.T) {
	b := newBench(t)
	pv := b.pv("pv-1")
	b.claimed(pv, corev1.VolumeBound)
	b.await(Bound)
	b.write("secret")
	b.stop()
	testdisk.DetachLoop(t, b.device)
	b.device = testdisk.LoopOn(b, filepath.Join(filepath.Dir(filepath.Dir(b.path)), "disk.img"))
	b.relink(b.device, "disk")
	b.phase(b.named(pv.Name), corev1.VolumeReleased)
	b.start()
	r := b.report(b.path, Unclear)
	has(t, b.device, "secret", dataAt)
	now := b.named(pv.Name)
	key, value, _ := strings.Cut(r.Confirm, "=")
	now.Annotations[key] = value
	b.update(now)
	b.pv("pv-2")
	if got := b.read(); got != "" {
		t.Errorf("the disk has %q", got)
	}
}

// A disk was replaced by one of another size, which carries data: it is the disk of no PV, whatever
// the phase.
func TestDiskReplaced(t *testing.T) {
	for _, phase := range []corev1.PersistentVolumePhase{corev1.VolumeReleased, corev1.VolumeBound,
		corev1.VolumeAvailable} {
		t.Run(string(phase), func(t *testing.T) {
			b := newBench(t)
			pv := b.pv("pv-1")
			if phase != corev1.VolumeAvailable {
				b.claimed(pv, phase)
			}
			b.stop()
			other := b.attach("spare", 64<<20)
			device, err := os.Readlink(other)
			if err != nil {
				t.Fatal(err)
			}
			writeTo(t, device, "precious", dataAt)
			b.relink(device, "disk")
			b.start()
			want := map[corev1.PersistentVolumePhase]State{corev1.VolumeReleased: Unclear, corev1.VolumeBound: Bound,
				corev1.VolumeAvailable: Refused}
			b.report(b.path, want[phase])
			if phase == corev1.VolumeAvailable {
				b.event("DeviceWithdrawn", "the PV was made for a disk of 8388608 bytes")
			} else {
				b.event("DeviceUnclear", "the PV was made for a disk of 8388608 bytes")
			}
			has(t, device, "precious", dataAt)
		})
	}
}

// The Node was deleted, and another machine has its name: PVs of the former one do not allow a
// wipe.
func TestDiskOfAFormerNode(t *testing.T) {
	b := newBench(t)
	one := b.pv("pv-1")
	b.claimed(one, corev1.VolumeBound)
	b.stop()
	b.editNode(func(n *corev1.Node) { n.UID = "another machine" })
	b.write("secret")
	b.phase(b.named(one.Name), corev1.VolumeReleased)
	b.start()
	b.report(b.path, Unclear)
	b.event("DeviceUnclear", "the PV was made by the Node with the UID node, and this one has the UID another machine")
	has(t, b.device, "secret", dataAt)
}

// The hostname label of the Node changes: its PVs stay its own.
func TestDiskHostnameChanges(t *testing.T) {
	b := newBench(t, "existing=wipe")
	b.claimed(b.pv("pv-1"), corev1.VolumeBound)
	b.await(Bound)
	b.write("secret")
	b.editNode(func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelHostname: "n.example.com"} })
	b.report(b.attach("disk-2", 8<<20), Available) // there were passes since
	b.report(b.path, Bound)
	has(t, b.device, "secret", dataAt)
}

// The disk of a Bound PV comes back by another name, and `existing: wipe` does not wipe it.
func TestDiskMoved(t *testing.T) {
	b := newBench(t, "existing=wipe")
	one := b.pv("pv-1")
	b.claimed(one, corev1.VolumeBound)
	b.write("secret")
	b.stop()
	if err := os.Remove(b.path); err != nil {
		t.Fatal(err)
	}
	moved := b.link(b.device, "disk-in-another-slot")
	b.start()
	if r := b.report(moved, Bound); r.PV != one.Name || !strings.Contains(r.Why, "and its disk is at "+moved) {
		t.Errorf("%+v", r)
	}
	has(t, b.device, "secret", dataAt)
}

// An administrator removes the claimRef of a PV, to give its data to another claim, and the disk comes
// back by another name: the PV is withdrawn, as its path may lead elsewhere, and the data stays.
func TestDiskMovedAfterAClaim(t *testing.T) {
	b := newBench(t, "existing=wipe")
	one := b.pv("pv-1")
	metav1.SetMetaDataAnnotation(&one.ObjectMeta, contract.AnnBoundByController, "yes")
	b.update(one)
	b.write("secret")
	b.stop()
	if err := os.Remove(b.path); err != nil {
		t.Fatal(err)
	}
	moved := b.link(b.device, "disk-in-another-slot")
	b.start()
	if r := b.report(moved, Refused); !strings.Contains(r.Why, ", of PV "+one.Name+", which had a claim before") {
		t.Errorf("%+v", r)
	}
	b.event("DeviceWithdrawn", "its disk is at "+moved)
	has(t, b.device, "secret", dataAt)
}

// A block PV of another provisioner names a path that the container does not have: any disk may be
// its own.
func TestDiskOfAnUnseenPath(t *testing.T) {
	b := newBench(t, "deviceNameFilter=none", "existing=wipe")
	block := corev1.PersistentVolumeBlock
	other := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "local-pv-1234"},
		Spec: corev1.PersistentVolumeSpec{
			VolumeMode: &block, NodeAffinity: affinity("n"),
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/mnt/disks/ssd1"}},
		}}
	if _, err := b.client.CoreV1().PersistentVolumes().Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.write("secret")
	b.configure("deviceNameFilter=^disk")
	b.await(Busy)
	b.event("DeviceBusy", "its device /mnt/disks/ssd1 cannot be read, so it may be this one: mount the directory of "+
		"that path")
	has(t, b.device, "secret", dataAt)
}

// A PV is bound before the next pass, and deleted by hand with its claim: that its disk was wiped
// is no longer so.
func TestDiskUsedBetweenTwoPasses(t *testing.T) {
	b := newBench(t, "deviceNameFilter=none")
	b.client.PrependReactor("create", "persistentvolumes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		pv := a.(clienttesting.CreateAction).GetObject().(*corev1.PersistentVolume)
		pv.Status.Phase = corev1.VolumeBound
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "a", Name: "c", UID: "c1"}
		return false, nil, nil
	})
	b.configure("deviceNameFilter=^disk")
	b.pv("pv-1")
	b.await(Bound)
	const at = 2<<20 + 8192 // where no probe reads
	writeTo(t, b.device, "secret", at)
	if err := b.client.CoreV1().PersistentVolumes().Delete(t.Context(), "local-n-disk",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if r := b.await(Refused); !strings.Contains(r.Why, "data without a known signature at byte 2097152") {
		t.Errorf("%+v", r)
	}
	has(t, b.device, "secret", at)
}

// The claimRef of a Released PV is removed while its disk is wiped: the PV is withdrawn, and no
// tenant reads the rest.
func TestDiskClaimRefRemovedDuringAWipe(t *testing.T) {
	b := newBench(t, "deviceNameFilter=^disk-large", "wipe=discard")
	path := b.attach("disk-large", 2<<30)
	pv := b.named(b.report(path, Available).PV)
	b.configure("wipe=zero") // slowly
	b.claimed(pv, corev1.VolumeReleased)
	for b.report(path, Wiping).Wiped == 0 {
	}
	refusals := make(chan struct{}, 100)
	b.client.PrependReactor("delete", "persistentvolumes", func(clienttesting.Action) (bool, runtime.Object, error) {
		refusals <- struct{}{} // another program changed the PV meanwhile
		if len(refusals) > 1 {
			return false, nil, nil
		}
		time.AfterFunc(300*time.Millisecond, func() { sleep.Wake(b.controller.wake) })
		return true, nil, apierrors.NewConflict(corev1.Resource("persistentvolumes"), pv.Name, nil)
	})
	now := b.named(pv.Name)
	now.Spec.ClaimRef, now.Status.Phase = nil, corev1.VolumeAvailable
	b.update(now)
	b.event("DeviceWithdrawn", "its disk was being wiped when its claimRef was removed")
	b.report(path, Wiping) // all of it, before it is offered
}

// The same, and the process ends during the wipe: the next one finds that the disk is wiped in
// part.
func TestDiskClaimRefRemovedAfterAKilledWipe(t *testing.T) {
	b := newBench(t, "deviceNameFilter=^disk-large", "wipe=discard")
	path := b.attach("disk-large", 512<<20)
	pv := b.named(b.report(path, Available).PV)
	b.configure("wipe=zero") // slowly
	b.claimed(pv, corev1.VolumeReleased)
	for b.report(path, Wiping).Wiped == 0 {
	}
	b.stop()
	now := b.named(pv.Name)
	now.Spec.ClaimRef, now.Status.Phase = nil, corev1.VolumeAvailable
	b.update(now)
	b.start()
	b.event("DeviceWithdrawn", "its disk was being wiped when its claimRef was removed")
	b.report(path, Wiping)
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if leases, err := b.client.CoordinationV1().Leases("ns").List(t.Context(), metav1.ListOptions{}); err == nil &&
			len(leases.Items) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the note of the wipe outlives the PV")
		}
	}
}

// A node whose name continues this one's has a PV of the same name.
func TestDiskNameOfAnotherNode(t *testing.T) {
	b := newBench(t, "deviceNameFilter=^disk-a")
	other := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "local-n-disk-a",
			Labels: map[string]string{LabelNode: "n-disk", LabelNodeOlder: "n-disk"}},
		Spec: corev1.PersistentVolumeSpec{NodeAffinity: affinity("n-disk"),
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/dev/a"}}},
	}
	if _, err := b.client.CoreV1().PersistentVolumes().Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "c"},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: other.Name}}
	if _, err := b.client.CoreV1().PersistentVolumeClaims("a").Create(t.Context(), claim,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if r := b.report(b.attach("disk-a", 8<<20), Available); !strings.HasPrefix(r.PV, "local-n-disk-a-") {
		t.Errorf("%+v", r)
	}
}

// The API server refuses to delete the PV of a disk that was wiped: it is not wiped again.
func TestDiskDeletionIsRefused(t *testing.T) {
	b := newBench(t)
	pv := b.pv("pv-1")
	refused := make(chan struct{}, 100)
	b.client.PrependReactor("delete", "persistentvolumes", func(clienttesting.Action) (bool, runtime.Object, error) {
		refused <- struct{}{}
		return len(refused) < 2, nil, errors.New("a policy refuses it")
	})
	pv.ResourceVersion = "5"
	b.claimed(pv, corev1.VolumeReleased)
	b.pv("pv-2")
	if wiped := b.controller.wiped.Load(); wiped != 2*8<<20 {
		t.Errorf("%d bytes were wiped, want those of the first and of the second tenant, %d", wiped, 2*8<<20)
	}
}

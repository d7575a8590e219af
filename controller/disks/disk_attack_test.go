//go:build disk

package disks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// partitionAt makes the only partition of a disk one of 2 MiB that begins at a MiB, at that path.
func partitionAt(t *testing.T, device, path string, mebibyte int64) {
	t.Helper()
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	part := unix.BlkpgPartition{Start: mebibyte << 20, Length: 2 << 20, Pno: 1}
	change := func(op int32) error {
		arg := unix.BlkpgIoctlArg{Op: op, Datalen: int32(unsafe.Sizeof(part)), Data: (*byte)(unsafe.Pointer(&part))}
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.BLKPG, uintptr(unsafe.Pointer(&arg))); errno != 0 {
			return errno
		}
		return nil
	}
	_ = change(unix.BLKPG_DEL_PARTITION) // there is none at first
	if err := change(unix.BLKPG_ADD_PARTITION); err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(device)
	text, err := os.ReadFile(filepath.Join("/sys/block", name, name+"p1", "dev"))
	if err != nil {
		t.Fatal(err)
	}
	var major, minor uint32
	if _, err := fmt.Sscanf(string(text), "%d:%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(path)
	if err := unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(major, minor))); err != nil {
		t.Fatal(err)
	}
}

// The partition of a PV is made again elsewhere on the disk, with its number and its size, while the
// agent is away. The PV is Released: what is there now is not wiped.
func TestDiskPartitionTableReplaced(t *testing.T) {
	b := newBench(t, "deviceNameFilter=none")
	b.stop()
	image := filepath.Join(t.TempDir(), "parted.img")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 16<<20)); err != nil {
		t.Fatal(err)
	}
	disk := testdisk.LoopOn(t, image, "--partscan")
	path := filepath.Join(filepath.Dir(b.path), "part")
	partitionAt(t, disk, path, 1)
	b.start()
	b.configure("deviceNameFilter=^part")
	b.report(path, Available)
	pv := b.named("local-n-part")
	if pv.Annotations[AnnStart] != "1048576" {
		t.Errorf("the PV records %q", pv.Annotations)
	}
	b.claimed(pv, corev1.VolumeBound)
	b.report(path, Bound)
	writeTo(t, disk, "tenant", 1<<20+dataAt)
	b.stop()
	partitionAt(t, disk, path, 8)
	writeTo(t, disk, "host", 8<<20+dataAt)
	b.claimed(pv, corev1.VolumeReleased)
	b.start()
	if r := b.report(path, Unclear); !strings.Contains(r.Why, "begins at byte 1048576") || r.Confirm == "" {
		t.Errorf("%+v", r)
	}
	has(t, disk, "tenant", 1<<20+dataAt)
	has(t, disk, "host", 8<<20+dataAt)
	// The former table comes back: it is the partition of the PV again.
	b.stop()
	partitionAt(t, disk, path, 1)
	b.start()
	b.report(path, Available)
	has(t, disk, "host", 8<<20+dataAt)
	if data := make([]byte, 6); readAt(t, disk, data, 1<<20+dataAt) == "tenant" {
		t.Error("the tenant's data is still there")
	}
}

func readAt(t *testing.T, device string, data []byte, at int64) string {
	t.Helper()
	f, err := os.Open(device)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.ReadAt(data, at); err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Two agents run on one node, as while a pod that was deleted by force has not ended: a disk has one PV
// all the time, and a tenant's data goes once, after its claim.
func TestDiskTwoAgentsOfANode(t *testing.T) {
	b := newBench(t)
	second := New(Config{Client: apitest.Listing(b.client), Events: b.recorder, Node: b.node, Namespace: "ns", Interval: time.Second})
	done := make(chan error, 1)
	ctx := t.Context()
	go func() { done <- second.Run(ctx) }()
	for range 3 {
		b.await(Available)
		all := allPVs(t, b.client)
		if len(all) != 1 {
			t.Fatalf("%d PVs", len(all))
		}
		b.claimed(&all[0], corev1.VolumeBound)
		b.await(Bound)
		b.write("secret")
		time.Sleep(2 * debounce)
		if b.read() != "secret" {
			t.Fatal("the disk of a claim was wiped")
		}
		b.claimed(&all[0], corev1.VolumeReleased)
		b.replaced(all[0].UID)
		if b.read() == "secret" {
			t.Error("the PV was deleted, and its disk was not wiped")
		}
	}
	b.await(Available)
	if all := allPVs(t, b.client); len(all) != 1 {
		t.Errorf("%d PVs", len(all))
	}
}

// A disk is swapped for another one under a running wipe: what is written stays with the first disk.
func TestDiskNameMovesDuringAWipe(t *testing.T) {
	b := newBench(t)
	pv := b.pv("pv-1")
	b.claimed(pv, corev1.VolumeBound)
	b.await(Bound)
	other := b.attach("other.img", 8<<20)
	loop, err := filepath.EvalSymlinks(other)
	if err != nil {
		t.Fatal(err)
	}
	writeTo(t, loop, "other", dataAt)
	b.claimed(pv, corev1.VolumeReleased)
	for range 5 { // wherever the wipe is then
		b.relink(loop, "disk")
		time.Sleep(10 * time.Millisecond)
		has(t, loop, "other", dataAt)
		b.relink(b.device, "disk")
		time.Sleep(10 * time.Millisecond)
	}
	has(t, loop, "other", dataAt)
}

// replaced waits until the PV with the UID is gone.
func (b *bench) replaced(uid types.UID) {
	b.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if !slices.ContainsFunc(allPVs(b.T, b.client), func(pv corev1.PersistentVolume) bool { return pv.UID == uid }) {
			return
		}
		if time.Now().After(end) {
			b.Fatalf("the PV %s is there: %+v", uid, b.controller.Reports())
		}
	}
}

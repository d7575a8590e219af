package suite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// largeMiB is the size of disks whose wipe takes some seconds: each byte is read back.
const largeMiB = 2 << 10

// wiping is a node with a large disk that is being wiped after its first tenant.
func wiping(t *testing.T) (*harness.Scene, *harness.DiskNode, *harness.Loop, *corev1.PersistentVolume) {
	t.Helper()
	s, n := disks(t, "wipe=discard")
	disk := s.Loop(largeMiB)
	pv := n.Offered(n.Link(disk, "disk"))
	claim := n.DiskClaim("c", pv)
	n.AwaitState(pv.Spec.Local.Path, "bound")
	disk.Write(largeMiB<<20-100, secret)
	s.Delete(claim)
	s.Eventually("wiping", func() error {
		all, err := n.Devices()
		if len(all) != 1 || all[0].State != "wiping" || all[0].Wiped == 0 {
			return fmt.Errorf("%+v %w", all, err)
		}
		return nil
	})
	return s, n, disk, pv
}

// A wipe that was killed begins again, and until it is done the PV stays.
func TestDisksKilledMidWipe(t *testing.T) {
	t.Parallel()
	s, n, disk, pv := wiping(t)
	n.Kill()
	if now := s.PV(pv.Name); now.UID != pv.UID || now.Status.Phase != corev1.VolumeReleased {
		t.Errorf("the PV is %v", now)
	}
	n.Restart()
	n.Offered(pv.Spec.Local.Path, pv.UID)
	if err := disk.Has(largeMiB<<20-100, zeros); err != nil {
		t.Error(err)
	}
}

// A disk that is unplugged or fails while it is wiped keeps its PV.
func TestDisksGoneMidWipe(t *testing.T) {
	t.Parallel()
	t.Run("unplugged", func(t *testing.T) {
		t.Parallel()
		s, n, _, pv := wiping(t)
		path := pv.Spec.Local.Path
		if err := os.Rename(path, filepath.Join(n.Dir, "away")); err != nil {
			t.Fatal(err)
		}
		n.AwaitState(path, "gone")
		awaitEvent(s, pv.UID, "DeviceGone", path)
		if now := s.PV(pv.Name); now.UID != pv.UID || now.Status.Phase != corev1.VolumeReleased {
			t.Errorf("the PV is %v", now)
		}
		if err := os.Rename(filepath.Join(n.Dir, "away"), path); err != nil {
			t.Fatal(err)
		}
		n.Offered(path, pv.UID)
	})
	t.Run("failed", func(t *testing.T) {
		t.Parallel()
		s, n, disk, pv := wiping(t)
		if err := os.Truncate(disk.Image, 1<<20); err != nil {
			t.Fatal(err)
		}
		awaitEvent(s, pv.UID, "DeviceWipeFailed", "disk")
		n.AwaitState(pv.Spec.Local.Path, "error")
		// The wipe is tried again and again, and fails each time.
		s.Eventually("metric", func() error { return n.MetricIs(1, "local_pv_provisioner_error_devices") })
		if now := s.PV(pv.Name); now.UID != pv.UID || now.Status.Phase != corev1.VolumeReleased {
			t.Errorf("the PV is %v", now)
		}
		if err := os.Truncate(disk.Image, largeMiB<<20); err != nil {
			t.Fatal(err)
		}
		n.Offered(pv.Spec.Local.Path, pv.UID)
	})
}

// Nothing that carries data is wiped, unless the ConfigMap allows it.
func TestDisksRefused(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		offset      int64
		data, words string
	}{
		"ext4":   {1080, "\x53\xef", "ext4 filesystem"},
		"LVM":    {512, "LABELONE" + strings.Repeat("\x00", 16) + "LVM2 001", "LVM physical volume"},
		"md 1.2": {4096, "\xfc\x4e\x2b\xa9", "md array member"},
		"md 1.0": {diskMiB<<20 - 8<<10, "\xfc\x4e\x2b\xa9", "md array member"},
		"GPT":    {512, "EFI PART", "GPT partition table"},
		"data":   {0, secret, "data without a known signature"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, n := disks(t)
			disk := s.Loop(diskMiB)
			disk.Write(row.offset, row.data)
			path := n.Link(disk, "disk")
			n.AwaitState(path, "refused")
			awaitNodeEvent(s, n, "DeviceRefused", row.words+".*set existing: wipe in ConfigMap "+n.ConfigMap)
			if err := errors.Join(disk.Has(row.offset, row.data), n.MetricIs(1, "kubevirt_hpp_devices", `state="refused"`)); err != nil {
				t.Error(err)
			}
			if n.PVAt(path) != nil {
				t.Error("it has a PV")
			}
			n.Configure("existing=wipe")
			n.Offered(path)
			if err := disk.Has(row.offset, string(make([]byte, len(row.data)))); err != nil {
				t.Error(err)
			}
		})
	}
}

// A disk in use is not wiped before the use ends.
func TestDisksBusy(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		use   func(*harness.Scene, *harness.Loop) (free func())
		words string
	}{
		"mounted by hand": {func(s *harness.Scene, disk *harness.Loop) func() {
			dir := s.Path("mounts", "by-hand")
			s.MountNew(disk.Device, dir)
			return func() { s.Unmount(dir) }
		}, "in use|mounted at"},
		"a partition mounted": {func(s *harness.Scene, disk *harness.Loop) func() {
			dir := s.Path("mounts", "partition")
			s.MountNew(s.Partition(disk.Device), dir)
			return func() { s.Unmount(dir) }
		}, "partition .* is mounted at|in use"},
		"a block device of a pod": {func(s *harness.Scene, disk *harness.Loop) func() {
			device := s.LoopOn(disk.Device)
			return func() { s.Detach(device) }
		}, "loop device .* is backed by"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, n := disks(t)
			disk := s.Loop(diskMiB)
			path := n.Link(disk, "disk")
			pv := n.Offered(path)
			claim := n.DiskClaim("c", pv)
			free := row.use(s, disk)
			disk.Write(100<<20, secret)
			s.Delete(claim)
			n.AwaitState(path, "busy")
			awaitEvent(s, pv.UID, "DeviceBusy", row.words)
			if err := errors.Join(disk.Has(100<<20, secret), n.MetricIs(1, "kubevirt_hpp_devices", `state="busy"`)); err != nil {
				t.Error(err)
			}
			if now := s.PV(pv.Name); now.UID != pv.UID {
				t.Errorf("the PV is %v", now)
			}
			free()
			n.Offered(path, pv.UID)
			if err := disk.Has(100<<20, zeros); err != nil {
				t.Error(err)
			}
		})
	}
}

// The PV of a running tenant is deleted by hand, finalizers and all: nothing is written to the
// disk, not even when the pod has ended, for its claim still names the PV; and without the claim
// the data stays, because nothing allows to wipe it.
func TestDisksPVDeletedByHand(t *testing.T) {
	t.Parallel()
	s, n := disks(t)
	disk := s.Loop(diskMiB)
	path := n.Link(disk, "disk")
	pv := n.Offered(path)
	claim := n.DiskClaim("c", pv)
	const unseen = 50<<20 + 8<<10 // where no probe reads
	disk.Write(unseen, secret)
	pod := s.LoopOn(disk.Device)
	s.ForcePVAway(pv.Name)
	n.AwaitState(path, "busy")
	awaitNodeEvent(s, n, "DeviceBusy", "loop device")
	s.Detach(pod)
	awaitNodeEvent(s, n, "DeviceBusy", "claim .*/c names PV "+pv.Name)
	disk.Write(0, secret)
	s.Delete(claim)
	n.AwaitState(path, "refused")
	if err := errors.Join(disk.Has(unseen, secret), disk.Has(0, secret)); err != nil {
		t.Error(err)
	}
}

// Two disks of one base name, and one disk by two paths and two ConfigMaps.
func TestDisksNames(t *testing.T) {
	t.Parallel()
	s, n := disks(t)
	one := s.Loop(diskMiB)
	first := n.Offered(n.Link(one, "a/disk"))
	second := n.Offered(n.Link(s.Loop(diskMiB), "b/disk"))
	if first.Name != "local-"+n.Node.Name+"-disk" || !strings.HasPrefix(second.Name, first.Name+"-") {
		t.Errorf("PVs %s and %s", first.Name, second.Name)
	}
	// The same disk by another path, in another ConfigMap's directory.
	claim := n.DiskClaim("c", first)
	one.Write(0, secret)
	other := filepath.Join(n.Dir, "other")
	n.Link(one, "other/disk-again")
	n.Annotate(n.NewConfigMap("again", "deviceDir="+other, "existing=wipe"))
	awaitEvent(s, first.UID, "DeviceConfigDiffers", "deviceDir")
	n.Offered(n.Link(s.Loop(diskMiB), "other/disk-new")) // by a pass over all of the directory
	s.Once("one PV a disk", func() error {
		if pv := n.PVAt(filepath.Join(other, "disk-again")); pv != nil {
			return fmt.Errorf("PV %s", pv.Name)
		}
		return errors.Join(one.Has(0, secret), n.IsState(first.Spec.Local.Path, "bound"))
	})
	s.Delete(claim)
	s.Eventually("offered by the other path", func() error {
		if pv := n.PVAt(filepath.Join(other, "disk-again")); pv == nil || pv.UID == first.UID {
			return fmt.Errorf("PV %v", pv)
		}
		return nil
	})
}

// A PV goes with its disk unless a claim has it, and not with its Node.
func TestDisksGone(t *testing.T) {
	t.Parallel()
	s, n := disks(t)
	free, used := n.Offered(n.Link(s.Loop(diskMiB), "disk-free")), n.Offered(n.Link(s.Loop(diskMiB), "disk-used"))
	n.DiskClaim("c", used)
	for _, pv := range []*corev1.PersistentVolume{free, used} {
		if err := os.Remove(pv.Spec.Local.Path); err != nil {
			t.Fatal(err)
		}
	}
	s.Gone(free.Name)
	awaitEvent(s, used.UID, "DeviceGone", "disk-used")
	if err := n.IsState(used.Spec.Local.Path, "gone"); err != nil {
		t.Error(err)
	}
	last := n.Offered(n.Link(s.Loop(diskMiB), "disk-last"))
	if err := n.Client().CoreV1().Nodes().Delete(t.Context(), n.Node.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Once("it stays: the Node may have been deleted by mistake", func() error {
		pv, err := n.Client().CoreV1().PersistentVolumes().Get(t.Context(), last.Name, metav1.GetOptions{})
		if err == nil && pv.DeletionTimestamp != nil {
			err = errors.New("it is being deleted")
		}
		return err
	})
}

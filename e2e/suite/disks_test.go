package suite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// diskMiB is the size of most disks: larger than what quick wipes at each place.
const diskMiB = 128

const secret = "secret of the first tenant"

// zeros are read back in place of the secret.
var zeros = string(make([]byte, len(secret)))

// disks is a node with the process running, and the ConfigMap changed.
func disks(t *testing.T, changes ...string) (*harness.Scene, *harness.DiskNode) {
	t.Helper()
	s := env.Scene(t)
	n := s.DiskNode("01", changes...)
	n.Restart()
	n.AwaitReady()
	return s, n
}

// A disk becomes a PV, gets a tenant, and is wiped before it is offered again, in each mode.
func TestDisks(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		changes []string
		fsType  string
	}{
		"Block":            {nil, ""},
		"Filesystem ext4":  {[]string{"volumeMode=Filesystem", "fsType=ext4", "wipe=discard"}, "ext4"},
		"Filesystem xfs":   {[]string{"volumeMode=Filesystem", "fsType=xfs", "wipe=quick"}, "xfs"},
		"Filesystem btrfs": {[]string{"volumeMode=Filesystem", "fsType=btrfs"}, "btrfs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, n := disks(t, row.changes...)
			disk := s.Loop(diskMiB)
			path := n.Link(disk, "disk_1")
			pv := n.Offered(path)
			wantDiskPV(t, n, pv, path, row.fsType)
			claim := n.DiskClaim("first", pv)
			disk.Write(0, secret)
			disk.Write(diskMiB<<20-100, secret)
			n.AwaitState(path, "bound")
			s.Delete(claim)
			again := n.Offered(path, pv.UID)
			if again.Name != pv.Name {
				t.Errorf("the PV is %s now and was %s", again.Name, pv.Name)
			}
			if err := errors.Join(disk.Has(0, zeros), disk.Has(diskMiB<<20-100, zeros)); err != nil {
				t.Error(err)
			}
			n.DiskClaim("second", again)
		})
	}
}

// wantDiskPV compares a PV with what the older program makes.
func wantDiskPV(t *testing.T, n *harness.DiskNode, pv *corev1.PersistentVolume, path, fsType string) {
	t.Helper()
	node, err := n.Client().CoreV1().Nodes().Get(t.Context(), n.Node.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	capacity := pv.Spec.Capacity[corev1.ResourceStorage]
	got := ""
	if pv.Spec.Local.FSType != nil {
		got = *pv.Spec.Local.FSType
	}
	if pv.Name != "local-"+n.Node.Name+"-disk-1" || capacity.Value() != diskMiB<<20 || pv.Spec.Local.Path != path || got != fsType ||
		len(pv.OwnerReferences) > 0 || pv.Annotations["hostpath-provisioner.kubevirt.io/node-uid"] != string(node.UID) || pv.Annotations["local-pv-provisioner.cybozu.io/fsType"] != fsType {
		t.Errorf("PV %+v", pv)
	}
}

// The ConfigMap of a node without the annotation; no ConfigMap at all; and one that is wrong.
func TestDisksConfigMap(t *testing.T) {
	t.Parallel()
	t.Run("default", func(t *testing.T) {
		t.Parallel()
		s := env.Scene(t)
		n := s.DiskNode("01")
		n.Annotate("")
		path := n.Link(s.Loop(diskMiB), "disk")
		n.RestartWith("LP_DEFAULT_PV_SPEC_CONFIGMAP=" + n.ConfigMap)
		n.Offered(path)
	})
	t.Run("none, and annotated away", func(t *testing.T) {
		t.Parallel()
		s := env.Scene(t)
		n := s.DiskNode("01")
		n.Annotate("")
		free, used := n.Link(s.Loop(diskMiB), "disk-free"), n.Link(s.Loop(diskMiB), "disk-used")
		n.Restart()
		n.AwaitReady()
		s.Once("nothing offered", func() error { // the process is ready after a pass
			all, err := n.Devices()
			if err != nil || len(all) > 0 || n.PVAt(free) != nil {
				return fmt.Errorf("devices %+v, PV %v, %w", all, n.PVAt(free), err)
			}
			return nil
		})
		n.Annotate(n.ConfigMap)
		pv := n.Offered(free)
		n.DiskClaim("c", n.Offered(used))
		n.Annotate("")
		s.Gone(pv.Name)
		s.Eventually("the pass is over", func() error {
			all, err := n.Devices()
			if slices.ContainsFunc(all, func(d harness.DiskReport) bool { return d.Device == free }) {
				err = fmt.Errorf("devices %+v", all)
			}
			return err
		})
		s.Once("the bound PV stays", func() error {
			if pv := n.PVAt(used); pv == nil || pv.Status.Phase != corev1.VolumeBound {
				return fmt.Errorf("PV %v", pv)
			}
			return nil
		})
	})
	t.Run("wrong", func(t *testing.T) {
		t.Parallel()
		s := env.Scene(t)
		n := s.DiskNode("01", "fsType=ntfs", "volumeMode=Filesystem", "deviceNameFilter=(", "storageClassName")
		path := n.Link(s.Loop(diskMiB), "disk")
		n.Restart()
		awaitNodeEvent(s, n, "DeviceConfigInvalid", "storageClassName is missing.*ntfs.*deviceNameFilter")
		if n.PVAt(path) != nil {
			t.Error("a PV was made")
		}
		n.Configure("fsType=ext4", "deviceNameFilter=^disk", "storageClassName="+n.Class)
		n.Offered(path)
	})
}

// awaitNodeEvent waits for an event of the reason on the node whose message matches.
func awaitNodeEvent(s *harness.Scene, n *harness.DiskNode, reason, pattern string) {
	s.Helper()
	awaitEvent(s, types.UID(n.Node.Name), reason, pattern)
}

func awaitEvent(s *harness.Scene, uid types.UID, reason, pattern string) {
	s.Helper()
	words := regexp.MustCompile(pattern)
	s.Eventually("event "+reason, func() error {
		events := s.Events(uid)
		if !slices.ContainsFunc(events, func(e harness.Event) bool { return e.Reason == reason && words.MatchString(e.Message) }) {
			return fmt.Errorf("no event %s with words like %q: %v", reason, pattern, events)
		}
		return nil
	})
}

// A changed ConfigMap is for new disks at once. A PV that it would make otherwise stays, with an
// event.
func TestDisksChangedConfigMap(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ change, words string }{
		"class":     {"storageClassName=other", "storageClassName"},
		"mode":      {"volumeMode=Block", "volumeMode"},
		"fsType":    {"fsType=xfs", "fsType"},
		"directory": {"deviceDir=", "deviceDir"},
		"filter":    {"deviceNameFilter=disk", "deviceNameFilter"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, n := disks(t, "volumeMode=Filesystem", "fsType=ext4")
			pv := n.Offered(n.Link(s.Loop(diskMiB), "disk-1"))
			dir := ""
			if row.change == "deviceDir=" {
				dir = "other"
				if err := os.Mkdir(filepath.Join(n.Dir, dir), 0o755); err != nil {
					t.Fatal(err)
				}
				row.change += filepath.Join(n.Dir, dir)
			}
			n.Configure(row.change)
			awaitEvent(s, pv.UID, "DeviceConfigDiffers", row.words)
			n.Offered(n.Link(s.Loop(diskMiB), filepath.Join(dir, "disk-2")))
			if now := s.PV(pv.Name); now.UID != pv.UID || now.Status.Phase != corev1.VolumeAvailable {
				t.Errorf("the PV before is %v", now)
			}
		})
	}
}

// PVs that are not of this node's disks are left alone, and what is on their disks.
func TestDisksOthersPVs(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*corev1.PersistentVolume){
		"of another node": func(pv *corev1.PersistentVolume) {
			pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{"another"}
		},
		"without label": func(pv *corev1.PersistentVolume) { pv.Labels = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, n := disks(t)
			disk := s.Loop(diskMiB)
			disk.Write(0, secret)
			// The path is outside the directory, and its disk is this machine's.
			outside := filepath.Join(filepath.Dir(n.Dir), "outside")
			if err := os.Symlink(disk.Device, outside); err != nil {
				t.Fatal(err)
			}
			marker := n.Offered(n.Link(s.Loop(diskMiB), "disk-1"))
			pv := marker.DeepCopy()
			other := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: s.Name + "-other", Labels: pv.Labels}, Spec: pv.Spec}
			other.Spec.Local.Path = outside
			edit(other)
			other, err := n.Client().CoreV1().PersistentVolumes().Create(t.Context(), other, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			s.Eventually("available", func() error {
				if now := s.PV(other.Name); now.Status.Phase != corev1.VolumeAvailable {
					return fmt.Errorf("phase %s", now.Status.Phase)
				}
				return nil
			})
			s.Delete(n.DiskClaim("c", other))
			s.Released(other.Name)
			s.Delete(n.DiskClaim("marker", marker)) // wiped from a pass on that knows the other, too
			n.Offered(marker.Spec.Local.Path, marker.UID)
			s.Eventually("no wipe runs", func() error { return n.MetricIs(0, "kubevirt_hpp_devices", `state="wiping"`) })
			s.Once("left alone", func() error {
				if now := s.PV(other.Name); now.UID != other.UID || now.Status.Phase != corev1.VolumeReleased {
					return fmt.Errorf("the PV is %v", now)
				}
				return disk.Has(0, secret)
			})
		})
	}
}

// What is no block device is not opened, and gets an event.
func TestDisksOtherFiles(t *testing.T) {
	t.Parallel()
	s, n := disks(t, "existing=wipe")
	file, link := filepath.Join(n.Dir, "disk-file"), filepath.Join(n.Dir, "disk-link")
	if err := errors.Join(os.WriteFile(file, []byte(secret), 0o600), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	disk := n.Link(s.Loop(diskMiB), "disk-real")
	n.Offered(disk)
	n.AwaitState(disk, "available")
	n.AwaitState(file, "error")
	n.AwaitState(link, "error")
	awaitNodeEvent(s, n, "DeviceError", "disk-file.*not a block device")
	if data, err := os.ReadFile(file); string(data) != secret {
		t.Errorf("the file has %q (%v)", data, err)
	}
	for name, want := range map[string]float64{"local_pv_provisioner_error_devices": 2, "local_pv_provisioner_available_devices": 1} {
		if err := n.MetricIs(want, name); err != nil {
			t.Error(err)
		}
	}
	if err := n.MetricIs(2, "kubevirt_hpp_devices", `state="error"`); err != nil {
		t.Error(err)
	}
}

package harness

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// AnnDisks on a Node names the ConfigMap of its disks.
const AnnDisks = "local-pv-provisioner.cybozu.io/pv-spec-configmap"

// DiskNode is a node with a directory of links to its disks, which are loop devices of the test,
// and with the process that offers them.
type DiskNode struct {
	*Agent
	Dir       string
	ConfigMap string
	Class     string
}

// Loop is a raw disk: a sparse file as a block device.
type Loop struct {
	Device, Image string
	scene         *Scene
}

// Loop attaches a disk of that many MiB until the test ends.
func (s *Scene) Loop(mebibytes int64) *Loop {
	s.Helper()
	image := filepath.Join(s.TempDir(), "disk.img")
	s.must("make image", os.WriteFile(image, nil, 0o600))
	s.must("make image", os.Truncate(image, mebibytes<<20))
	return &Loop{s.LoopOn(image), image, s}
}

// LoopOn attaches a file, or a device as the kubelet does for a pod, as a block device until the
// test ends.
func (s *Scene) LoopOn(backing string) (device string) {
	s.Helper()
	device = s.attach(backing)
	if s.loops == nil {
		s.loops = map[string]bool{}
	}
	s.loops[device] = true
	s.Cleanup(func() { s.Detach(device) })
	return device
}

// attach returns a loop device without what outlives the detachment of one, for example of a test
// that was killed: the flag of blockdev --setro, and partitions that no partition table has.
func (s *Scene) attach(backing string) (device string) {
	s.Helper()
	device = strings.TrimSpace(s.command("losetup", "--find", "--show", backing))
	if !strings.HasPrefix(device, "/dev/loop") {
		s.Fatalf("losetup printed %q", device)
	}
	s.command("blockdev", "--setrw", device)
	name := filepath.Base(device)
	left, err := filepath.Glob(filepath.Join("/sys/block", name, name+"p*"))
	s.must("look for partitions", err)
	if len(left) > 0 {
		s.command("partx", "--delete", device)
	}
	return device
}

// Detach ends a loop device of LoopOn. It does nothing the second time: another test may have the
// number by then.
func (s *Scene) Detach(device string) {
	s.Helper()
	if s.loops[device] {
		delete(s.loops, device)
		s.command("losetup", "--detach", device)
	}
}

// Write writes through the device.
func (l *Loop) Write(offset int64, data string) {
	l.scene.Helper()
	f, err := os.OpenFile(l.Device, os.O_WRONLY, 0)
	l.scene.must("open disk", err)
	defer f.Close()
	_, err = f.WriteAt([]byte(data), offset)
	l.scene.must("write disk", err)
	l.scene.must("flush disk", f.Sync())
}

// Has returns nil where the bytes are on the disk.
func (l *Loop) Has(offset int64, data string) error {
	f, err := os.Open(l.Device)
	if err != nil {
		return err
	}
	defer f.Close()
	got := make([]byte, len(data))
	if _, err := f.ReadAt(got, offset); err != nil {
		return err
	}
	if string(got) != data {
		return fmt.Errorf("%s has %q at byte %d, want %q", l.Device, got, offset, data)
	}
	return nil
}

// DiskNode makes a node with an empty directory and a ConfigMap, and starts no process yet. Changes
// are KEY=VALUE of the ConfigMap, or KEY to leave it out.
func (s *Scene) DiskNode(suffix string, changes ...string) *DiskNode {
	s.Helper()
	node := s.Node(suffix)
	n := &DiskNode{Dir: s.Path("devices", suffix), Class: s.ClassName("disks")}
	s.must("make directory", os.MkdirAll(n.Dir, 0o755))
	immediate := storagev1.VolumeBindingImmediate
	_, err := s.Client.StorageV1().StorageClasses().Create(s.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: n.Class}, Provisioner: "kubernetes.io/no-provisioner",
		VolumeBindingMode: &immediate,
	}, metav1.CreateOptions{})
	if err != nil && !strings.Contains(err.Error(), "already exists") {
		s.Fatal(err)
	}
	n.Agent = s.Later(node, Options{Disks: true})
	n.ConfigMap = n.NewConfigMap("cm-"+suffix, changes...)
	n.Annotate(n.ConfigMap)
	return n
}

// NewConfigMap makes a ConfigMap for the node's directory and returns its name.
func (n *DiskNode) NewConfigMap(suffix string, changes ...string) string {
	s := n.scene
	s.Helper()
	data := map[string]string{"storageClassName": n.Class, "volumeMode": "Block", "deviceDir": n.Dir,
		"deviceNameFilter": "^disk"}
	for _, change := range changes {
		key, value, set := strings.Cut(change, "=")
		if delete(data, key); set {
			data[key] = value
		}
	}
	name := s.Name + "-" + suffix
	_, err := s.Client.CoreV1().ConfigMaps(Namespace).Create(s.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
	s.must("create ConfigMap", err)
	return name
}

// Configure changes the node's ConfigMap by a merge of KEY=VALUE.
func (n *DiskNode) Configure(changes ...string) {
	n.scene.Helper()
	data := map[string]string{}
	for _, change := range changes {
		key, value, _ := strings.Cut(change, "=")
		data[key] = value
	}
	patch, err := json.Marshal(map[string]any{"data": data})
	n.scene.must("encode", err)
	_, err = n.scene.Client.CoreV1().ConfigMaps(Namespace).Patch(n.scene.Context(), n.ConfigMap, types.MergePatchType,
		patch, metav1.PatchOptions{})
	n.scene.must("patch ConfigMap", err)
}

// Annotate gives the node another ConfigMap, "" for none.
func (n *DiskNode) Annotate(configMap string) {
	n.scene.Helper()
	var value any
	if configMap != "" {
		value = configMap
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{AnnDisks: value}}})
	n.scene.must("encode", err)
	_, err = n.scene.Client.CoreV1().Nodes().Patch(n.scene.Context(), n.Node.Name, types.MergePatchType, patch,
		metav1.PatchOptions{})
	n.scene.must("annotate node", err)
}

// Link puts a disk into the node's directory and returns the path.
func (n *DiskNode) Link(l *Loop, name string) string {
	n.scene.Helper()
	path := filepath.Join(n.Dir, name)
	n.scene.must("make directory", os.MkdirAll(filepath.Dir(path), 0o755))
	n.scene.must("link disk", os.Symlink(l.Device, path))
	return path
}

// DiskReport is one device in the report of the process.
type DiskReport struct {
	Device, ID, State, Why, PV string
	Paths                      []string
	Bytes, Wiped, WipeBytes    int64
}

// Devices asks the process.
func (n *DiskNode) Devices() (all []DiskReport, err error) {
	status, body, err := n.Get("/devices")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%d %s", status, body)
	}
	if err == nil {
		err = json.Unmarshal([]byte(body), &all)
	}
	return all, err
}

// IsState returns nil where the device has the state.
func (n *DiskNode) IsState(path, state string) error {
	all, err := n.Devices()
	for _, d := range all {
		if d.Device == path && d.State == state {
			return nil
		}
	}
	return fmt.Errorf("%s is not %s: %+v %w", path, state, all, err)
}

// AwaitState waits until the device has the state.
func (n *DiskNode) AwaitState(path, state string) {
	n.scene.Helper()
	n.scene.Eventually(path+" "+state, func() error { return n.IsState(path, state) })
}

// PVAt returns the PV of the path, nil if there is none.
func (n *DiskNode) PVAt(path string) *corev1.PersistentVolume {
	n.scene.Helper()
	list, err := n.scene.Client.CoreV1().PersistentVolumes().List(n.scene.Context(),
		metav1.ListOptions{LabelSelector: "local-pv-provisioner.cybozu.com/node=" + n.Node.Name})
	n.scene.must("list PVs", err)
	for i := range list.Items {
		if list.Items[i].Spec.Local.Path == path {
			return &list.Items[i]
		}
	}
	return nil
}

// Offered waits until the path has an Available PV other than those with the UIDs, and returns it.
func (n *DiskNode) Offered(path string, not ...types.UID) *corev1.PersistentVolume {
	n.scene.Helper()
	var pv *corev1.PersistentVolume
	n.scene.Eventually(path+" offered", func() error {
		pv = n.PVAt(path)
		devices, err := n.Devices()
		if pv == nil || pv.Status.Phase != corev1.VolumeAvailable {
			return fmt.Errorf("PV %v; devices %+v %w", pv, devices, err)
		}
		for _, uid := range not {
			if pv.UID == uid {
				return fmt.Errorf("it is still the PV before; devices %+v %w", devices, err)
			}
		}
		return nil
	})
	return pv
}

// DiskClaim makes a claim for the PV and waits until it has it.
func (n *DiskNode) DiskClaim(name string, pv *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	s := n.scene
	s.Helper()
	claim, err := s.Client.CoreV1().PersistentVolumeClaims(s.Namespace).Create(s.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &n.Class, VolumeMode: pv.Spec.VolumeMode, VolumeName: pv.Name, AccessModes: pv.Spec.AccessModes,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}},
		},
	}, metav1.CreateOptions{})
	s.must("create claim", err)
	s.Eventually("claim "+name+" bound", func() error { return s.IsBound(claim) })
	return claim
}

// Client is the administrator's.
func (n *DiskNode) Client() kubernetes.Interface { return n.scene.Client }

// MountNew makes a filesystem on a device of the test and mounts it.
func (s *Scene) MountNew(device, dir string) {
	s.Helper()
	if !strings.HasPrefix(device, "/dev/loop") && !strings.HasPrefix(device, s.Dir) {
		s.Fatalf("%s is no device of the test", device)
	}
	s.must("make mount point", os.MkdirAll(dir, 0o755))
	s.command("mkfs.ext4", "-q", "-F", device)
	s.command("mount", device, dir)
	s.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
}

// Partition makes a partition of 32 MiB on a loop device, without a partition table, which not
// every kernel reads. It returns the partition's node.
func (s *Scene) Partition(device string) string {
	s.Helper()
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	s.must("open disk", err)
	defer f.Close()
	part := unix.BlkpgPartition{Start: 1 << 20, Length: 32 << 20, Pno: 1}
	arg := unix.BlkpgIoctlArg{Op: unix.BLKPG_ADD_PARTITION, Datalen: int32(unsafe.Sizeof(part)),
		Data: (*byte)(unsafe.Pointer(&part))}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.BLKPG, uintptr(unsafe.Pointer(&arg))); errno != 0 {
		s.Fatalf("make a partition of %s: %v", device, errno)
	}
	s.Cleanup(func() { _ = exec.Command("partx", "--delete", device).Run() })
	numbers, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), filepath.Base(device)+"p1", "dev"))
	s.must("read the partition's number", err)
	var major, minor uint32
	_, err = fmt.Sscanf(string(numbers), "%d:%d", &major, &minor)
	s.must("read the partition's number", err)
	node := s.Path("disks", "partition")
	s.must("make node", unix.Mknod(node, unix.S_IFBLK|0o600, int(unix.Mkdev(major, minor))))
	return node
}

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// Two disks of one base name get two PVs, and one disk by two paths gets one.
func TestDiskNames(t *testing.T) {
	b := newBench(t)
	b.pv("pv-1")
	other := b.attach("below/disk", 8<<20)
	second := b.report(other, Available)
	if !strings.HasPrefix(second.PV, "local-n-disk-") {
		t.Errorf("the second PV is %s", second.PV)
	}
	again := b.link(b.device, "disk-again")
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if r := b.report(b.path, Available); len(r.Paths) == 1 && r.Paths[0] == again {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%+v", b.controller.Reports())
		}
	}
	if len(b.controller.Reports()) != 2 {
		t.Errorf("%+v, want two devices", b.controller.Reports())
	}
}

// What lies on the disk of a claim is not offered, whatever a tenant has written there: a loop device
// stands for a partition of kpartx, or a logical volume.
func TestDiskStackedOnAClaimsDisk(t *testing.T) {
	for name, flags := range map[string][]string{"a part": {"--offset", "1048576", "--sizelimit", "2097152"}, "all": nil} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "existing=wipe")
			pv := b.pv("pv-1")
			b.claimed(pv, corev1.VolumeBound)
			b.await(Bound)
			writeTo(t, b.device, "tenant", 1<<20+dataAt)
			top := testdisk.LoopOn(t, b.device, flags...)
			path := b.link(top, "disk-part1")
			if r := b.report(path, Busy); !strings.Contains(r.Why, "PV "+pv.Name) {
				t.Errorf("%+v", r)
			}
			b.event("DeviceBusy", path+" is not offered")
			if all := allPVs(t, b.client); len(all) != 1 {
				t.Errorf("%d PVs", len(all))
			}
			has(t, b.device, "tenant", 1<<20+dataAt)
		})
	}
}

// A regular file, or a link to one, is not opened.
func TestDiskOtherFiles(t *testing.T) {
	b := newBench(t, "existing=wipe")
	file := filepath.Join(filepath.Dir(b.path), "disk-file")
	if err := os.WriteFile(file, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := b.link(file, "disk-link")
	b.report(file, Error)
	b.report(link, Error)
	b.event("DeviceError", "not a block device")
	b.report(b.path, Available)
	if data, err := os.ReadFile(file); string(data) != "data" {
		t.Errorf("the file has %q (%v)", data, err)
	}
}

// A changed ConfigMap is for new disks at once; the PV before stays, with an event. A wrong one
// changes nothing.
func TestDiskConfigMapChanges(t *testing.T) {
	b := newBench(t)
	first := b.pv("pv-1")
	b.configure("fsType=xfs", "storageClassName=other")
	b.event("DeviceConfigDiffers", "has another fsType, storageClassName")
	second := b.report(b.attach("disk-2", 8<<20), Available)
	if pv := b.named(second.PV); *pv.Spec.Local.FSType != "xfs" || pv.Spec.StorageClassName != "other" {
		t.Errorf("the new PV is %+v", pv.Spec)
	}
	b.configure("fsType=ntfs", "deviceNameFilter=(")
	b.event("DeviceConfigInvalid", `ConfigMap ns/cm: fsType "ntfs" is none of ext4, xfs and btrfs; deviceNameFilter`)
	if now := b.named(first.Name); now.UID != first.UID || *now.Spec.Local.FSType != "ext4" {
		t.Errorf("the PV before is %+v", now)
	}
}

// The Node loses its annotation: PVs without a claim are withdrawn, the others stay.
func TestDiskNodeAnnotatedAway(t *testing.T) {
	b := newBench(t)
	bound := b.pv("pv-1")
	b.phase(bound, corev1.VolumeBound)
	free := b.report(b.attach("disk-2", 8<<20), Available)
	node, err := b.client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Annotations = nil
	if _, err := b.client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.goneSoon(free.PV)
	if b.named(bound.Name).UID != bound.UID {
		t.Error("the bound PV is another one")
	}
}

// A PV goes with its disk, unless a claim has it.
func TestDiskGone(t *testing.T) {
	b := newBench(t)
	b.phase(b.pv("pv-1"), corev1.VolumeBound)
	path := b.attach("disk-2", 8<<20)
	free := b.report(path, Available)
	for _, p := range []string{b.path, path} {
		if err := os.Remove(p); err != nil {
			t.Fatal(err)
		}
	}
	b.goneSoon(free.PV)
	b.event("DeviceGone", b.path)
	b.named("local-n-disk")
	b.event("DeviceWithdrawn", path)
}

// udev removes a directory with its last link: the PV without a claim is withdrawn, and the disk is
// offered again when it comes back.
func TestDiskLastOfTheDirectory(t *testing.T) {
	b := newBench(t)
	pv := b.pv("pv-1")
	b.await(Available)
	if err := os.RemoveAll(filepath.Dir(b.path)); err != nil {
		t.Fatal(err)
	}
	b.goneSoon(pv.Name)
	b.event("DeviceConfigInvalid", filepath.Dir(b.path)+" does not exist")
	b.link(b.device, "disk")
	b.pv("pv-2")
	if text := b.controller.Missing(); text != "" {
		t.Error(text)
	}
}

// A node that has none of the disks, such as one of the control plane, is ready, says so, and does not
// ask the API server again and again. The first disk is found within seconds.
func TestDiskNodeWithoutDisks(t *testing.T) {
	b := newBench(t)
	b.pv("pv-1")
	b.stop()
	if err := errors.Join(os.RemoveAll(filepath.Dir(b.path)), b.client.CoreV1().PersistentVolumes().Delete(t.Context(),
		"local-n-disk", metav1.DeleteOptions{})); err != nil {
		t.Fatal(err)
	}
	b.start()
	for end := time.Now().Add(patience); b.controller.Ready() != nil; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(b.controller.Ready())
		}
	}
	b.event("DeviceConfigInvalid", "the node has none of these devices")
	if text := b.controller.Missing(); !strings.Contains(text, "does not exist") {
		t.Errorf("it says %q", text)
	}
	time.Sleep(time.Second)
	b.client.ClearActions()
	time.Sleep(2*firstRetry + time.Second)
	if asked := b.client.Actions(); len(asked) > 0 {
		t.Errorf("%d requests of a node without disks: %+v", len(asked), asked[0])
	}
	b.link(b.device, "disk")
	b.pv("pv-2")
}

// The PV of a pod's block device is deleted by hand: nothing is written, and once the pod is gone
// the disk is refused, because it carries data.
func TestDiskPVDeletedByHand(t *testing.T) {
	b := newBench(t)
	b.phase(b.pv("pv-1"), corev1.VolumeBound)
	b.await(Bound)
	b.write("secret")
	pod := testdisk.LoopOn(b, b.device)
	if err := b.client.CoreV1().PersistentVolumes().Delete(t.Context(), "local-n-disk",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if r := b.await(Busy); !strings.Contains(r.Why, pod) || b.read() != "secret" {
		t.Errorf("%+v; the disk has %q", r, b.read())
	}
	testdisk.DetachLoop(t, pod)
	if b.await(Refused); b.read() != "secret" {
		t.Errorf("the disk has %q", b.read())
	}
}

// The claim of a pool is deleted by mistake, and after a boot nothing has the disk mounted: it is not
// wiped while volumes of the pool are on the node.
func TestDiskOfAPool(t *testing.T) {
	b := newBench(t)
	pv := b.pv("pv-1")
	pv.Annotations[contract.AnnHeldPool] = contract.HeldPool{Node: "n", Pool: "local", Path: "/var/hpvolumes"}.String()
	b.claimed(pv, corev1.VolumeBound)
	b.await(Bound)
	b.write("secret")
	volume := func(name, node, pool string) *corev1.PersistentVolume {
		at := affinity(node)
		at.Required.NodeSelectorTerms[0].MatchExpressions[0].Key = contract.TopologyNode
		return &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{contract.LabelNode: node},
				Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": contract.CSIProvisioner}},
			Spec: corev1.PersistentVolumeSpec{NodeAffinity: at, PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: contract.CSIProvisioner, VolumeAttributes: map[string]string{"storagePool": pool}}}},
		}
	}
	pvs := b.client.CoreV1().PersistentVolumes()
	for _, one := range []*corev1.PersistentVolume{volume("data", "n", "local"), volume("elsewhere", "m", "local"), volume("other", "n", "b")} {
		if _, err := pvs.Create(t.Context(), one, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	now := b.named(pv.Name)
	b.phase(now, corev1.VolumeReleased)
	if r := b.await(Busy); !strings.Contains(r.Why, "has the volumes of pool local: in use by PV data;") || b.read() != "secret" {
		t.Errorf("%+v; the disk has %q", r, b.read())
	}
	if err := pvs.Delete(t.Context(), "data", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); b.read() == "secret"; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v", b.controller.Reports())
		}
	}
}

// A wipe that ends with its process keeps the PV, and the next process begins it again. A disk that
// goes while it is wiped keeps its PV too.
func TestDiskWipeIsInterrupted(t *testing.T) {
	b := newBench(t, "wipe=discard")
	path := b.attach("disk-large", 2<<30) // its verification takes long enough to be interrupted
	large := b.report(path, Available)
	pv := b.named(large.PV)
	released := func() {
		b.phase(b.named(pv.Name), corev1.VolumeReleased)
		for b.report(path, Wiping).Wiped == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	released()
	b.stop()
	if now := b.named(pv.Name); now.UID != pv.UID || now.Status.Phase != corev1.VolumeReleased {
		t.Errorf("the PV is %+v", now)
	}
	b.start()
	for b.report(path, Wiping).Wiped == 0 {
		time.Sleep(time.Millisecond)
	}
	away := path + "-away"
	if err := os.Rename(path, filepath.Join(t.TempDir(), filepath.Base(away))); err != nil {
		t.Fatal(err)
	}
	b.report(path, Gone)
	b.event("DeviceGone", path)
	if now := b.named(pv.Name); now.UID != pv.UID || now.Status.Phase != corev1.VolumeReleased {
		t.Errorf("the PV is %+v", now)
	}
}

// A Released PV without the label, or with another node's affinity, is not this node's.
func TestDiskOthersPVs(t *testing.T) {
	b := newBench(t)
	first := b.pv("pv-1")
	b.phase(first, corev1.VolumeBound)
	b.write("secret")
	for name, edit := range map[string]func(*corev1.PersistentVolume){
		"unlabelled": func(pv *corev1.PersistentVolume) { pv.Labels = nil },
		"another":    func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = affinity("another") },
	} {
		pv := first.DeepCopy()
		pv.ObjectMeta = metav1.ObjectMeta{Name: name, Labels: first.Labels}
		pv.Status.Phase = corev1.VolumeReleased
		edit(pv)
		if _, err := b.client.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b.report(b.attach("disk-2", 8<<20), Available) // there were passes since
	if b.named("unlabelled").UID == "" || b.named("another").UID == types.UID("") || b.read() != "secret" {
		t.Errorf("the disk has %q", b.read())
	}
}

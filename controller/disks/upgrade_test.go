package disks

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume/disk"
)

// earlier is a PV as an earlier version made it, and its disk as this version finds it.
type earlier struct {
	marks map[string]string // annotations in place of those of this version
	owned bool              // by the Node
	disk  disk.Device
	// after is the disk after a boot.
	after disk.Device
	// answer has what is decided about a Released PV, now and after a boot.
	now, later string
}

// TestUpgrade has PVs of earlier versions, whose marks this version reads otherwise. The disk of none is
// taken for another disk or offered a second time. One that is not proven to be the PV's any more is
// kept, with the command that confirms it.
func TestUpgrade(t *testing.T) {
	const release, unclear = "release /dev/a local-n-a released", "keep /dev/a local-n-a unclear DeviceUnclear"
	plain := device("/dev/a", 1, diskA)
	found := func(edit func(*disk.Device)) disk.Device { d := plain; edit(&d); return d }
	booted := func(d disk.Device) disk.Device {
		d.Attachment = strings.Replace(d.Attachment, "boot/1", "boot-2/9", 1)
		return d
	}
	noID := found(func(d *disk.Device) { d.ID, d.Identity = "QM00003", "" })
	partition := found(func(d *disk.Device) { d.ID, d.Identity, d.Attachment = "", "", "boot/1-part2" })
	partitionWithID := found(func(d *disk.Device) {
		d.ID, d.Identity, d.Attachment, d.Start = diskA+"-part2", diskA+"-part2", "boot/1-part2", 1<<20
	})
	slots := map[string]earlier{
		"multipath": {marks: map[string]string{AnnDisk: "dm:mpath-3" + strings.TrimPrefix(diskA, "naa."), AnnAttachment: "boot/1"},
			disk: plain, after: booted(plain), now: release, later: release},
		"a partition of multipath": {marks: map[string]string{AnnDisk: "dm:part2-mpath-3" + strings.TrimPrefix(diskA, "naa."), AnnAttachment: "boot/1"},
			disk: partitionWithID, after: booted(partitionWithID), now: release, later: release},
		"a partition": {marks: map[string]string{AnnDisk: diskA + "-part2", AnnAttachment: "boot/1"},
			disk: partitionWithID, after: booted(partitionWithID), now: release, later: release},
		"a partition without an ID": {marks: map[string]string{AnnAttachment: "boot/1"},
			disk: partition, after: booted(partition), now: unclear, later: unclear},
		"owned by its Node": {marks: map[string]string{AnnDisk: diskA, AnnAttachment: "boot/1"}, owned: true,
			disk: plain, after: booted(plain), now: release, later: release},
		"of local-pv-provisioner, by a name of the slot": {marks: map[string]string{}, owned: true,
			disk: plain, after: booted(plain), now: unclear, later: unclear},
	}
	for _, id := range []string{"serial:QM00003", "t10.ATA_QEMU_HARDDISK_QM00003", "eui.5254000000000001", "serial:VMware_NVME_0000",
		"serial:00000000000000000001", "dm:CRYPT-PLAIN-data1"} {
		slots["the ID "+id] = earlier{marks: map[string]string{AnnDisk: id, AnnAttachment: "boot/1"},
			disk: noID, after: booted(noID), now: release, later: unclear}
	}
	for name, row := range slots {
		t.Run(name, func(t *testing.T) {
			for i, d := range []disk.Device{row.disk, row.after} {
				row.check(t, d, []string{row.now, row.later}[i])
			}
		})
	}
}

func (e earlier) make(n *node, d disk.Device, phase corev1.PersistentVolumePhase) *corev1.PersistentVolume {
	pv := n.made(pvA, d, phase)
	for _, key := range []string{AnnDisk, AnnAttachment, AnnStart, AnnBelow, contract.AnnNodeUID} {
		delete(pv.Annotations, key)
	}
	maps.Copy(pv.Annotations, e.marks)
	if e.owned {
		pv.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "node"}}
	} else {
		pv.Annotations[contract.AnnNodeUID] = "node"
	}
	return pv
}

func (e earlier) check(t *testing.T, d disk.Device, want string) {
	t.Helper()
	n := emptyNode(t)
	n.attach(d)
	pv := e.make(n, d, corev1.VolumeReleased)
	decisions := plan(n.found)
	if got := outcomes(decisions); !slices.Equal(got, []string{want}) {
		t.Errorf("Released: %q, want %q", got, want)
	}
	confirm := decisions[0].report.Confirm
	// What the operator or the command of inspect makes of it is decided alike.
	if e.owned {
		pv.Annotations[contract.AnnNodeUID], pv.OwnerReferences = "node", nil
		if got := outcomes(plan(n.found)); !slices.Equal(got, []string{want}) {
			t.Errorf("without its owner: %q, want %q", got, want)
		}
	}
	if strings.HasPrefix(want, "keep") {
		key, value, _ := strings.Cut(confirm, "=")
		pv.Annotations[key] = value
		if now := plan(n.found)[0]; now.action != release {
			t.Errorf("confirmed with %q: %s %s", confirm, now.report.State, now.report.Why)
		}
	}
	// A claim has it: it is the claim's, whatever is proven, also by another name.
	for _, there := range []bool{true, false} {
		n = emptyNode(t)
		n.spec.existing = true
		pv = e.make(n, d, corev1.VolumeBound)
		if !there {
			n.detach(pv, time.Hour)
			d.Path = "/dev/again"
		}
		n.attach(d)
		for _, one := range plan(n.found) {
			known := recorded(pv).LastingID().Known() || d.Attachment == pv.Annotations[AnnAttachment]
			switch {
			case one.action == offer && (known || one.spec.existing):
				t.Errorf("Bound, at its path %v: %q", there, outcomes([]decision{one}))
			case one.action == release || one.action == withdraw:
				t.Errorf("Bound, at its path %v: %q", there, outcomes([]decision{one}))
			}
		}
	}
}

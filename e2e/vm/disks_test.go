package vm_test

import (
	"os/exec"
	"slices"
	"testing"

	"kubevirt.io/hostpath-provisioner/e2e/vm"
)

// The agent of raw disks with real SCSI disks, of which some have a WWN, some a serial number, and
// some neither. Names swap over a reboot, a disk is replaced in its slot, two agents reach one LUN.
// What runs in the machine is in controller/disks.
func TestDisksOverAReboot(t *testing.T) {
	t.Parallel()
	m := machine(t, "./controller/disks")
	m.Disks, m.Modules, m.Output = []string{raw(t)}, []string{"virtio_scsi", "sd_mod"}, linesOf(t)
	lun := raw(t)
	m.SCSI = []vm.SCSIDisk{
		{Image: raw(t), WWN: 0x5000c500a0000001, Serial: "one"},
		{Image: raw(t), WWN: 0x5000c500a0000002, Serial: "two"},
		{Image: raw(t), Serial: "serial-3"},
		{Image: raw(t), Serial: "serial-4"},
		{Image: raw(t)},
		{Image: raw(t)},
		{Image: raw(t), Serial: "alike"},
		{Image: raw(t), Serial: "alike"},
		{Image: lun, WWN: 0x5000c500a0000009},
		{Image: lun, WWN: 0x5000c500a0000009},
		{Image: zapped(t), WWN: 0x5000c500a000000a},
	}
	run(t, m, "-test.run=^TestVMDisksBeforeReboot$")
	// The kernel names disks as it finds them: here the other way round, in pairs.
	m.SCSI = slices.Clone(m.SCSI)
	for i := 0; i < 6; i += 2 {
		m.SCSI[i], m.SCSI[i+1] = m.SCSI[i+1], m.SCSI[i]
	}
	run(t, m, "-test.run=^TestVMDisksAfterReboot$")
}

// Two machines are a node each, and their disks have one serial number, as cloned machines have: both
// disks are offered, and a PV of one is none of the other. The second disk keeps its data.
func TestDisksOfTwoMachines(t *testing.T) {
	t.Parallel()
	first, second := machine(t, "./controller/disks"), machine(t, "./controller/disks")
	api := raw(t)
	for _, m := range []*vm.Machine{&first, &second} {
		m.Disks, m.Modules, m.Output = []string{api}, []string{"virtio_scsi", "sd_mod"}, linesOf(t)
		m.SCSI = []vm.SCSIDisk{{Image: raw(t), Serial: "alike"}}
	}
	run(t, first, "-test.run=^TestVMAlikeFirstNode$")
	run(t, second, "-test.run=^TestVMAlikeSecondNode$")
	run(t, first, "-test.run=^TestVMAlikeFirstNodeAgain$")
}

// zapped makes a disk whose partition table was overwritten, and whose partition has a filesystem.
func zapped(t *testing.T) (image string) {
	t.Helper()
	image = raw(t)
	if out, err := exec.Command("mkfs.ext4", "-q", "-E", "offset=1048576", image, "126m").CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v\n%s", err, out)
	}
	return image
}

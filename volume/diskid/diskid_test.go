package diskid

import "testing"

// The ID of each text, what other nodes know it by, and whether two devices with it are one disk.
func TestParse(t *testing.T) {
	const wwn, lun = "naa.5000c500a1b2c3d4", "naa.600a098038303053453f463045727a2e"
	const nguid = "0025385b71b0a2f10025385b71b0a2f1"
	for text, want := range map[string]struct {
		id, shared string
		unique     bool
	}{
		"":                     {},
		wwn:                    {wwn, wwn, true},
		wwn + "-part2":         {wwn + "-part2", wwn, true},
		lun:                    {lun, lun, true},
		"naa.20000000c9a1b2c3": {"naa.20000000c9a1b2c3", "naa.20000000c9a1b2c3", true},
		"naa.3000c500a1b2c3d4": {"naa.3000c500a1b2c3d4", "", true},
		"eui.0025385b71b0a2f1": {"eui.0025385b71b0a2f1", "eui.0025385b71b0a2f1", true},
		"eui." + nguid:         {"eui." + nguid, "eui." + nguid, true},
		"uuid.6fe5a1f6-12f5-4b4a-9fd4-4f8d2f1f3e11":          {"uuid.6fe5a1f6-12f5-4b4a-9fd4-4f8d2f1f3e11", "uuid.6fe5a1f6-12f5-4b4a-9fd4-4f8d2f1f3e11", true},
		"nvme.8086-1234-5678-00000001":                       {"nvme.8086-1234-5678-00000001", "", false},
		"t10.ATA_Disk_WD-WX41A12B":                           {"t10.ATA_Disk_WD-WX41A12B", "", false},
		"serial:data-1":                                      {"serial:data-1", "", false},
		"serial:data-1-part3":                                {"serial:data-1-part3", "", false},
		"dm:LVM-abc":                                         {"dm:LVM-abc", "", true},
		"dm:CRYPT-LUKS2-0a1b-data":                           {"dm:CRYPT-LUKS2-0a1b-data", "", true},
		"md:1:2:3:4":                                         {"md:1:2:3:4", "", true},
		"dm:mpath-3600a098038303053453f463045727a2e":         {lun, lun, true},
		"dm:mpath-35000c500a1b2c3d4":                         {wwn, wwn, true},
		"dm:mpath-35000C500A1B2C3D4":                         {wwn, wwn, true},
		"dm:mpath-35000c500a1b2c3d4-part2":                   {wwn + "-part2", wwn, true},
		"dm:part12-mpath-35000c500a1b2c3d4":                  {wwn + "-part12", wwn, true},
		"dm:mpath-20025385b71b0a2f1":                         {"eui.0025385b71b0a2f1", "eui.0025385b71b0a2f1", true},
		"dm:mpath-eui." + nguid:                              {"eui." + nguid, "eui." + nguid, true},
		"dm:mpath-uuid.6fe5a1f6-12f5-4b4a-9fd4-4f8d2f1f3e11": {"uuid.6fe5a1f6-12f5-4b4a-9fd4-4f8d2f1f3e11", "uuid.6fe5a1f6-12f5-4b4a-9fd4-4f8d2f1f3e11", true},
		"dm:mpath-33000c500a1b2c3d4":                         {"naa.3000c500a1b2c3d4", "", true},
		"dm:mpath-1ATA_disk":                                 {"dm:mpath-1ATA_disk", "", true},
		"dm:part1-mpath-0QEMU_QEMU_HARDDISK_1":               {"dm:mpath-0QEMU_QEMU_HARDDISK_1-part1", "", true},
		"t10.QEMU_QEMU_HARDDISK_drive-scsi0-0-1":             {},
		"serial:00000000":                                    {},
		"eui.0000000000000000":                               {},
		"serial:0000X":                                       {"serial:0000X", "", false},
	} {
		id := Parse(text)
		if id.String() != want.id || id.Shared() != want.shared || id.Unique() != want.unique {
			t.Errorf("%q: %q, on other nodes %q, unique %v, want %+v", text, id, id.Shared(), id.Unique(), want)
		}
		if again := Parse(id.String()); again != id {
			t.Errorf("%q: recorded as %q, and read as %+v", text, id, again)
		}
		if got, want := id.UnknownMultipath(), text == "dm:mpath-1ATA_disk" || text == "dm:part1-mpath-0QEMU_QEMU_HARDDISK_1"; got != want {
			t.Errorf("%q: its multipath is unknown: %v", text, got)
		}
	}
}

func TestNames(t *testing.T) {
	for _, row := range []struct {
		id, base string
		want     bool
	}{
		{"naa.5000c500a1b2c3d4", "wwn-0x5000c500a1b2c3d4", true},
		{"naa.5000c500a1b2c3d4-part1", "wwn-0x5000c500a1b2c3d4-part1", true},
		{"naa.5000c500a1b2c3d4", "wwn-0x5000c500a1b2c3d4-part1", false},
		{"naa.5000c500a1b2c3d4-part2", "wwn-0x5000c500a1b2c3d4-part1", false},
		{"naa.5000c500a1b2c3d4", "wwn-0x5000c500ffffffff", false},
		{"dm:mpath-35000c500a1b2c3d4", "dm-uuid-mpath-35000c500a1b2c3d4", true},
		{"t10.ATA_Disk_WD-WX41A12B", "ata-Disk_WD-WX41A12B", true},
		{"serial:1", "virtio-1", false},
		{"", "sda", false},
	} {
		if got := Parse(row.id).Names(row.base); got != row.want {
			t.Errorf("%q names %q: %v", row.base, row.id, got)
		}
	}
}

// IDs that name the slot are none, in each form in which the kernel shows them. Those of real disks
// are.
func TestIDsOfSlots(t *testing.T) {
	const vmware, nvmeSerial = "nvme.15ad-564d57617265204e564d455f3030303", "-564d77617265205669727475616c204e564d65204469736b-00000001"
	for text, slot := range map[string]bool{
		"t10.QEMU_QEMU_HARDDISK_drive-scsi0-0-1":                      true,
		"serial:drive-scsi0-0-1":                                      true,
		"t10.ATA_QEMU_HARDDISK_QM00003":                               true,
		"t10.ATA_QEMU_HARDDISK_QM00003-part1":                         true,
		"serial:QM00003":                                              true,
		"eui.5254000000000001":                                        true,
		"eui.5254000000000001-part2":                                  true,
		"dm:mpath-25254000000000001":                                  true,
		vmware + "0" + nvmeSerial:                                     true,
		vmware + "1" + nvmeSerial:                                     true,
		"serial:VMware_NVME_0001":                                     true,
		"serial:VMware_NVME_0000":                                     true,
		"t10.ATA_VMware_Virtual_SATA_Hard_Drive_00000000000000000001": true,
		"serial:00000000000000000001":                                 true,
		"serial:VB1234-56789":                                         true,
		"nvme.1ae0-6e766d655f63617264-6e766d655f63617264-00000001":    true,
		"t10.Google_EphemeralDisk_local-ssd-0":                        true,
		"serial:persistent-disk-1":                                    true,
		"dm:CRYPT-PLAIN-data1":                                        true,
		"dm:CRYPT-TCRYPT-data1":                                       true,

		"dm:CRYPT-LUKS2-6fe5a1f612f54b4a9fd44f8d2f1f3e11-data1": false,
		"dm:LVM-abc":                            false,
		"t10.ATA_QEMU_HARDDISK_mine-1":          false,
		"t10.ATA_Disk_WD-WX41A12B":              false,
		"serial:data-1":                         false,
		"serial:1":                              false,
		"serial:0001-data":                      false,
		"naa.600224800000000000000000000000001": false,
		"eui.00000000000000000000000000000001":  false,
		"eui.0025385b71b0a2f1":                  false,
		"serial:VB8a7e1f2c-0d3b4a59":            false,
		"serial:PHYS73640123480BGN":             false,
		"nvme.8086-50485953373336343031323334383042474e-494e54454c-00000001": false,
		"md:1:2:3:0001": false,
	} {
		if got := !Parse(text).Known(); got != slot {
			t.Errorf("%q names a slot: %v, want %v", text, got, slot)
		}
	}
}

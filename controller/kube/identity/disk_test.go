package identity

import (
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume/diskid"
)

func TestOfDisk(t *testing.T) {
	const id, other = "naa.5000c500a1b2c3d4", "naa.5000c500ffffffff"
	found := Disk{ID: id, Bytes: 100, NodeUID: "node", Attachment: "boot/7"}
	pv := RecordedDisk{Disk: found, Path: "/dev/sdb"}
	for _, row := range []struct {
		name  string
		pv    func(*RecordedDisk)
		found func(*Disk)
		want  Answer
		why   string
	}{
		{name: "all marks", want: Ours},
		{name: "after a boot", found: func(d *Disk) { d.Attachment = "boot2/3" }, want: Ours},
		{name: "another disk", found: func(d *Disk) { d.ID = other }, want: Foreign, why: "is the disk " + other},
		{name: "another disk in the same attachment", pv: func(p *RecordedDisk) { p.ID = other }, want: Foreign},
		{name: "another size", found: func(d *Disk) { d.Bytes = 800 }, want: Unclear, why: "100 bytes, and /dev/sdb has 800"},
		{name: "a partition", pv: func(p *RecordedDisk) { p.Start = 1 << 20 }, found: func(d *Disk) { d.Start = 1 << 20 }, want: Ours},
		{name: "a partition elsewhere, by another table", pv: func(p *RecordedDisk) { p.Start = 1 << 20 },
			found: func(d *Disk) { d.Start = 2 << 20 }, want: Unclear, why: "begins at byte 1048576 of its disk, and /dev/sdb begins at byte 2097152"},
		{name: "a partition whose begin was not recorded", found: func(d *Disk) { d.Start = 2 << 20 }, want: Ours},
		{name: "a partition elsewhere, confirmed", pv: func(p *RecordedDisk) { p.Start, p.Confirmed = 1<<20, id },
			found: func(d *Disk) { d.Start = 2 << 20 }, want: Ours},
		{name: "another Node", found: func(d *Disk) { d.NodeUID = "new" }, want: Unclear, why: "UID node"},
		{name: "no Node recorded", pv: func(p *RecordedDisk) { p.NodeUID = "" }, want: Unclear, why: "UID none"},
		{name: "the ID is not read any more", found: func(d *Disk) { d.ID = "" }, want: Unclear, why: "no ID of its own"},

		{name: "an older version recorded the slot", pv: func(p *RecordedDisk) { p.ID = "t10.ATA_QEMU_HARDDISK_QM00003" }, found: func(d *Disk) { d.ID = "" }, want: Ours},
		{name: "the same, after a boot", pv: func(p *RecordedDisk) { p.ID = "t10.ATA_QEMU_HARDDISK_QM00003" },
			found: func(d *Disk) { d.ID, d.Attachment = "", "boot2/7" }, want: Unclear, why: "attached since"},
		{name: "the same, confirmed by the slot", pv: func(p *RecordedDisk) {
			p.ID, p.Confirmed = "t10.ATA_QEMU_HARDDISK_QM00003", "t10.ATA_QEMU_HARDDISK_QM00003"
		}, found: func(d *Disk) { d.ID, d.Attachment = "", "boot2/7" }, want: Unclear},
		{name: "a partition, recorded without its number", pv: func(p *RecordedDisk) { p.ID = "" },
			found: func(d *Disk) { d.ID, d.Attachment = "", "boot/7-part1" }, want: Unclear, why: "attached since"},
		{name: "by multipath, recorded by an older version", pv: func(p *RecordedDisk) { p.ID = "dm:mpath-35000c500a1b2c3d4" }, want: Ours},
		{name: "multipath since", found: func(d *Disk) { d.ID = "dm:mpath-35000c500a1b2c3d4" }, want: Ours},
		{name: "another disk by multipath", pv: func(p *RecordedDisk) { p.ID = "dm:mpath-35000c500ffffffff" }, want: Foreign},
		{name: "confirmed as multipath", pv: func(p *RecordedDisk) { p.ID, p.Attachment, p.Confirmed = "", "", "dm:mpath-35000c500a1b2c3d4" }, want: Ours},
		{name: "a partition of kpartx, recorded by an older version", pv: func(p *RecordedDisk) { p.ID = "dm:part1-mpath-35000c500a1b2c3d4" },
			found: func(d *Disk) { d.ID = id + "-part1" }, want: Ours},

		{name: "no ID, same attachment", pv: func(p *RecordedDisk) { p.ID = "" }, found: func(d *Disk) { d.ID = "" }, want: Ours},
		{name: "an ID since, same attachment", pv: func(p *RecordedDisk) { p.ID = "" }, want: Ours},
		{name: "no ID, after a boot", pv: func(p *RecordedDisk) { p.ID = "" }, found: func(d *Disk) { d.ID, d.Attachment = "", "boot2/7" }, want: Unclear, why: "attached since"},
		{name: "no ID, attached again", pv: func(p *RecordedDisk) { p.ID = "" }, found: func(d *Disk) { d.ID, d.Attachment = "", "boot/9" }, want: Unclear},
		{name: "no ID, an old kernel", pv: func(p *RecordedDisk) { p.ID, p.Attachment = "", "" }, found: func(d *Disk) { d.ID, d.Attachment = "", "" }, want: Unclear},

		{name: "older PV", pv: func(p *RecordedDisk) { p.ID, p.Attachment = "", "" }, want: Unclear, why: "does not record"},
		{name: "older PV by WWN", pv: func(p *RecordedDisk) { p.ID, p.Attachment, p.Path = "", "", "/dev/disk/by-id/wwn-0x5000c500a1b2c3d4" }, want: Ours},
		{name: "older PV by another WWN", pv: func(p *RecordedDisk) { p.ID, p.Attachment, p.Path = "", "", "/dev/disk/by-id/wwn-0x5000c500ffffffff" }, want: Unclear},
		{name: "older PV by the WWN of a partition", pv: func(p *RecordedDisk) {
			p.ID, p.Attachment, p.Path = "", "", "/dev/disk/by-id/wwn-0x5000c500a1b2c3d4-part1"
		}, want: Unclear},
		{name: "older PV by serial", pv: func(p *RecordedDisk) { p.ID, p.Attachment, p.Path = "", "", "/dev/disk/by-id/ata-Disk_WD-WX41A12B" },
			found: func(d *Disk) { d.ID = "t10.ATA_Disk_WD-WX41A12B" }, want: Ours},
		{name: "older PV by a short serial", pv: func(p *RecordedDisk) { p.ID, p.Attachment, p.Path = "", "", "/dev/disk/by-id/virtio-1" },
			found: func(d *Disk) { d.ID = "serial:1" }, want: Unclear},
		{name: "older PV of another Node", pv: func(p *RecordedDisk) {
			p.ID, p.Attachment, p.NodeUID, p.Path = "", "", "old", "/dev/disk/by-id/wwn-0x5000c500a1b2c3d4"
		}, want: Unclear},

		{name: "confirmed by ID", pv: func(p *RecordedDisk) { p.ID, p.Attachment, p.NodeUID, p.Confirmed = "", "", "old", id }, want: Ours},
		{name: "confirmed by attachment", pv: func(p *RecordedDisk) { p.ID, p.Attachment, p.Confirmed = "", "", "boot/7" }, want: Ours},
		{name: "confirmed in another boot", pv: func(p *RecordedDisk) { p.ID, p.Attachment, p.Confirmed = "", "", "boot0/7" }, want: Unclear},
		{name: "confirmed, and replaced since", pv: func(p *RecordedDisk) { p.Confirmed = id }, found: func(d *Disk) { d.ID = other }, want: Foreign},
		{name: "confirmed, of another size", pv: func(p *RecordedDisk) { p.Confirmed = id }, found: func(d *Disk) { d.Bytes = 1 }, want: Ours},
		{name: "confirmed in another boot, of another size", pv: func(p *RecordedDisk) { p.ID, p.Attachment, p.Confirmed = "", "", "boot0/7" },
			found: func(d *Disk) { d.ID, d.Bytes = "", 1 }, want: Unclear, why: "100 bytes"},
		{name: "a replacement is confirmed", pv: func(p *RecordedDisk) { p.Confirmed = other }, found: func(d *Disk) { d.ID = other }, want: Ours},
	} {
		t.Run(row.name, func(t *testing.T) {
			pv, found := pv, found
			if row.pv != nil {
				row.pv(&pv)
			}
			if row.found != nil {
				row.found(&found)
			}
			got := OfDisk(pv, found)
			if got.Answer != row.want {
				t.Errorf("%s (%s), want %s", got.Answer, got.Why, row.want)
			}
			if !strings.Contains(got.Why, row.why) || (got.Why == "") != (row.want == Ours) {
				t.Errorf("why: %q, want %q in it", got.Why, row.why)
			}
		})
	}
}

func TestIsOf(t *testing.T) {
	const id, other = "naa.5000c500a1b2c3d4", "naa.5000c500ffffffff"
	for name, row := range map[string]struct {
		pv   RecordedDisk
		id   string
		want bool
	}{
		"the disk":                      {RecordedDisk{Disk: Disk{ID: id}}, id, true},
		"a partition of it":             {RecordedDisk{Disk: Disk{ID: id + "-part1"}}, id, true},
		"the disk, and a partition now": {RecordedDisk{Disk: Disk{ID: id}}, id + "-part1", true},
		"another disk":                  {RecordedDisk{Disk: Disk{ID: other}}, id, false},
		"another disk by this path":     {RecordedDisk{Disk: Disk{ID: other}, Path: "/dev/disk/by-id/wwn-0x5000c500a1b2c3d4"}, id, false},
		"confirmed":                     {RecordedDisk{Confirmed: id}, id, true},
		"confirmed by its attachment":   {RecordedDisk{Confirmed: "boot/7"}, id, false},
		"an older PV by WWN":            {RecordedDisk{Path: "/dev/disk/by-id/wwn-0x5000c500a1b2c3d4"}, id, true},
		"an older PV of a partition":    {RecordedDisk{Path: "/dev/disk/by-id/wwn-0x5000c500a1b2c3d4-part1"}, id, true},
		"an older PV by another path":   {RecordedDisk{Path: "/dev/sdb"}, id, false},
		"equal serial numbers":          {RecordedDisk{Disk: Disk{ID: "serial:data-1"}}, "serial:data-1", false},
		"no IDs":                        {RecordedDisk{Path: "/dev/sdb"}, "", false},
		"a logical volume on it":        {RecordedDisk{Disk: Disk{ID: "dm:LVM-a"}, Below: []string{id}}, id, true},
		"a logical volume on another":   {RecordedDisk{Disk: Disk{ID: "dm:LVM-a"}, Below: []string{other}}, id, false},
		"multipath":                     {RecordedDisk{Disk: Disk{ID: "dm:mpath-35000c500a1b2c3d4"}}, id, true},
		"a partition of multipath":      {RecordedDisk{Disk: Disk{ID: "dm:part1-mpath-35000c500a1b2c3d4"}}, id, true},
		"confirmed as multipath":        {RecordedDisk{Confirmed: "dm:mpath-35000c500a1b2c3d4"}, id, true},
		"an older PV of multipath":      {RecordedDisk{Path: "/dev/disk/by-id/dm-uuid-mpath-35000c500a1b2c3d4"}, id, true},
	} {
		var shared []string
		if one := diskid.Parse(row.id).Shared(); one != "" {
			shared = []string{one}
		}
		if got := row.pv.IsOf(shared); got != row.want {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
}

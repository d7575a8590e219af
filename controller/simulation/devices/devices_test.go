package devices

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/disk"
)

const mib = 1 << 20

var one = Slot(1, 0)

var every = regexp.MustCompile("")

func newNode(t *testing.T) (n *Node, lost *[]string) {
	lost = new([]string)
	return NewNode("n", t.TempDir(), func(w Write) {
		for _, m := range w.Lost {
			*lost = append(*lost, fmt.Sprintf("%s of %s by %s", m.Owner, w.Disk.Name, w.Who))
		}
	}), lost
}

const (
	path, path2 = "by-path/pci-0000:00:1f.2-ata-1", "by-path/pci-0000:00:1f.2-ata-2"
	wwn, naa    = "by-id/wwn-0x5000c500a1b2c301", "naa.5000c500a1b2c301"
	nguid       = "eui.00000000000000000000000000000001"
	held        = "in use: another program, or a mount in another container, has it opened exclusively"
)

// The answers of package volume/disk about the facts of each row.
func TestAnswers(t *testing.T) {
	for name, row := range map[string]struct {
		facts func(n *Node, d *Disk)
		kind  string
		link  string // in /dev/disk
		id    string // as recorded in PVs
		use   string // what Open says; "" if it opens
		on    string // what Probe finds
	}{
		"an empty disk":     {nil, "naa", wwn, naa, "", "nothing"},
		"by its path":       {nil, "naa", path, naa, "", "nothing"},
		"NVMe":              {nil, "nguid", "by-id/nvme-" + nguid, nguid, "", "nothing"},
		"a serial number":   {nil, "serial", "by-id/scsi-0QEMU_QEMU_HARDDISK_serial-01", "serial:serial-01", "", "nothing"},
		"no ID":             {nil, "none", path, "", "", "nothing"},
		"named by an admin": {func(n *Node, d *Disk) { n.Rename(d, "mine") }, "naa", "by-id/mine", naa, "", "nothing"},
		"a filesystem": {func(n *Node, _ *Disk) { n.Mark(one, Filesystem("host")) },
			"none", path, "", "", "ext2, ext3 or ext4 filesystem"},
		"data": {func(n *Node, _ *Disk) { n.Mark(one, Mark{50 * mib, "bytes", "a"}) },
			"none", path, "", "", "data without a known signature at byte 52428800"},
		"mounted": {func(n *Node, _ *Disk) { n.Mount(one) }, "none", path, "", held, "nothing"},
		"used by a pod": {func(n *Node, _ *Disk) { n.Loop(one, true) },
			"none", path, "", "the loop device /dev/loop0 is backed by /dev/sda", ""},
		"two paths": {func(n *Node, d *Disk) { n.Plug(2, d) }, "naa", path2, naa, "", "nothing"},
		"mounted by its other path": {func(n *Node, d *Disk) { n.Plug(2, d); n.Mount(Slot(2, 0)) }, "naa", path, naa,
			"/dev/sdb is the same disk, and another program, or a mount in another container", "nothing"},
		"two serial numbers": {func(n *Node, _ *Disk) { n.Plug(2, NewDisk("other", "serial", 1, mib)) },
			"serial", path, "", "", "nothing"},
		"a partition": {func(n *Node, _ *Disk) { n.Partition(one, 2, "a") },
			"naa", wwn + "-part2", naa + "-part2", "", "nothing"},
		"its disk": {func(n *Node, _ *Disk) { n.Partition(one, 2, "a"); n.Mount(Slot(1, 2)) },
			"naa", wwn, naa, held, "GPT partition table"},
		"the other one": {func(n *Node, _ *Disk) { n.Partition(one, 2, "a"); n.Mount(Slot(1, 2)) },
			"naa", wwn + "-part1", naa + "-part1", "", "nothing"},
		"multipath": {func(n *Node, d *Disk) { n.Host("multipath", true); n.Plug(2, d) },
			"naa", wwn, naa, "", "nothing"},
		"a path of it": {func(n *Node, d *Disk) { n.Host("multipath", true); n.Plug(2, d) },
			"naa", path2, naa, "held by device mapper, mpath-d", ""},
		"a kpartx partition": {func(n *Node, _ *Disk) { n.Host("multipath", true); n.Partition(one, 2, "a") },
			"naa", "by-id/dm-name-mpath-d1", naa + "-part1", "", "nothing"},
		"a logical volume": {func(n *Node, _ *Disk) { n.Host("lvm", true); n.Mark(one, LVM("a")) },
			"none", "by-id/dm-name-vg-d", "dm:LVM-d", "", "nothing"},
		"LVM's disk": {func(n *Node, _ *Disk) { n.Host("lvm", true); n.Mark(one, LVM("a")) },
			"none", path, "", "held by LVM, logical volume vg-d", ""},
		"read-only":      {func(_ *Node, d *Disk) { d.Set(ReadOnly) }, "none", path, "", "read-only", "nothing"},
		"broken":         {func(_ *Node, d *Disk) { d.Set(Broken) }, "none", path, "", "", "input/output error"},
		"a slot of QEMU": {nil, "qemu", "by-id/ata-QEMU_HARDDISK_QM00001", "", "", "nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			n, _ := newNode(t)
			d := NewDisk("d", row.kind, 1, 128*mib)
			n.Plug(1, d)
			if row.facts != nil {
				row.facts(n, d)
			}
			p := n.Process("p")
			at := p.At("/dev/disk/" + row.link)
			if at.Err != nil || at.Identity != row.id {
				t.Fatalf("%+v, want the ID %q", at, row.id)
			}
			on, err := p.Probe(t.Context(), at, disk.Zero)
			got := on.String()
			if err != nil {
				got = err.Error()
			}
			if !strings.HasSuffix(got, row.on) {
				t.Errorf("found %q (%v), want %q", got, err, row.on)
			}
			x, err := p.Open(at)
			if err == nil {
				x.Close()
			}
			if (err == nil) != (row.use == "") || err != nil && !strings.Contains(err.Error(), row.use) {
				t.Errorf("opened: %v, want %q", err, row.use)
			}
		})
	}
}

// A wipe takes time, and ends with its process: what it did not reach by then stays.
func TestWipeTakesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, lost := newNode(t)
		d := NewDisk("d", "naa", 1, 128*mib)
		n.Plug(1, d)
		n.Mark(one, Mark{0, "begin", "a"})
		n.Mark(one, Mark{120 * mib, "end", "b"})
		p := n.Process("p")
		all, err := p.List("/dev/disk/by-id", every)
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v %v", all, err)
		}
		began := time.Now()
		time.AfterFunc(2*time.Second, p.Kill)
		x, err := p.Open(all[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Wipe(t.Context(), disk.Zero, func(disk.Progress) {}); err == nil || time.Since(began) > 3*time.Second {
			t.Errorf("wiped after %s: %v", time.Since(began), err)
		}
		p = n.Process("q")
		if x, err = p.Open(all[0]); err != nil {
			t.Fatal(err)
		}
		if err := x.Wipe(context.Background(), disk.Zero, func(disk.Progress) {}); err != nil {
			t.Error(err)
		}
		if got, want := fmt.Sprint(*lost), "[a of d by p b of d by q]"; got != want || len(d.Marks()) > 0 {
			t.Errorf("lost %s, want %s; left %v", got, want, d.Marks())
		}
	})
}

// After a boot the numbers are others, and nobody has anything open. A path is where the disk is.
func TestBoot(t *testing.T) {
	n, _ := newNode(t)
	a, b := NewDisk("a", "naa", 1, 8*mib), NewDisk("b", "naa", 2, 8*mib)
	n.Plug(1, a)
	n.Plug(2, b)
	n.Mount(one)
	p := n.Process("p")
	before := p.At("/dev/sda")
	old, err := p.Open(p.At("/dev/sdb"))
	if err != nil {
		t.Fatal(err)
	}
	n.Boot([]int{2, 1})
	now := n.Process("q").At("/dev/sda")
	if n.Place("/dev/sda").Disk != b || now.Number != before.Number || now.Attachment == before.Attachment {
		t.Errorf("%+v before the boot, and %+v after it", before, now)
	}
	if err := old.Wipe(t.Context(), disk.Zero, func(disk.Progress) {}); err == nil || p.At("/dev/sda").Err == nil {
		t.Error("a process wipes a disk after the boot that ended it")
	}
	woken := 0
	w, err := n.Process("q").Watch("/dev/disk/by-id", every, func() { woken++ })
	if err != nil {
		t.Fatal(err)
	}
	n.Unplug(2)
	n.Plug(2, NewDisk("c", "naa", 3, 8*mib))
	n.Loop(one, true)
	if w.Close(); woken != 2 || !n.Held(a) {
		t.Errorf("woken %d times, want 2", woken)
	}
	if n.Unplug(2); n.Unplug(1) && n.Place("/dev/loop0").Disk != nil {
		t.Error("a loop device has no disk")
	}
	if _, err := n.Process("q").List("/dev/disk/by-id", every); err == nil {
		t.Error("udev's directory is there without a link in it")
	}
}

// Whether a disk that other nodes reach is used, by whatever path.
func TestIdle(t *testing.T) {
	joined := func(n *Node, d *Disk) { n.Host("multipath", true); n.Plug(2, d) }
	for name, row := range map[string]struct {
		facts func(n *Node, d *Disk)
		want  string
	}{
		"one path":               {nil, "true "},
		"two paths":              {func(n *Node, d *Disk) { n.Plug(2, d) }, "true "},
		"multipath":              {joined, "true "},
		"no disk":                {func(n *Node, _ *Disk) { n.Unplug(1) }, "false "},
		"mounted":                {func(n *Node, _ *Disk) { n.Mount(one) }, "true in use"},
		"mounted by another one": {func(n *Node, d *Disk) { n.Plug(2, d); n.Mount(Slot(2, 0)) }, "true in use"},
		"multipath is mounted":   {func(n *Node, d *Disk) { joined(n, d); n.Mount(one) }, "true in use"},
		"a partition is mounted": {func(n *Node, _ *Disk) { n.Partition(one, 2, "a"); n.Mount(Slot(1, 2)) }, "true in use"},
		"kpartx":                 {func(n *Node, d *Disk) { joined(n, d); n.Partition(one, 2, "a") }, "true "},
		"a pod":                  {func(n *Node, _ *Disk) { n.Loop(one, true) }, "true in use"},
		"a logical volume": {func(n *Node, d *Disk) {
			n.Host("lvm", true)
			joined(n, d)
			n.Mark(one, LVM("a"))
		}, "true held by"},
	} {
		n, _ := newNode(t)
		d := NewDisk("d", "naa", 1, 128*mib)
		n.Plug(1, d)
		if row.facts != nil {
			row.facts(n, d)
		}
		found, err := n.Process("p").Idle(naa)
		got := fmt.Sprint(found, " ")
		if err != nil {
			got += strings.Join(strings.Fields(err.Error())[2:4], " ")
		}
		if strings.TrimSuffix(got, ":") != row.want {
			t.Errorf("%s: %s (%v), want %s", name, got, err, row.want)
		}
	}
}

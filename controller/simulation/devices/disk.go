package devices

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Disk is a medium. Several nodes may reach one, and a node by several paths.
type Disk struct {
	Name  string
	Bytes int64
	// Rate is how many bytes the disk writes or reads in a second.
	Rate int64
	kind kind
	n    int

	mu    sync.Mutex // guards the rest; never held while anything waits
	marks []Mark
	table []int64 // sizes of partitions
	state State
	free  chan struct{} // closed when the disk does not hang any more
}

// State is how a disk answers.
type State int

// The states of disks.
const (
	Well     State = iota
	ReadOnly       // for the kernel, too
	Broken         // every read and write is an error
	Hanging        // reads and writes do not return
)

// Mark is bytes that were written. All others are zero.
type Mark struct {
	At    int64
	Bytes string
	Owner string // for the account of writes
}

// kind is what a disk reports: attributes in sysfs, and the link in /dev/disk/by-id. In both %d is a
// number of the disk, and %[2]d one of its slot.
type kind struct {
	attributes map[string]string
	link       string
}

// kinds are the IDs that a disk can have.
var kinds = map[string]kind{
	"none":   {},
	"naa":    {map[string]string{"device/wwid": "naa.5000c500a1b2c3%02[1]x"}, "wwn-0x5000c500a1b2c3%02[1]x"},
	"eui":    {map[string]string{"wwid": "eui.0025385a01b2c3%02[1]x", "device/serial": "S4EV%[1]d"}, "nvme-eui.0025385a01b2c3%02[1]x"},
	"nguid":  {map[string]string{"wwid": "eui.%032[1]x"}, "nvme-eui.%032[1]x"},
	"uuid":   {map[string]string{"wwid": "uuid.6f0d2a34-0000-4000-8000-%012[1]x"}, "nvme-uuid.6f0d2a34-0000-4000-8000-%012[1]x"},
	"serial": {map[string]string{"device/vpd_pg80": "\x00\x80\x00\x09serial-%02[1]d"}, "scsi-0QEMU_QEMU_HARDDISK_serial-%02[1]d"},
	"virtio": {map[string]string{"serial": "virtual-%02[1]d"}, "virtio-virtual-%02[1]d"},
	// These name the slot, and not the disk.
	"qemu":     {map[string]string{"device/wwid": "t10.ATA     QEMU HARDDISK                           QM%05[2]d"}, "ata-QEMU_HARDDISK_QM%05[2]d"},
	"qemu-eui": {map[string]string{"wwid": "eui.5254000000%06[2]x"}, "nvme-eui.5254000000%06[2]x"},
	"vmware":   {map[string]string{"serial": "VMware NVME_%04[2]d"}, "nvme-VMware_Virtual_NVMe_Disk_VMware_NVME_%04[2]d"},
}

// NewDisk returns an empty disk with an ID of that kind, and that number in it.
func NewDisk(name, id string, n int, bytes int64) *Disk {
	return &Disk{Name: name, Bytes: bytes, Rate: 8 << 20, kind: kinds[id], n: n}
}

// reported fills in the numbers of the disk and of its slot.
func (d *Disk) reported(format string, slot int) string {
	if !strings.Contains(format, "%") {
		return format
	}
	return fmt.Sprintf(format, d.n, slot)
}

// OfSlot reports whether the disk's ID is that of its slot.
func (d *Disk) OfSlot() bool { return strings.Contains(d.kind.link, "[2]") }

// Set changes how the disk answers.
func (d *Disk) Set(s State) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state == Hanging && s != Hanging {
		close(d.free)
	} else if s == Hanging && d.state != Hanging {
		d.free = make(chan struct{})
	}
	d.state = s
}

// Is reports whether the disk answers so.
func (d *Disk) Is(s State) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state == s
}

// wait takes the time of a read or write of so many bytes, for ever while the disk hangs.
func (d *Disk) wait(bytes int64) {
	d.mu.Lock()
	free, hangs := d.free, d.state == Hanging
	d.mu.Unlock()
	if hangs {
		<-free
	}
	if bytes >= 1<<20 { // many small reads take no time: each would be a timer
		time.Sleep(time.Duration(bytes) * time.Second / time.Duration(d.Rate))
	}
}

// Marks returns what lies on the disk.
func (d *Disk) Marks() []Mark {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.marks)
}

// put writes a mark, and returns what was there.
func (d *Disk) put(m Mark) (lost []Mark) {
	lost = d.erase(m.At, int64(len(m.Bytes)))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.marks = append(d.marks, m)
	return lost
}

// erase writes zeros, and returns the marks of which that was a part.
func (d *Disk) erase(from, bytes int64) (lost []Mark) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.marks = slices.DeleteFunc(d.marks, func(m Mark) bool {
		gone := m.At < from+bytes && from < m.At+int64(len(m.Bytes))
		if gone {
			lost = append(lost, m)
		}
		return gone
	})
	return lost
}

// read fills data with what lies at an offset.
func (d *Disk) read(data []byte, from int64) {
	clear(data)
	for _, m := range d.Marks() {
		if at := m.At - from; at < int64(len(data)) && at+int64(len(m.Bytes)) > 0 {
			copy(data[max(0, at):], m.Bytes[max(0, -at):])
		}
	}
}

// has reports whether bytes lie at an offset.
func (d *Disk) has(at int64, bytes string) bool {
	data := make([]byte, len(bytes))
	d.read(data, at)
	return string(data) == bytes
}

const (
	tableAt, tableMagic = 512, "EFI PART"
	lvmAt, lvmMagic     = 1536, "LABELONE\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x20\x00\x00\x00LVM2 001"
	// firstPartition is where the first partition begins.
	firstPartition = 1 << 20
)

// partitions returns the sizes of the partitions, none if there is no table.
func (d *Disk) partitions() []int64 {
	if !d.has(tableAt, tableMagic) {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.table
}

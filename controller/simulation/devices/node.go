package devices

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"kubevirt.io/hostpath-provisioner/volume/disk"
)

// Node is a machine. What is attached to it stays over a boot; numbers, sequences, mounts and open
// files do not.
type Node struct {
	Name  string
	wrote func(Write)
	root  string

	mu        sync.Mutex // guards the rest; never held while anything waits
	boots     int
	programs  map[string]bool // see Host
	sequence  uint64
	slots     []slot
	named     map[*Disk]string // links that an administrator gave
	blocks    []*block
	files     map[string]string // below root, with their content; see sync
	watchers  map[*watcher]bool
	processes []*Process
}

// Write is a change to what lies on a disk.
type Write struct {
	Node, Who, Device string
	Disk              *Disk
	From, Bytes       int64
	What              string // zero, discard, or the owner of a mark
	Lost              []Mark // that were written over
}

// slot is a path to a disk.
type slot struct {
	n    int
	disk *Disk
}

// block is a block device, as long as it is attached.
type block struct {
	name        string
	number      disk.Number
	sequence    uint64
	disk        *Disk
	slot        int
	from, bytes int64
	part        int
	of          *block   // the disk of a partition
	over        []*block // what a device of device mapper is made of
	dm, uuid    string   // its name and UUID
	backing     *block   // of a loop device
	holder      any      // that has it open exclusively; nil if nothing has
	gone        bool
}

// NewNode returns a node without disks that has booted. Its files are below root. wrote is called
// after each write, and must not call the node.
func NewNode(name, root string, wrote func(Write)) *Node {
	must(os.MkdirAll(root, 0o755))
	root, err := filepath.EvalSymlinks(root)
	must(err)
	n := &Node{Name: name, root: root, wrote: wrote, files: map[string]string{},
		programs: map[string]bool{}, named: map[*Disk]string{}, watchers: map[*watcher]bool{}}
	n.Boot(nil)
	return n
}

// change carries out a change of the node, and what udev makes of it.
func (n *Node) change(do func() bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	done := do()
	n.derive()
	n.sync()
	return done
}

// Host turns a program of the host on or off: multipath joins the paths to a disk with a WWN; lvm
// maps the logical volumes that lie on a disk.
func (n *Node) Host(program string, on bool) {
	n.change(func() bool { n.programs[program] = on; return true })
}

// Boot ends all processes and mounts, and finds the disks in that order of slots; nil is their own.
func (n *Node) Boot(order []int) {
	n.change(func() bool {
		for _, p := range n.processes {
			p.dead = true
		}
		for _, b := range n.blocks {
			b.gone = true
		}
		n.processes, n.blocks, n.sequence = nil, nil, 0
		n.boots++
		for _, s := range slices.SortedStableFunc(slices.Values(n.slots), func(a, b slot) int {
			return cmp.Compare(slices.Index(order, a.n), slices.Index(order, b.n))
		}) {
			n.attach(s)
		}
		return true
	})
}

// Plug attaches a disk. It returns false if the slot is taken.
func (n *Node) Plug(at int, d *Disk) bool {
	return n.change(func() bool {
		if slices.ContainsFunc(n.slots, func(s slot) bool { return s.n == at }) {
			return false
		}
		n.slots = append(n.slots, slot{at, d})
		n.attach(slot{at, d})
		return true
	})
}

// Unplug takes the disk of a slot away with all that is made of it alone.
func (n *Node) Unplug(at int) bool {
	return n.change(func() bool {
		before := len(n.slots)
		n.slots = slices.DeleteFunc(n.slots, func(s slot) bool { return s.n == at })
		for _, b := range n.blocks {
			b.gone = b.gone || b.slot == at
		}
		return len(n.slots) < before
	})
}

// Rename gives the disk another link in /dev/disk/by-id, as another rule of udev does; "" is its own.
func (n *Node) Rename(d *Disk, link string) {
	n.change(func() bool { n.named[d] = link; return true })
}

// Slot returns the path of the disk in a slot, or of a partition of it: the kernel's device, not one
// that is made of it.
func Slot(at, part int) string {
	path := fmt.Sprintf("/dev/disk/by-path/pci-0000:00:1f.2-ata-%d", at)
	if part > 0 {
		path += fmt.Sprintf("-part%d", part)
	}
	return path
}

// Partition writes a partition table with so many partitions of one size. It returns false if the
// device is in use, or has a table: another one would destroy what is on the partitions.
func (n *Node) Partition(path string, parts int, owner string) bool {
	return n.with(path, func(b *block) bool {
		if !n.mayHold(b) || parts < 1 {
			return false
		}
		b.disk.mu.Lock()
		had := len(b.disk.table) > 0
		if !had {
			b.disk.table = slices.Repeat([]int64{(b.disk.Bytes/int64(parts) - firstPartition) &^ (1<<20 - 1)}, parts)
		}
		b.disk.mu.Unlock()
		if had {
			return false
		}
		n.write(b, Mark{tableAt, tableMagic, owner})
		return true
	})
}

// Mark writes a mark at an offset of a device. It returns false while a process has the
// device exclusively.
func (n *Node) Mark(path string, m Mark) bool {
	return n.with(path, func(b *block) bool {
		_, held := b.holder.(*file)
		if !held {
			n.write(b, m)
		}
		return !held
	})
}

func (n *Node) write(b *block, m Mark) {
	m.At += b.from
	n.wrote(Write{n.Name, m.Owner, b.name, b.disk, m.At, int64(len(m.Bytes)), m.Owner, b.disk.put(m)})
}

// Filesystem is the mark of an ext4, and LVM that of a physical volume.
func Filesystem(owner string) Mark { return Mark{1080, "\x53\xef" + owner, owner} }

// LVM is the mark of a physical volume with one logical volume.
func LVM(owner string) Mark { return Mark{lvmAt, lvmMagic, owner} }

// Mount mounts a device on the host: a process does not see that. It returns false if the device is
// in use.
func (n *Node) Mount(path string) bool {
	return n.with(path, func(b *block) bool {
		may := n.mayHold(b)
		if may {
			b.holder = "host"
		}
		return may
	})
}

// Unmount ends the mounts of a device and of its partitions.
func (n *Node) Unmount(path string) bool {
	return n.with(path, func(b *block) (any bool) {
		for _, o := range n.blocks {
			if (o == b || o.of == b) && o.holder == "host" {
				o.holder, any = nil, true
			}
		}
		return any
	})
}

// Loop attaches a loop device to a device, as the kubelet does for a pod that uses it as a block
// device; with false it detaches that.
func (n *Node) Loop(path string, on bool) bool {
	return n.with(path, func(b *block) bool {
		i := slices.IndexFunc(n.blocks, func(o *block) bool { return o.backing == b })
		if i >= 0 {
			n.blocks[i].gone = !on
		} else if on {
			n.add(&block{disk: b.disk, from: b.from, bytes: b.bytes, slot: b.slot, backing: b}, "loop", 7)
		}
		return i >= 0 != on
	})
}

// with changes the device that a path leads to, or the multipath device of which that is a path. It
// returns false if there is none.
func (n *Node) with(path string, do func(*block) bool) bool {
	b := n.resolve(path)
	return b != nil && n.change(func() bool {
		if up, is := b.holder.(*block); is && up.multipath() {
			b = up
		}
		return do(b)
	})
}

// Attached returns the slots in use with their disks.
func (n *Node) Attached() map[int]*Disk {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := map[int]*Disk{}
	for _, s := range n.slots {
		all[s.n] = s.disk
	}
	return all
}

package devices

import (
	"fmt"
	"slices"
)

// Place is where a path leads: a part of the disk in a slot.
type Place struct {
	Disk        *Disk // nil if the path leads nowhere
	Slot, Part  int
	Stacked     bool // it leads through device mapper
	From, Bytes int64
}

// Overlaps reports whether both places have a byte in common.
func (p Place) Overlaps(o Place) bool {
	return p.Disk != nil && p.Disk == o.Disk && p.From < o.From+o.Bytes && o.From < p.From+p.Bytes
}

// Place returns where a path leads now.
func (n *Node) Place(path string) Place {
	b := n.resolve(path)
	if b == nil {
		return Place{}
	}
	return Place{b.disk, b.slot, b.part, b.dm != "", b.from, b.bytes}
}

// Held reports whether something but a process has the disk open, at any of its paths.
func (n *Node) Held(d *Disk) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(n.blocks, func(b *block) bool {
		return b.disk == d && (b.holder == "host" || b.backing != nil)
	})
}

// mayHold reports whether a device may be opened exclusively: nothing has it, its disk, or a
// partition of it.
func (n *Node) mayHold(b *block) bool {
	return b.holder == nil && (b.of == nil || b.of.holder == nil) &&
		!slices.ContainsFunc(n.blocks, func(p *block) bool { return p.of == b && p.holder != nil })
}

// Boots is how often the node booted.
func (n *Node) Boots() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.boots
}

// Paths returns the links to the disk in a slot, and the kernel's name of it.
func (n *Node) Paths(at int) (all []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, b := range n.blocks {
		if b.slot == at && b.part == 0 {
			all = append(append(all, n.links(b)...), "/dev/"+b.name)
		}
	}
	return all
}

func (n *Node) bootID() string { return fmt.Sprintf("%s-boot-%d", n.Name, n.boots) }

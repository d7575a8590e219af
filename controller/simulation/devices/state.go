package devices

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"kubevirt.io/hostpath-provisioner/volume/disk"
)

// attach makes the device of a disk.
func (n *Node) attach(s slot) {
	prefix, major := "sd", uint32(8)
	if _, nvme := s.disk.kind.attributes["wwid"]; nvme {
		prefix, major = "nvme", 259
	} else if _, virtual := s.disk.kind.attributes["serial"]; virtual {
		prefix, major = "vd", 252
	}
	n.add(&block{disk: s.disk, bytes: s.disk.Bytes, slot: s.n}, prefix, major)
}

// add gives a device the first name and number that are free.
func (n *Node) add(b *block, prefix string, major uint32) {
	for i := 0; ; i++ {
		b.name = prefix + strconv.Itoa(i)
		switch prefix {
		case "sd", "vd":
			b.name = prefix + string(rune('a'+i))
		case "nvme":
			b.name += "n1"
		}
		if !slices.ContainsFunc(n.blocks, func(o *block) bool { return o.name == b.name && !o.gone }) {
			b.number = disk.Number{Major: major, Minor: uint32(16 * i)}
			break
		}
	}
	n.sequence++
	b.sequence = n.sequence
	n.blocks = append(n.blocks, b)
}

// derive makes what kernel and udev make by themselves. A device goes with what it is made of, and a
// partition with its table.
func (n *Node) derive() {
	lost := func(b *block) bool {
		b.over = slices.DeleteFunc(b.over, func(o *block) bool { return o.gone })
		return b.of != nil && (b.of.gone || b.part > len(b.disk.partitions()) && b.holder == nil) ||
			b.dm != "" && len(b.over) == 0 || b.backing != nil && b.backing.gone
	}
	for again := true; again; {
		again = false
		for _, b := range n.blocks {
			if !b.gone && lost(b) {
				b.gone, again = true, true
			}
		}
	}
	for _, b := range n.blocks {
		if up, is := b.holder.(*block); is && up.gone {
			b.holder = nil
		}
	}
	n.blocks = slices.DeleteFunc(n.blocks, func(b *block) bool { return b.gone })
	if n.programs["multipath"] {
		n.joinPaths()
	}
	for _, b := range slices.Clone(n.blocks) {
		n.readPartitions(b)
	}
	for _, b := range slices.Clone(n.blocks) {
		if n.programs["lvm"] && b.disk.has(b.from+lvmAt, lvmMagic) && n.mayHold(b) && b.backing == nil {
			n.stack("vg-"+b.disk.Name, "LVM-"+b.disk.Name, 4<<20, b.bytes-8<<20, 0, b)
		}
	}
}

// joinPaths puts the paths to a disk with a WWN together.
func (n *Node) joinPaths() {
	for _, b := range slices.Clone(n.blocks) {
		naa, has := strings.CutPrefix(b.disk.kind.attributes["device/wwid"], "naa.")
		if !has || b.part > 0 || b.dm != "" || b.backing != nil || !n.mayHold(b) {
			continue
		}
		uuid := "mpath-3" + b.disk.reported(naa, b.slot)
		if i := slices.IndexFunc(n.blocks, func(o *block) bool { return o.uuid == uuid }); i >= 0 {
			n.blocks[i].over, b.holder = append(n.blocks[i].over, b), n.blocks[i]
			continue
		}
		n.stack("mpath-"+b.disk.Name, uuid, 0, b.bytes, 0, b)
	}
}

// stack makes a device of device mapper over a part of another.
func (n *Node) stack(name, uuid string, from, bytes int64, part int, over *block) {
	dm := &block{disk: over.disk, slot: over.slot, from: over.from + from, bytes: bytes, part: part,
		dm: name, uuid: uuid, over: []*block{over}}
	n.add(dm, "dm-", 253)
	over.holder = dm
}

// readPartitions makes the partitions of a disk: kernel devices, or kpartx's on a multipath disk.
func (n *Node) readPartitions(b *block) {
	mapped := b.multipath()
	if b.part > 0 || b.backing != nil || b.dm != "" && !mapped {
		return
	}
	if up, is := b.holder.(*block); is && up.multipath() {
		return // multipath deletes the partitions of its paths
	}
	from := int64(firstPartition)
	for i, bytes := range b.disk.partitions() {
		part := i + 1
		name := disk.PartitionName(b.name, part)
		known := slices.ContainsFunc(n.blocks, func(o *block) bool {
			return o.name == name || mapped && o.part == part && slices.Contains(o.over, b)
		})
		switch {
		case known:
		case mapped:
			n.stack(b.dm+strconv.Itoa(part), fmt.Sprintf("part%d-%s", part, b.uuid), from, bytes, part, b)
		default:
			number := disk.Number{Major: b.number.Major, Minor: b.number.Minor + uint32(part)}
			n.blocks = append(n.blocks, &block{name: name, number: number, sequence: b.sequence, disk: b.disk, slot: b.slot,
				from: from, bytes: bytes, part: part, of: b})
		}
		from += bytes
	}
}

func (b *block) multipath() bool { return strings.HasPrefix(b.uuid, "mpath-") }

// links returns the links in /dev/disk to a device.
func (n *Node) links(b *block) (all []string) {
	suffix := ""
	if b.part > 0 {
		suffix = "-part" + strconv.Itoa(b.part)
	}
	byID := n.named[b.disk]
	if byID == "" {
		byID = b.disk.reported(b.disk.kind.link, b.slot)
	}
	switch {
	case b.backing != nil:
		return nil
	case b.dm != "":
		all = append(all, "by-id/dm-name-"+b.dm, "by-id/dm-uuid-"+b.uuid)
		if strings.HasPrefix(b.uuid, "LVM-") {
			return all
		}
	default:
		all = append(all, fmt.Sprintf("by-path/pci-0000:00:1f.2-ata-%d%s", b.slot, suffix))
	}
	if byID != "" {
		all = append(all, "by-id/"+byID+suffix)
	}
	return all
}

// attributes returns the files of a device in sysfs.
func (n *Node) attributes(b *block) map[string]string {
	all := map[string]string{"dev": b.number.String(), "size": strconv.FormatInt(b.bytes/512, 10)}
	switch {
	case b.dm != "":
		maps.Copy(all, map[string]string{"dm/name": b.dm, "dm/uuid": b.uuid})
	case b.backing != nil:
		all["loop/backing_file"] = "/dev/" + b.backing.name
	case b.part > 0:
		all["partition"], all["start"] = strconv.Itoa(b.part), strconv.FormatInt(b.from/512, 10)
		return all
	default:
		for name, value := range b.disk.kind.attributes {
			all[name] = b.disk.reported(value, b.slot)
		}
	}
	all["removable"] = "0"
	return all
}

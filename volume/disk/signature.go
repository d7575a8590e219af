package disk

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
)

// Kind is what sort of data a signature belongs to.
type Kind string

// The kinds of signatures.
const (
	Filesystem     Kind = "filesystem"
	PartitionTable Kind = "partition table"
	Member         Kind = "member" // of LVM, md, or another volume manager
	Unknown        Kind = "data"   // data without a known signature
)

// Signature is what a device carries. The zero value is a device on which nothing was found.
type Signature struct {
	Kind   Kind
	Name   string // such as ext4
	Offset int64  // of the bytes that were recognized
}

// Found reports whether the device carries anything.
func (s Signature) Found() bool { return s.Kind != "" }

func (s Signature) String() string {
	switch s.Kind {
	case "":
		return "nothing"
	case Unknown:
		return fmt.Sprintf("data without a known signature at byte %d", s.Offset)
	case Member:
		return s.Name
	}
	return s.Name + " " + string(s.Kind)
}

// probeBytes is how much is read at each place where signatures are.
const probeBytes = mebibyte

// Signature reads the places where filesystems, partition tables, LVM, md and Ceph have their
// metadata, and samples of what else the mode would wipe. If it knows none of what it finds there,
// but finds anything, that is Unknown data. A mark of proveOne is nothing.
func (x *Exclusive) Signature(ctx context.Context, mode Mode) (Signature, error) {
	return x.signature(ctx, around(x.device.Bytes, probeBytes), mode.sampled(x.device.Bytes))
}

// signature reads the places, and samples until it finds anything.
func (x *Exclusive) signature(ctx context.Context, places, samples []span) (Signature, error) {
	var known, unknown Signature
	note := func(r span, data []byte) {
		if at := notZero(data); at >= 0 && !unknown.Found() {
			unknown = Signature{Unknown, "unknown", r.from + int64(at)}
		}
	}
	for _, r := range places {
		err := x.readUnmarked(ctx, r, func(data []byte) error {
			known = window{data, r.from, x.device.Bytes}.signature()
			note(r, data)
			return nil
		})
		if err != nil || known.Found() {
			return known, err
		}
	}
	for _, r := range samples {
		if unknown.Found() {
			break
		}
		if err := x.readUnmarked(ctx, r, func(data []byte) error { note(r, data); return nil }); err != nil {
			return Signature{}, err
		}
	}
	return unknown, nil
}

// Remains reads every byte that the mode quick would wipe, and returns the first that is not zero
// as Unknown data. It finds what Signature does not, such as the filesystem of a partition whose
// table was overwritten.
func (x *Exclusive) Remains(ctx context.Context) (Signature, error) {
	for _, r := range chunks(Quick.spans(x.device.Bytes), bufferBytes) {
		if err := context.Cause(ctx); err != nil {
			return Signature{}, err
		}
		at := -1
		if err := x.readUnmarked(ctx, r, func(data []byte) error { at = notZero(data); return nil }); err != nil {
			return Signature{}, err
		}
		if at >= 0 {
			return Signature{Unknown, "unknown", r.from + int64(at)}, nil
		}
	}
	return Signature{}, nil
}

// window is a piece of a device that begins at an offset of it.
type window struct {
	data []byte
	from int64
	size int64 // of the device
}

// at returns n bytes at an offset of the device, nil if the window does not have them.
func (w window) at(offset int64, n int) []byte {
	if i := offset - w.from; i >= 0 && i+int64(n) <= int64(len(w.data)) {
		return w.data[i : i+int64(n)]
	}
	return nil
}

func (w window) has(offset int64, magic string) bool {
	b := w.at(offset, len(magic))
	return b != nil && string(b) == magic
}

// signature finds what a reader of the device would find first: members of volume managers and
// partition tables before filesystems.
func (w window) signature() Signature {
	for _, find := range []func() Signature{w.lvm, w.md, w.known, w.zfs, w.gpt, w.mbr} {
		if s := find(); s.Found() {
			return s
		}
	}
	return Signature{}
}

// lvm finds the label of an LVM physical volume, in one of the first four sectors.
func (w window) lvm() Signature {
	for offset := int64(0); offset < 4*512; offset += 512 {
		if w.has(offset, "LABELONE") && w.has(offset+24, "LVM2") {
			return Signature{Member, "LVM physical volume", offset}
		}
	}
	return Signature{}
}

// md finds the superblock of a Linux RAID member. Its place depends on its version: 1.1 and 1.2 at
// the beginning, 0.90 and 1.0 near the end.
func (w window) md() Signature {
	const magic = 0xa92b4efc
	sectors := w.size / 512
	for _, offset := range []int64{0, 4096, (sectors - 16) &^ 7 * 512, w.size&^(64<<10-1) - 64<<10} {
		b := w.at(offset, 4)
		if b != nil && (binary.LittleEndian.Uint32(b) == magic || binary.BigEndian.Uint32(b) == magic) {
			return Signature{Member, "md array member", offset}
		}
	}
	return Signature{}
}

// zfs finds an uberblock, of which each of the four labels has 128, 1 KiB apart at least.
func (w window) zfs() Signature {
	const label, first, magic = 256 << 10, 128 << 10, 0x00bab10c
	end := w.size &^ (label - 1)
	for _, start := range []int64{0, label, end - 2*label, end - label} {
		for offset := start + first; offset < start+label; offset += 1024 {
			b := w.at(offset, 8)
			if b != nil && (binary.LittleEndian.Uint64(b) == magic || binary.BigEndian.Uint64(b) == magic) {
				return Signature{Member, "ZFS member", offset}
			}
		}
	}
	return Signature{}
}

// gpt finds the header of a GUID partition table or its backup, with sectors of 512 or 4096 bytes.
func (w window) gpt() Signature {
	for _, offset := range []int64{512, 4096, w.size - 512, w.size - 4096} {
		if w.has(offset, "EFI PART") {
			return Signature{PartitionTable, "GPT", offset}
		}
	}
	return Signature{}
}

// mbr finds a DOS partition table with a partition. Boot sectors of filesystems have the same last
// bytes, and were found before.
func (w window) mbr() Signature {
	const table, entry = 446, 16
	if !w.has(510, "\x55\xaa") {
		return Signature{}
	}
	for i := range int64(4) {
		if e := w.at(table+i*entry, entry); e != nil && e[4] != 0 && !bytes.Equal(e[8:], make([]byte, 8)) {
			return Signature{PartitionTable, "DOS", 510}
		}
	}
	return Signature{}
}

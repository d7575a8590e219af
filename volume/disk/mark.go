package disk

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"

	"golang.org/x/sys/unix"
)

// Two devices with one ID are one disk by two paths, or two disks: images of virtual disks are
// cloned with their IDs. Before the first byte of such a disk is wiped, both ends are compared by all
// paths, and a mark that is written by one is read by the others. A process that is killed meanwhile
// leaves the mark, so reads take it for zeros.

// markBytes is the size of a mark, and divides its offset.
const markBytes = 4096

// markMagic begins a mark. A random number and the checksum of both follow; the rest is zero.
var markMagic = []byte("hostpath-provisioner disk mark 1")

const nonceBytes = 16

// fillMark makes a mark of a block.
func fillMark(block, nonce []byte) {
	clear(block)
	n := copy(block, markMagic)
	n += copy(block[n:], nonce)
	sum := sha256.Sum256(block[:n])
	copy(block[n:], sum[:])
}

// isMark reports whether a block is a mark, and nothing else.
func isMark(block []byte) bool {
	if !bytes.HasPrefix(block, markMagic) {
		return false
	}
	want := make([]byte, markBytes)
	fillMark(want, block[len(markMagic):len(markMagic)+nonceBytes])
	return bytes.Equal(block, want)
}

// unmark clears the marks in data that was read at an offset.
func unmark(data []byte, from int64) {
	for at := (markBytes - from%markBytes) % markBytes; at+markBytes <= int64(len(data)); at += markBytes {
		if block := data[at : at+markBytes]; isMark(block) {
			clear(block)
		}
	}
}

// readUnmarked is read without marks.
func (x *Exclusive) readUnmarked(ctx context.Context, r span, use func(data []byte) error) error {
	return x.read(ctx, r, func(data []byte) error { unmark(data, r.from); return use(data) })
}

// proveOne returns an error unless the other paths of the device lead to the same disk: they have the
// same size and the same bytes, also those that it writes. A path that cannot be read proves nothing.
// It leaves a mark if all are one disk, and restores what was there if they are not. It does nothing
// if there is no other path.
func (x *Exclusive) proveOne(ctx context.Context) error {
	if len(x.paths) == 0 {
		return nil
	}
	all := []*Exclusive{x}
	for _, n := range x.paths {
		other, err := x.byPath(n)
		if err != nil {
			return x.unproven(n, err)
		}
		defer other.file.Close()
		all = append(all, other)
	}
	for _, r := range []span{{0, min(mebibyte, x.device.Bytes)},
		{max(0, x.device.Bytes-mebibyte) &^ (markBytes - 1), x.device.Bytes}} {
		if err := x.agree(ctx, all, r); err != nil {
			return err
		}
	}
	at, err := x.markPlace(ctx)
	if err != nil {
		return err
	}
	before, err := x.putMark(ctx, at)
	if err == nil {
		err = x.agree(ctx, all, at)
	}
	if err != nil && before != nil {
		// Nothing may have been written; otherwise the mark is what the next probe takes for zeros.
		_ = x.write(ctx, at, func(block []byte) { copy(block, before) })
		_ = x.file.Flush()
	}
	return err
}

// byPath opens the device by another path, to read.
func (x *Exclusive) byPath(n Number) (*Exclusive, error) {
	m := x.machine
	d := Device{Path: m.pathOf(n), Number: n, Bytes: x.device.Bytes}
	file, err := m.openSame(d.Path, unix.O_RDONLY|unix.O_DIRECT, n)
	if err != nil {
		return nil, err
	}
	bytes, err := file.Size()
	if err == nil && bytes != d.Bytes {
		err = fmt.Errorf("it has %d bytes, and the other path %d", bytes, d.Bytes)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return &Exclusive{device: d, machine: m, file: file}, nil
}

// agree returns an error unless all paths read the same bytes.
func (x *Exclusive) agree(ctx context.Context, all []*Exclusive, r span) error {
	var first [sha256.Size]byte
	for i, path := range all {
		var sum [sha256.Size]byte
		if err := path.read(ctx, r, func(data []byte) error { sum = sha256.Sum256(data); return nil }); err != nil {
			return x.unproven(path.device.Number, err)
		}
		if i == 0 {
			first = sum
		} else if sum != first {
			return fmt.Errorf("%s and %s report the same ID %s, and have other bytes at byte %d: they are two disks, such as a "+
				"virtual one and its clone. Neither is wiped: give each an ID of its own",
				x.device.Path, path.device.Path, x.device.ID, r.from)
		}
	}
	return nil
}

func (x *Exclusive) unproven(n Number, err error) error {
	return fmt.Errorf("%s is not wiped: whether its other path %s leads to the same disk is not known: %w. Repair or "+
		"remove that path", x.device.Path, x.machine.pathOf(n), err)
}

// markPlace returns where a mark is written: over a block of zeros near the begin or the end, which
// every mode wipes, or over the first block if there is none.
func (x *Exclusive) markPlace(ctx context.Context) (span, error) {
	size := x.device.Bytes &^ (markBytes - 1)
	place, found := span{0, markBytes}, false
	for _, r := range []span{{0, min(mebibyte, size)}, {max(0, size-mebibyte/2), size}} {
		err := x.readUnmarked(ctx, r, func(data []byte) error {
			for at := int64(0); at+markBytes <= int64(len(data)) && !found; at += markBytes {
				if found = notZero(data[at:at+markBytes]) < 0; found {
					place = span{r.from + at, r.from + at + markBytes}
				}
			}
			return nil
		})
		if found || err != nil {
			return place, err
		}
	}
	if size < markBytes {
		return place, fmt.Errorf("%s has %d bytes: it is too small to find out whether its paths lead to one disk",
			x.device.Path, size)
	}
	return place, nil
}

// putMark writes a mark, and returns what it replaced.
func (x *Exclusive) putMark(ctx context.Context, at span) (before []byte, err error) {
	if err := x.read(ctx, at, func(data []byte) error { before = bytes.Clone(data); return nil }); err != nil {
		return nil, err
	}
	unmark(before, at.from)
	nonce := make([]byte, nonceBytes)
	rand.Read(nonce) // never fails
	if err := x.write(ctx, at, func(block []byte) { fillMark(block, nonce) }); err != nil {
		return before, err
	}
	return before, x.file.Flush()
}

// write writes a range of at most bufferBytes, which fill makes. While a disk hangs, it does not
// return.
func (x *Exclusive) write(ctx context.Context, r span, fill func(data []byte)) error {
	return x.borrow(ctx, func(b buffer) error {
		data := b[:r.to-r.from]
		fill(data)
		n, err := x.file.WriteAt(data, r.from)
		if err == nil && n < len(data) {
			err = fmt.Errorf("%d of %d bytes", n, len(data))
		}
		if err != nil {
			return fmt.Errorf("write a mark to %s at byte %d: %w", x.device.Path, r.from, err)
		}
		return nil
	})
}

package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/diskid"
)

// Stack is everything that is a device, wholly or in part. What asks whether a device is in use, has
// a PV, or is reached by another node asks its Stack: a disk has more than one name.
//
// It has the other paths to the device and what lies above and below, at any depth, and nothing that
// lies beside: two partitions of one disk are two, and so are two logical volumes.
type Stack struct {
	// Paths are the devices that are the same bytes: other paths to the disk, the device of
	// dm-multipath that joins them, or the partitions of that number on them.
	Paths []Layer
	// Below are the devices that the device lies on, with their other paths: the disk of a
	// partition, the members of a device of device mapper or md, the device behind a loop device. A
	// loop device over a file lies on nothing.
	Below []Layer
	// Above are the devices that lie on the device: partitions, devices of device mapper or md, and
	// loop devices.
	Above []Layer
	// Err is why the Stack may lack a device, or nil. Nothing is written to such a device.
	Err error

	loops []Number // that lie on it or on what lies below
}

// Layer is a device of a Stack.
type Layer struct {
	Number Number
	// Identity is the ID of the device, "" if it has none.
	Identity string
}

// Has reports whether the device with the number is in the Stack.
func (s Stack) Has(n Number) bool {
	is := func(l Layer) bool { return l.Number == n }
	return slices.ContainsFunc(s.Paths, is) || slices.ContainsFunc(s.Below, is) || slices.ContainsFunc(s.Above, is)
}

// under reports whether the device with the number is another path, or lies below.
func (s Stack) under(n Number) bool {
	is := func(l Layer) bool { return l.Number == n }
	return slices.ContainsFunc(s.Paths, is) || slices.ContainsFunc(s.Below, is)
}

// Shares reports whether the device has a byte of the disk or partition with the ID.
func (d Device) Shares(id diskid.ID) bool {
	own := diskid.Parse(d.Identity)
	if !id.Known() || id.Within(own) || own.Within(id) {
		return id.Known()
	}
	return slices.ContainsFunc(d.Stack.Below, func(l Layer) bool { return diskid.Parse(l.Identity) == id }) ||
		slices.ContainsFunc(d.Stack.Above, func(l Layer) bool { return id.Within(diskid.Parse(l.Identity)) })
}

// Shared returns the IDs by which other nodes know the device, or a disk that it lies on.
func (d Device) Shared() (all []string) {
	for _, l := range slices.Concat([]Layer{{d.Number, d.Identity}}, d.Stack.Paths, d.Stack.Below) {
		if id := diskid.Parse(l.Identity).Shared(); id != "" {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// UnknownMultipath reports whether the device is a disk of dm-multipath that other nodes reach by an
// ID that cannot be compared, or lies on one.
func (d Device) UnknownMultipath() bool {
	return slices.ContainsFunc(slices.Concat([]Layer{{d.Number, d.Identity}}, d.Stack.Paths, d.Stack.Below),
		func(l Layer) bool {
			return diskid.Parse(l.Identity).UnknownMultipath()
		})
}

// stack returns the Stack of a device. The twins count as other paths to it.
func (v *view) stack(n Number, twins ...Number) Stack {
	paths := closure(append([]Number{n}, twins...), v.paths)
	chain := closure(paths, func(n Number) []Number { return slices.Concat(v.down(n), v.paths(n)) })
	below := closure(chain, func(n Number) []Number {
		if slices.Contains(paths, n) {
			return nil // a copy of it lies above
		}
		return v.copies(n)
	})
	above := closure(paths, v.up)
	without := func(all, some []Number) []Number {
		return slices.DeleteFunc(slices.Clone(all), func(n Number) bool { return slices.Contains(some, n) })
	}
	s := Stack{Err: v.err, Paths: v.layers(paths[1:]), Below: v.layers(without(below, paths)),
		Above: v.layers(without(above, paths))}
	for _, one := range slices.Concat(without(above, chain), without(below, chain)) {
		if _, loop := v.backing[one]; loop {
			s.loops = append(s.loops, one)
		}
	}
	return s
}

func (v *view) layers(all []Number) (layers []Layer) {
	for _, n := range all {
		layers = append(layers, Layer{n, v.identity(n).String()})
	}
	return layers
}

// view is the devices of the machine, for as long as a question is answered.
type view struct {
	*Machine
	disks []Number // without partitions
	ids   map[Number]diskid.ID
	// backing has the device behind each loop device that is not over a file.
	backing map[Number]Number
	err     error
}

// view reads the disks of the machine with their IDs, and which loop devices lie on which devices.
func (m *Machine) view() *view {
	v := &view{Machine: m, ids: map[Number]diskid.ID{}, backing: map[Number]Number{}}
	entries, err := os.ReadDir(filepath.Join(m.root, "/sys/block"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		v.err = err
	}
	for _, e := range entries {
		dir := filepath.Join(m.root, "/sys/block", e.Name())
		n, ok := parseNumber(attribute(dir, "dev"))
		if !ok {
			continue // detached meanwhile
		}
		v.disks = append(v.disks, n)
		v.ids[n] = diskid.Parse(recorded(dir, 0))
		if _, err := os.Stat(filepath.Join(dir, "loop")); err == nil {
			v.readLoop(n, "/dev/"+e.Name())
		}
	}
	return v
}

// readLoop reads what a loop device lies on.
func (v *view) readLoop(n Number, path string) {
	backing, err := v.backingOf(path)
	switch {
	case errors.Is(err, unix.ENXIO), errors.Is(err, ErrNotADevice): // detached meanwhile; over a file
	case err != nil:
		v.err = fmt.Errorf("read which device %s is backed by: %w", path, err)
	default:
		v.backing[n] = backing
	}
}

// identity returns the ID of a device, the zero ID if it has none that stays with it.
func (v *view) identity(n Number) diskid.ID {
	part := partition(v.attributes(n))
	if id, known := v.ids[n]; known && part == 0 {
		return id
	}
	return diskid.Parse(recorded(v.disk(n), part))
}

// closure returns the devices to which `next` leads from some, at any distance, after those.
func closure(from []Number, next func(Number) []Number) []Number {
	all := slices.Clone(from)
	for i := 0; i < len(all); i++ {
		for _, n := range next(all[i]) {
			if !slices.Contains(all, n) {
				all = append(all, n)
			}
		}
	}
	return all
}

// down returns what a device lies on.
func (v *view) down(n Number) []Number {
	all := numbers(filepath.Join(v.attributes(n), "slaves"))
	if backing, loop := v.backing[n]; loop {
		all = append(all, backing)
	}
	if disk := v.diskOf(n); disk != n {
		all = append(all, disk)
	}
	return all
}

// up returns what lies on a device.
func (v *view) up(n Number) []Number {
	dir := v.attributes(n)
	all := numbers(filepath.Join(dir, "holders"))
	for _, part := range partitions(dir) {
		if p, ok := parseNumber(attribute(part, "dev")); ok {
			all = append(all, p)
		}
	}
	return append(all, v.over(n)...)
}

// over returns the loop devices over a device.
func (v *view) over(n Number) (all []Number) {
	for _, loop := range v.disks {
		if backing, has := v.backing[loop]; has && backing == n {
			all = append(all, loop)
		}
	}
	return all
}

// copies returns the loop devices over a whole device: they have the bytes of all that lies on it.
func (v *view) copies(n Number) []Number {
	return slices.DeleteFunc(v.over(n), func(loop Number) bool { return v.size(loop) != v.size(n) })
}

// paths returns the other paths to a device.
func (v *view) paths(n Number) (all []Number) {
	if id := v.identity(n); id.Unique() {
		all = v.twins(n, id)
	}
	dir := v.attributes(n)
	for _, holder := range numbers(filepath.Join(dir, "holders")) {
		if multipath(v.attributes(holder)) {
			all = append(all, holder)
		}
	}
	if multipath(dir) {
		all = append(all, numbers(filepath.Join(dir, "slaves"))...)
	}
	return all
}

// multipath reports whether a device is one of dm-multipath: it is the disk to which it joins the
// paths.
func multipath(dir string) bool { return strings.HasPrefix(attribute(dir, "dm/uuid"), "mpath-") }

// numbers returns the devices whose directories are in a directory of the kernel.
func numbers(dir string) (all []Number) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if n, ok := parseNumber(attribute(filepath.Join(dir, e.Name()), "dev")); ok {
			all = append(all, n)
		}
	}
	return all
}

// size returns the size of a device as the kernel shows it, "" if it does not.
func (m *Machine) size(n Number) string { return attribute(m.attributes(n), "size") }

package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Exclusive is a device that nothing else can mount, hold or open exclusively, for one goroutine.
type Exclusive struct {
	device  Device
	machine *Machine
	file    File
	others  []File // of the other paths, and of what it lies on
	paths   []Number
}

// Open opens the device to wipe it. The device must be the one that was listed: the same number,
// the same attachment and the same size, otherwise the error is ErrChanged. The error is ErrBusy if
// anything uses the device, ErrNotADevice if the path leads elsewhere. The caller closes it.
func (m *Machine) Open(d Device) (*Exclusive, error) {
	if d.ReadOnly {
		return nil, fmt.Errorf("%s is read-only", d.Path)
	}
	return m.take(d, unix.O_RDWR)
}

// Probe returns what the device carries that the mode would wipe, the zero Signature if nothing was
// found. It writes nothing, and does not keep others from mounting the device meanwhile: Open does,
// right before the first write. The error is ErrBusy if something visibly uses the device; others
// are those of Open.
func (m *Machine) Probe(ctx context.Context, d Device, mode Mode) (Signature, error) {
	x, err := m.open(d, unix.O_RDONLY)
	if err != nil {
		return Signature{}, err
	}
	defer x.Close()
	if _, err := x.check(); err != nil {
		return Signature{}, err
	}
	return x.Signature(ctx, mode)
}

// Blank returns what a device carries that was wiped by any mode, the zero Signature if nothing was
// found. end is false if the last MiB was not wiped. It reads less than Probe, and like it keeps
// others from nothing. The errors are those of Probe.
func (m *Machine) Blank(ctx context.Context, d Device, end bool) (Signature, error) {
	x, err := m.open(d, unix.O_RDONLY)
	if err != nil {
		return Signature{}, err
	}
	defer x.Close()
	if _, err := x.check(); err != nil {
		return Signature{}, err
	}
	places := around(d.Bytes, probeBytes)
	if !end {
		for i := range places {
			places[i].to = min(places[i].to, max(0, d.Bytes-tailBytes))
		}
		places = slices.DeleteFunc(places, func(s span) bool { return s.from >= s.to })
	}
	return x.signature(ctx, places, nil)
}

// take opens a device exclusively, and locks it. The lock is that of
// https://systemd.io/BLOCK_DEVICE_LOCKING: udev neither probes a device that is being wiped nor
// starts what it finds on it.
func (m *Machine) take(d Device, flags int) (*Exclusive, error) {
	x, err := m.open(d, flags|unix.O_EXCL)
	if errors.Is(err, unix.EBUSY) {
		return nil, m.busy(d)
	} else if err != nil {
		return nil, err
	}
	s, err := x.check()
	if err == nil {
		err = x.hold(s)
	}
	if err == nil {
		err = x.lock()
	}
	if err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

// hold opens the other paths to the device, and to what it lies on, exclusively: a mount keeps only
// the device by which it was made from others. Those that a device of the Stack holds itself, as
// dm-multipath does its paths, the kernel lets nothing else open.
func (x *Exclusive) hold(s Stack) error {
	m, d := x.machine, x.device
	stack := []Number{d.Number}
	for _, l := range s.Paths {
		x.paths = append(x.paths, l.Number)
	}
	for _, l := range slices.Concat(s.Paths, s.Below) {
		stack = append(stack, l.Number)
	}
	for _, n := range stack[1:] {
		if m.claimed(n, stack) {
			continue
		}
		file, err := m.openSame(m.pathOf(n), unix.O_RDONLY|unix.O_EXCL, n)
		if errors.Is(err, unix.EBUSY) {
			return &BusyError{d.Path, fmt.Sprintf("in use: %s is the same disk, and another program, or a mount in another "+
				"container, has it opened exclusively", m.pathOf(n))}
		} else if err != nil {
			return fmt.Errorf("whether %s is in use by its other path: %w", d.Path, err)
		}
		x.others = append(x.others, file)
	}
	return nil
}

// claimed reports whether the exclusive open of another device of the Stack keeps a device of it
// from being opened: it is held by one, or is the disk of one, or its disk is held by one.
func (m *Machine) claimed(n Number, stack []Number) bool {
	disk := m.diskOf(n)
	holders := slices.Concat(numbers(filepath.Join(m.attributes(n), "holders")),
		numbers(filepath.Join(m.attributes(disk), "holders")))
	return slices.ContainsFunc(stack, func(o Number) bool {
		return slices.Contains(holders, o) || o != n && m.diskOf(o) == n
	})
}

// open opens a device without the page cache: what is read back comes from the device.
func (m *Machine) open(d Device, flags int) (*Exclusive, error) {
	if d.Err != nil {
		return nil, d.Err
	}
	if n, err := m.Resolve(d.Path); err != nil {
		return nil, err
	} else if n != d.Number {
		return nil, fmt.Errorf("%s: %w: it is %s now and was %s", d.Path, ErrChanged, n, d.Number)
	}
	file, err := m.openSame(d.Path, flags|unix.O_DIRECT, d.Number)
	if err != nil {
		return nil, err
	}
	return &Exclusive{device: d, machine: m, file: file}, nil
}

// check returns the Stack of the device, and an error if the device is not the one that was listed,
// or if something visibly uses a device of the Stack.
func (x *Exclusive) check() (Stack, error) {
	d := x.device
	bytes, err := x.file.Size()
	switch {
	case err != nil:
		return Stack{}, &os.PathError{Op: "read the size of", Path: d.Path, Err: err}
	case bytes != d.Bytes:
		return Stack{}, fmt.Errorf("%s: %w: it has %d bytes now and had %d", d.Path, ErrChanged, bytes, d.Bytes)
	case x.machine.start(d.Number) != d.Start:
		return Stack{}, fmt.Errorf("%s: %w: the partition begins at byte %d now and began at byte %d", d.Path, ErrChanged,
			x.machine.start(d.Number), d.Start)
	case x.file.Sequence() != d.Sequence:
		return Stack{}, fmt.Errorf("%s: %w: another disk was attached as %s", d.Path, ErrChanged, d.Number)
	}
	s := x.machine.view().stack(d.Number, d.Twins...)
	if text := x.machine.usedBy(d, s); text != "" {
		return s, &BusyError{d.Path, text}
	}
	return s, s.Err
}

func (x *Exclusive) lock() error {
	if err := x.file.Lock(); errors.Is(err, unix.EWOULDBLOCK) {
		return &BusyError{x.device.Path, "in use: another program has locked it"}
	} else if err != nil {
		return &os.PathError{Op: "lock", Path: x.device.Path, Err: err}
	}
	return nil
}

// Close gives the device and its other paths back.
func (x *Exclusive) Close() {
	for _, file := range x.others {
		file.Close()
	}
	x.file.Close()
}

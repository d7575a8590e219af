package device

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Exclusive is a device that nothing else can mount, hold or open exclusively, for one goroutine.
type Exclusive struct {
	device  Device
	machine *Machine
	file    File
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
	if text := m.usedBy(m.attributes(d.Number)); text != "" {
		return Signature{}, &BusyError{d.Path, text}
	}
	if err := x.check(); err != nil {
		return Signature{}, err
	}
	return x.Signature(ctx, mode)
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
	if err := errors.Join(x.check(), x.lock()); err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
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

// check returns an error if the device is not the one that was listed, or if something uses it that
// does not open it exclusively.
func (x *Exclusive) check() error {
	d := x.device
	bytes, err := x.file.Size()
	switch {
	case err != nil:
		return &os.PathError{Op: "read the size of", Path: d.Path, Err: err}
	case bytes != d.Bytes:
		return fmt.Errorf("%s: %w: it has %d bytes now and had %d", d.Path, ErrChanged, bytes, d.Bytes)
	case x.file.Sequence() != d.Sequence:
		return fmt.Errorf("%s: %w: another disk was attached as %s", d.Path, ErrChanged, d.Number)
	}
	if err := x.machine.loop(d); err != nil {
		return err
	}
	return x.machine.otherPathUsed(d)
}

func (x *Exclusive) lock() error {
	if err := x.file.Lock(); errors.Is(err, unix.EWOULDBLOCK) {
		return &BusyError{x.device.Path, "in use: another program has locked it"}
	} else if err != nil {
		return &os.PathError{Op: "lock", Path: x.device.Path, Err: err}
	}
	return nil
}

// Close gives the device back.
func (x *Exclusive) Close() { x.file.Close() }

package disks

import (
	"context"
	"regexp"

	"kubevirt.io/hostpath-provisioner/volume/disk"
)

// Devices is the block devices of a machine. Each method is the function of that name in package
// volume/disk.
type Devices interface {
	List(dir string, names *regexp.Regexp) ([]disk.Device, error)
	At(path string) disk.Device
	Resolve(path string) (disk.Number, error)
	Overlap(a, b disk.Number) bool
	Idle(shared string) (found bool, err error)
	Boot() string
	Probe(ctx context.Context, d disk.Device, mode disk.Mode) (disk.Signature, error)
	Blank(ctx context.Context, d disk.Device, end bool) (disk.Signature, error)
	Open(d disk.Device) (Exclusive, error)
	Watch(dir string, names *regexp.Regexp, wake func()) (Watcher, error)
}

// Exclusive is a device that Devices.Open opened; see disk.Exclusive.
type Exclusive interface {
	Signature(ctx context.Context, mode disk.Mode) (disk.Signature, error)
	Remains(ctx context.Context) (disk.Signature, error)
	Wipe(ctx context.Context, mode disk.Mode, progress func(disk.Progress)) error
	Close()
}

// Watcher notices changes of a directory of devices; see disk.Watcher.
type Watcher interface {
	Watches(dir string, names *regexp.Regexp) bool
	Close()
}

// hostDevices is the Devices of the machine that the process runs on.
type hostDevices struct{}

func (hostDevices) List(dir string, names *regexp.Regexp) ([]disk.Device, error) {
	return disk.List(dir, names)
}

func (hostDevices) At(path string) disk.Device { return disk.At(path) }

func (hostDevices) Resolve(path string) (disk.Number, error) { return disk.Resolve(path) }

func (hostDevices) Overlap(a, b disk.Number) bool { return disk.Overlap(a, b) }

func (hostDevices) Idle(shared string) (bool, error) { return disk.Idle(shared) }

func (hostDevices) Boot() string { return disk.Boot() }

func (hostDevices) Probe(ctx context.Context, d disk.Device, mode disk.Mode) (disk.Signature, error) {
	return disk.Probe(ctx, d, mode)
}

func (hostDevices) Blank(ctx context.Context, d disk.Device, end bool) (disk.Signature, error) {
	return disk.Blank(ctx, d, end)
}

func (hostDevices) Open(d disk.Device) (Exclusive, error) {
	x, err := disk.Open(d)
	if err != nil {
		return nil, err // not an interface with a nil pointer
	}
	return x, nil
}

func (hostDevices) Watch(dir string, names *regexp.Regexp, wake func()) (Watcher, error) {
	w, err := disk.Watch(dir, names, wake)
	if err != nil {
		return nil, err
	}
	return w, nil
}

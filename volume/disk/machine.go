package disk

import (
	"context"
	"regexp"
)

// Machine is a computer with block devices. What it knows of them it reads below a directory, and
// opens them by a Kernel. The functions of the package are the methods of this machine.
type Machine struct {
	root    string // has sys, proc and the directories of devices
	kernel  Kernel
	buffers *pool // of the process: so is the bound of memory
}

// Kernel opens device nodes.
type Kernel interface {
	// Resolve returns the number of the device that the path leads to. The error is ErrNotADevice if
	// the path leads to something else.
	Resolve(path string) (Number, error)
	// Open opens the path with flags of open(2). The error is a unix.Errno.
	Open(path string, flags int) (File, error)
}

// File is an open file. Errors are those of the system calls; a caller adds the path.
type File interface {
	// Number returns ErrNotADevice if the file is something else.
	Number() (Number, error)
	Size() (int64, error)
	// Sequence is the number of the attachment of the device's disk, 0 if the kernel has none.
	Sequence() uint64
	ReadOnly() bool
	// Backing returns the device below a loop device. The error is ErrNotADevice for a file, and
	// ENXIO if the loop device is not attached.
	Backing() (Number, error)
	// Lock keeps udev from probing the device. It returns EWOULDBLOCK if another program has it.
	Lock() error
	ReadAt(data []byte, from int64) (int, error)
	// WriteAt writes whole blocks, for a mark.
	WriteAt(data []byte, from int64) (int, error)
	// Zero has the device write zeros, by itself if it can. The range is in whole blocks.
	Zero(from, bytes int64) error
	// Discard marks the range as unused. It may read as anything afterwards.
	Discard(from, bytes int64) error
	Flush() error
	// Reread makes the kernel forget the partitions of a wiped disk. A device that cannot have any
	// refuses, which changes nothing.
	Reread()
	Close()
}

// NewMachine returns a Machine with the devices of a kernel. Its directories sys and proc, and those
// in which List finds devices, are below root.
func NewMachine(root string, k Kernel) *Machine {
	return &Machine{root: root, kernel: k, buffers: newPool(maxBuffers)}
}

var this = NewMachine("", linux{})

// List is Machine.List of this machine.
func List(dir string, names *regexp.Regexp) ([]Device, error) { return this.List(dir, names) }

// At is Machine.At of this machine.
func At(path string) Device { return this.At(path) }

// Resolve is Machine.Resolve of this machine.
func Resolve(path string) (Number, error) { return this.Resolve(path) }

// Overlap is Machine.Overlap of this machine.
func Overlap(a, b Number) bool { return this.Overlap(a, b) }

// Busy is Machine.Busy of this machine.
func Busy(d Device) error { return this.Busy(d) }

// Idle is Machine.Idle of this machine.
func Idle(shared string) (bool, error) { return this.Idle(shared) }

// Boot is Machine.Boot of this machine.
func Boot() string { return this.Boot() }

// Probe is Machine.Probe of this machine.
func Probe(ctx context.Context, d Device, mode Mode) (Signature, error) {
	return this.Probe(ctx, d, mode)
}

// Blank is Machine.Blank of this machine.
func Blank(ctx context.Context, d Device, end bool) (Signature, error) {
	return this.Blank(ctx, d, end)
}

// Open is Machine.Open of this machine.
func Open(d Device) (*Exclusive, error) { return this.Open(d) }

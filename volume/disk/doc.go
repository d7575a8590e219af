// Package disk finds the block devices of a directory, what uses one and is on it, and wipes it.
//
//	device.go      Device: what is known of one, and how it is read
//	list.go        List: the devices of a directory; watch.go: when that changes
//	identity.go    which disk a device is; package diskid reads the ID
//	stack.go       Stack: all that is a device, by its other paths, above it and below
//	use.go         Busy: what uses a device
//	exclusive.go   Exclusive: a device that nothing else can mount, hold or wipe
//	signature.go   Signature: what a device carries; magic.go has the table
//	wipe.go        Wipe: writes zeros or discards, and reads back
//	mark.go        proves that several paths lead to one disk, before the first write
//	ranges.go      which bytes a mode wipes
//	buffer.go      the memory of all wipes and probes
//	machine.go     Machine: whose devices; Kernel: the calls that a simulation replaces
//	kernel.go      those of Linux
//
// A device is a major and a minor number. Its path is how a user names it, and may be a link; the
// kernel can give the number to another disk once the first one is gone. Every write therefore
// goes through an Exclusive: a descriptor that was opened with O_EXCL, and compared with what List
// saw. Nothing in this package opens a regular file for writing.
package disk

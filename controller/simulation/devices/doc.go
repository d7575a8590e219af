// Package devices is a model of the block devices of nodes, for the agent of raw disks. It stands in
// for the kernel and for udev: numbers, sequences, sysfs, links, partitions, device mapper, who has
// a device open, and bytes. What the agent concludes from these is decided by package volume/disk.
//
//	disk.go    Disk: a medium, its IDs and what lies on it
//	node.go    Node: which disks are attached where, boots and mounts
//	state.go   what kernel and udev make of the disks: partitions, multipath, LVM, links
//	sysfs.go   the files that a process reads
//	file.go    Process: the devices as one process opens them
//
// It finds wrong decisions, and not what a kernel does. All waits are sleeps, or receive from
// channels that were made in the bubble of the caller.
package devices

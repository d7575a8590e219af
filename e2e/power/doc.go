// Package power cuts the power of pools, on disks that keep only what they were told to keep.
//
// A disk writes in any order until it is told to flush: after a power cut it has everything from
// before the last flush, and any part of the rest. The test of this package has a pool work on a
// disk that logs every write and flush and, between them, what callers asked and were told. From
// such a log it makes disks that a power cut may have left, starts a pool on each, and compares it
// with what callers knew.
//
//	disk.go     Disk: a block device in memory, and its log
//	file.go     the file below it
//	cut.go      which of the writes that were not flushed reach the disk: chosen by a seed, torn at sectors too
//	subject.go  Subject: the process with the pools, a test of package volume with the tag power
//	replay.go   walks through a log, cuts the power, and cuts it again while the pool recovers
//	failure.go  what does not hold, and whether the kernel is to blame
//	kinds.go    the filesystems
//
// The notes about callers are in the log and not on the disk, where they would flush what the pool
// did not.
package power

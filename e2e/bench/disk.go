package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	// diskSize is the size of the pools' disk in bytes. The big volume's files fit on it.
	diskSize = 8 << 30
	noDisk   = "none"
)

// disk is a filesystem for the pools alone, in a file. Volumes seldom share one with the cluster's
// database; if they do, each waits for the journal of the other.
type disk struct {
	kind   string
	at     string // where it is mounted
	quotas bool   // the kernel enforces them
}

// newDisk creates a filesystem of the kind in dir and mounts it at `at`, with quotas if the kernel
// can enforce them. The caller unmounts it.
func newDisk(kind, dir, at string) (*disk, error) {
	image := filepath.Join(dir, "pools.img")
	f, err := os.Create(image)
	if err != nil {
		return nil, err
	}
	// Its blocks are allocated in advance, or the filesystem below would allocate some with each
	// flush.
	err = errors.Join(syscall.Fallocate(int(f.Fd()), 0, 0, diskSize), f.Close(), os.MkdirAll(at, 0o700))
	if err != nil {
		return nil, fmt.Errorf("make a disk of %d bytes: %w", int64(diskSize), err)
	}
	if err := command("mkfs."+kind, "-q", image); err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(image) }() // the mount keeps the file
	if kind == "xfs" && command("mount", "-o", "loop,prjquota", image, at) == nil {
		return &disk{kind, at, true}, nil
	}
	if err := command("mount", "-o", "loop", image, at); err != nil {
		return nil, err
	}
	return &disk{kind, at, kind == "btrfs"}, nil // the agent turns its quotas on
}

// rest returns when all data is in its final place. A filesystem makes files durable long before it
// writes their inodes in place, which a freeze forces. For pools in a plain directory it does not
// wait for that.
func (d *disk) rest() error {
	if d != nil {
		if err := command("fsfreeze", "--freeze", d.at); err != nil {
			return err
		}
		if err := command("fsfreeze", "--unfreeze", d.at); err != nil {
			return err
		}
	}
	syscall.Sync() // writes the file that is the disk
	return nil
}

// unmount unmounts the disk. It does nothing if there is none.
func (d *disk) unmount() error {
	if d == nil {
		return nil
	}
	return syscall.Unmount(d.at, syscall.MNT_DETACH)
}

// String describes where the pools are.
func (d *disk) String() string {
	if d.quotas {
		return "a disk of its own, " + d.kind + " with enforced quotas"
	}
	return "a disk of its own, " + d.kind + " without quotas"
}

func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

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
	// diskSize is that of the disk that the pools get, in bytes. The big volume's files fit on it.
	diskSize = 8 << 30
	noDisk   = "none"
)

// disk is a filesystem for the pools alone, in a file. Volumes seldom share one with the cluster's database; where they
// do, each waits for the journal of the other.
type disk struct {
	kind   string
	at     string // where it is mounted
	limits bool   // the kernel enforces them
}

// newDisk makes a filesystem of the kind in dir and mounts it on at. Its limits are enforced where the kernel can.
// The caller unmounts it.
func newDisk(kind, dir, at string) (*disk, error) {
	image := filepath.Join(dir, "pools.img")
	f, err := os.Create(image)
	if err != nil {
		return nil, err
	}
	// Its blocks are there beforehand, or the filesystem below would look for some with each flush.
	err = errors.Join(syscall.Fallocate(int(f.Fd()), 0, 0, diskSize), f.Close(), os.MkdirAll(at, 0o700))
	if err != nil {
		return nil, fmt.Errorf("make a disk of %d bytes: %w", int64(diskSize), err)
	}
	if err := command("mkfs."+kind, "-q", image); err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(image) }() // the mount keeps it, and nothing else
	if kind == "xfs" && command("mount", "-o", "loop,prjquota", image, at) == nil {
		return &disk{kind, at, true}, nil
	}
	if err := command("mount", "-o", "loop", image, at); err != nil {
		return nil, err
	}
	return &disk{kind, at, kind == "btrfs"}, nil // where the agent turns limits on
}

// rest returns once all that was written is in its place. A filesystem keeps its files from a power cut long before it has
// written their inodes there, which a freeze makes it do. Where the pools lie in a plain directory, that may be still to come.
func (d *disk) rest() error {
	if d != nil {
		if err := command("fsfreeze", "--freeze", d.at); err != nil {
			return err
		}
		if err := command("fsfreeze", "--unfreeze", d.at); err != nil {
			return err
		}
	}
	syscall.Sync() // of a disk that is a file, this writes the file
	return nil
}

// unmount takes the disk away. It does nothing where there is none.
func (d *disk) unmount() error {
	if d == nil {
		return nil
	}
	return syscall.Unmount(d.at, syscall.MNT_DETACH)
}

// String tells where the pools are.
func (d *disk) String() string {
	if d.limits {
		return "a disk of its own, " + d.kind + " with enforced limits"
	}
	return "a disk of its own, " + d.kind + " without limits"
}

func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

package mount

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// ErrNotMounted means that a directory is not a mount point of the host.
var ErrNotMounted = errors.New("not mounted")

// OfHost returns the mount at a directory if that is a mount point of the host. In a container it
// distinguishes such mounts from the container's own volumes, which are mount points whether or not
// the host has mounted a disk there: a mount of the host appears on top of a volume by propagation.
//
// The error is ErrNotMounted if nothing is mounted at the directory, or a mount that proves no
// disk. OfHost follows links in the path.
func OfHost(dir string) (Info, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return Info{}, err
	}
	top, err := Of(real)
	if err != nil {
		return Info{}, err
	}
	all, err := Self()
	if err != nil {
		return Info{}, err
	}
	return top, ofHost(all, top, real, inContainer(all))
}

// ofHost checks the mount of dir.
func ofHost(all []Info, top Info, dir string, contained bool) error {
	if top.Point != dir {
		return fmt.Errorf("%w: %s is no mount point", ErrNotMounted, dir)
	}
	// A disk that is mounted over a volume of the running container is that volume itself after a
	// restart of the container. So the lowest mount at dir decides.
	below, ok := ByID(all, top.Parent)
	for ok && below.Point == dir {
		below, ok = ByID(all, below.Parent)
	}
	if !ok || contained && below.Point == "/" {
		return fmt.Errorf("%w: %s is a volume of the container itself, which proves no disk: "+
			"give the container the directory above it, with mountPropagation HostToContainer", ErrNotMounted, dir)
	}
	// A container's volume inside another shows the directory that is there without the mount.
	if under, is := below.locate(dir); is && under == top.Root && top.sameFilesystem(below) {
		return fmt.Errorf("%w: what is mounted at %s is that very directory, and no disk", ErrNotMounted, dir)
	}
	return nil
}

// initialPIDs is the PID namespace that the kernel starts with
// (PROC_PID_INIT_INO in include/linux/proc_ns.h).
const initialPIDs = "pid:[4026531836]"

// inContainer reports whether the root directory of this process is a container's. A container that
// shares the host's PID namespace is recognized by its overlay.
func inContainer(all []Info) bool {
	if slices.ContainsFunc(all, func(i Info) bool { return i.Point == "/" && i.Type == "overlay" }) {
		return true
	}
	pids, err := os.Readlink("/proc/self/ns/pid")
	return err != nil || pids != initialPIDs
}

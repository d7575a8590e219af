package poolmount

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/mount"
)

// Attach mounts the filesystem of the claim at the pool's directory for the owner, as a mount of
// its own that is kept when that of the claim goes. It creates the directory, and does nothing if
// that filesystem is mounted there already.
//
// The error is mount.ErrOther if another filesystem is mounted there, or one that Attach mounted for
// another pool: it never mounts over a mount.
func Attach(claim, path string, o Owner) error {
	source, err := mount.Of(claim)
	switch {
	case err != nil:
		return err
	case source.Point != filepath.Clean(claim):
		return fmt.Errorf("nothing is mounted at %s: the container must have the claim there", claim)
	}
	fd, err := unix.Open(claim, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", claim, err)
	}
	dir := os.NewFile(uintptr(fd), claim)
	defer dir.Close()
	if err := checkShared(filepath.Dir(path)); err != nil {
		return err
	}
	p, err := openPlace(path)
	if err != nil {
		return err
	}
	defer p.close()
	return p.attach(dir, source, o)
}

func (p *place) attach(dir *os.File, source mount.Info, o Owner) error {
	r, err := recordOf(source, o)
	if err != nil {
		return err
	}
	at, err := p.target.Inspect()
	if err != nil {
		return err
	}
	if have, err := p.read(); at.Mounted && err == nil && have.Pool != "" && o.Pool != "" && have.Pool != o.Pool {
		return fmt.Errorf("%w: it is that of %s, and this is for %s", mount.ErrOther, have.Owner, o)
	}
	if !at.Mounted {
		// Before the mount: a process that is killed in between leaves no mount without a record.
		if err := p.write(r); err != nil {
			return err
		}
	}
	if err := p.target.Bind(dir, mount.Flags{}); err != nil {
		return err
	}
	return p.write(r) // another program, or an earlier version, may have mounted it
}

// checkShared returns an error if a mount in the directory would stay in this container.
func checkShared(dir string) error {
	i, err := mount.Of(dir)
	if err == nil && i.Peers == 0 {
		err = fmt.Errorf("a mount in %s is not visible on the host: the container must have that directory with "+
			"mountPropagation Bidirectional", dir)
	}
	return err
}

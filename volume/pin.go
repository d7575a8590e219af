package volume

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// Pinned is a volume that stays in place while Pin lasts.
type Pinned struct {
	Volume
	// Dir is the volume's own directory, opened with O_PATH. It is closed when
	// Pin returns.
	Dir *os.File
	// MountedAt are the points of the mounts that use the volume: on it, in it
	// or from it.
	MountedAt []string
}

// Pin calls do with the volume while nobody else works on it: it can be
// neither deleted nor made meanwhile. Whoever mounts a volume pins it, so
// that Delete sees the mount or the mount finds nothing. do must not call the
// pool. Pin waits for do, once that is called, for as long as it takes.
//
// The error is ErrNotFound where the volume or its directory is not there,
// ErrConflict where a file or a link is in the directory's place, ErrInUse
// where something is mounted over it; or what do returned.
func (p *Pool) Pin(name string, do func(Pinned) error) error {
	return p.on("use volume", name, func(h *handle) error {
		r, ok := p.records.Get(name)
		if !ok || !r.InPlace() {
			return ErrNotFound
		}
		if err := h.CheckPlain(name); errors.Is(err, ErrNotFound) {
			return fmt.Errorf("%w: its record is there and its directory is not", ErrNotFound)
		} else if err != nil {
			return err
		}
		fd, err := tree.Open(h.Base, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err != nil {
			return fault.Path("open", name, err)
		}
		dir := os.NewFile(uintptr(fd), p.path+"/"+name)
		defer dir.Close()
		points, err := h.MountPoints(name)
		if err != nil {
			return err
		}
		return h.call.Callback(func() error {
			return do(Pinned{Volume: p.volume(h, r, false), Dir: dir, MountedAt: points})
		})
	})
}

// Remembered returns the record of a volume as this process knew it last, even
// while the pool is not ready. Only Get and Pin look at the disk; this serves
// whoever has to decide without it.
func (p *Pool) Remembered(name string) (Record, bool) { return p.records.Get(name) }

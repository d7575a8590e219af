package volume

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/limit"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// marking gives the inodes of one volume their ID.
type marking struct {
	pool   *Pool
	by     limit.Adopter
	record Record

	changed, foreign int    // inodes, of one visit
	first            string // of the foreign ones
}

// visit goes over the volume once. The error is an ErrConflict where inodes
// have another ID: they are left, and all others have theirs.
func (m *marking) visit(ctx context.Context, h *handle, pace tree.Pace, handDown bool) error {
	m.changed, m.foreign, m.first = 0, 0, ""
	err := tree.Walk(ctx, h.base, m.record.Name, h.beating(pace), tree.Visitor{Enter: func(at int, name string, st *unix.Statx_t) error {
		return m.inode(at, name, st, handDown)
	}})
	switch {
	case err != nil && context.Cause(ctx) != nil:
		return context.Cause(ctx)
	case err == nil && m.foreign > 0:
		err = fmt.Errorf("%w: %d of its files are counted elsewhere, such as %s; "+
			"they may have another link in another volume; copy them, so that they are this volume's own", ErrConflict, m.foreign, m.first)
	}
	return err
}

func (m *marking) inode(at int, name string, st *unix.Statx_t, handDown bool) error {
	kind := st.Mode & unix.S_IFMT
	if kind != unix.S_IFREG && kind != unix.S_IFDIR {
		return nil
	}
	fd, err := tree.OpenInode(at, name)
	switch err {
	case nil:
	case unix.ENOENT, unix.EPERM, unix.EXDEV, unix.ELOOP: // it went, or something else has the name now
		return nil
	default:
		return fault.Path("open", name, err)
	}
	defer unix.Close(fd)
	changed, err := m.by.Mark(fd, m.record.PendingID, func() { m.pool.step("adopt.mark") })
	if errors.Is(err, limit.ErrForeign) {
		if m.foreign++; m.foreign == 1 {
			m.first = fmt.Sprintf("%q (inode %d): %v", name, st.Ino, err)
		}
		return nil
	}
	if err == nil && handDown && kind == unix.S_IFDIR {
		var more bool
		more, err = m.by.HandDown(fd, m.record.PendingID, func() { m.pool.step("adopt.inherit") })
		changed = changed || more
	}
	if err != nil {
		return fmt.Errorf("%q (inode %d): give it the project ID %d: %w", name, st.Ino, m.record.PendingID, err)
	}
	if changed {
		m.changed++
	}
	return nil
}

package tree

import (
	"context"

	"golang.org/x/sys/unix"
)

// maxLinks bounds the memory for files with several links. A link of another counts as its share.
const maxLinks = 1 << 18

// Size is the size of a tree on disk, in bytes.
type Size struct {
	// Bytes are allocated blocks, a file with several links once. Blocks that files
	// share (reflinks) count for each of them.
	Bytes int64
	// Own is the part that no other file shares. A removal of the tree would free at least that.
	Own int64
	// Shared is how many bytes of regular files other files share.
	Shared int64
}

// Measure returns the size on disk of the directory name in dir with everything below it. It counts
// no mounts and follows no link. If elsewhere is not nil, it reports whether the caller counts the
// blocks of an open regular file elsewhere; Own then has neither those nor those of other types.
//
// The tree may change meanwhile, so the result is an estimate. With an error, the result has what
// was counted before. The error is ENOENT if the name does not exist.
func Measure(ctx context.Context, dir int, name string, pace Pace, elsewhere func(fd int) bool) (Size, error) {
	m := measurer{ctx: ctx, links: map[inode]bool{}, elsewhere: elsewhere, shares: sharesExtents(dir)}
	err := Walk(ctx, dir, name, pace, m.count)
	return m.size, err
}

// A measurer adds up the inodes of a tree.
type measurer struct {
	ctx       context.Context //nolint:containedctx // of one call
	size      Size
	links     map[inode]bool // files with several links seen so far
	elsewhere func(fd int) bool
	shares    bool // the filesystem's files may share blocks
}

// count adds an inode, unless another link to it was counted before.
func (m *measurer) count(at int, name string, st *unix.Statx_t) error {
	bytes := int64(st.Blocks) * 512
	if st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		switch {
		case m.links[inodeOf(st)]:
			return nil
		case len(m.links) < maxLinks:
			m.links[inodeOf(st)] = true
		default:
			m.size.Bytes += bytes / int64(st.Nlink)
			return nil
		}
	}
	m.size.Bytes += bytes
	own, err := m.own(at, name, st)
	m.size.Own += min(own, bytes)
	return err
}

// own returns the size of the blocks that no other inode shares.
func (m *measurer) own(at int, name string, st *unix.Statx_t) (int64, error) {
	bytes := int64(st.Blocks) * 512
	switch {
	case bytes == 0:
		return 0, nil
	case m.elsewhere == nil && (!m.shares || st.Mode&unix.S_IFMT != unix.S_IFREG):
		return bytes, nil
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return 0, nil
	}
	fd, err := OpenInode(at, name)
	if err != nil {
		return 0, nil // it was removed or replaced
	}
	defer unix.Close(fd)
	switch {
	case m.elsewhere != nil && m.elsewhere(fd):
		return 0, nil
	case !m.shares:
		return bytes, nil
	}
	own, shared, err := ownBytes(m.ctx, fd)
	m.size.Shared += shared
	return own, err
}

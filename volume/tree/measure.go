package tree

import (
	"context"

	"golang.org/x/sys/unix"
)

// maxLinks bounds the memory for files with several links. What is beyond it
// counts as the share of each link.
const maxLinks = 1 << 18

// Measure returns how many bytes the directory name in dir takes on disk with
// everything below it: allocated blocks, a file with several links once. What
// is mounted in it is not counted, and no link is followed. Blocks that files
// share (reflinks) count for each of them.
//
// It changes nothing and reads a tree that may change meanwhile, so the
// result is an estimate. With an error it is what was counted so far. A name
// that is not there is ENOENT.
func Measure(ctx context.Context, dir int, name string, pace Pace) (int64, error) {
	m := measurer{links: map[inode]bool{}}
	err := Walk(ctx, dir, name, pace, Visitor{Enter: func(_ int, _ string, st *unix.Statx_t) error {
		m.count(st)
		return nil
	}})
	return m.bytes, err
}

// A measurer adds up the inodes of a tree.
type measurer struct {
	bytes int64
	links map[inode]bool // files with several links seen so far
}

// count adds an inode, unless another link to it was counted before.
func (m *measurer) count(st *unix.Statx_t) {
	bytes := int64(st.Blocks) * 512
	if st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		switch {
		case m.links[inodeOf(st)]:
			return
		case len(m.links) < maxLinks:
			m.links[inodeOf(st)] = true
		default:
			bytes /= int64(st.Nlink)
		}
	}
	m.bytes += bytes
}

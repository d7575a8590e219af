//go:build linux

package space

import "golang.org/x/sys/unix"

const (
	// leastFree is the part of a filesystem that is to be free, at which kubelets evict no pods yet:
	// one in so many.
	leastFree = 10
	// leastFreeInodes is the same for inodes.
	leastFreeInodes = 20
)

// Lacks returns how many bytes the filesystem of a pool lacks for what is allocated, and for a
// tenth of it to be free, and whether it is about to have no inodes.
func (s Space) Lacks(st *unix.Statfs_t) (bytes int64, inodes bool) {
	bytes = max(s.margins.lacking, s.Total/leastFree-s.Free)
	return max(0, bytes), st.Files > 0 && st.Ffree < max(leastInodes, st.Files/leastFreeInodes)
}

// Missing returns how many bytes outside of volumes have to become free so that so many are available;
// 0 or less if they are.
func (s Space) Missing(wanted int64) int64 {
	return max(wanted-s.margins.free, scale(wanted, 1/s.margins.overcommit)-s.margins.allocation)
}

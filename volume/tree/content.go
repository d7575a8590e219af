package tree

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// piece is how many bytes are copied between two calls of the pace.
const piece = 1 << 20

// window is how many bytes of a copy may wait in the cache.
const window = 2 * piece

// leaseWait is how long a tenant's lease can delay the opening of a file. It is longer than the
// kernel's /proc/sys/fs/lease-break-time of 45 s.
const leaseWait = 60 * time.Second

// openFile opens a regular file for reading. If a process holds a lease on it (fcntl(2),
// F_SETLEASE), openFile waits until the kernel breaks the lease.
func (c *copier) openFile(source int) (int, error) {
	ctx, cancel := context.WithTimeout(c.ctx, leaseWait)
	defer cancel()
	for {
		fd, err := reopen(source, unix.O_RDONLY)
		if err != unix.EAGAIN {
			return fd, err
		}
		select {
		case <-ctx.Done():
			return -1, cmp.Or(c.ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// contents copies the data of files, by the best method that has not failed yet.
type contents struct {
	unshared bool   // no FICLONE between these two filesystems
	buf      []byte // used once copy_file_range has failed too
}

// contents copies the data of a file, of the size in st, into an empty one, and allocates the space that
// the original has allocated beyond its data. If the file becomes shorter meanwhile, so does the
// copy.
func (c *copier) contents(in, out int, st *unix.Statx_t) error {
	size := int64(st.Size)
	shared := size == 0
	var err error
	if !shared {
		shared, err = c.share(in, out)
	}
	if err == nil && !shared {
		err = c.write(in, out, size)
	}
	if err == nil && st.Blocks > 0 {
		err = allocate(in, out)
	}
	return err
}

// share makes a file share its blocks with the original, and reports whether it could.
func (c *copier) share(in, out int) (done bool, err error) {
	if c.data.unshared {
		return false, c.unshared(unix.EOPNOTSUPP)
	}
	if c.o.Extents > 0 {
		if n := countExtents(in); n > c.o.Extents {
			return false, fmt.Errorf("%w: %d, at most %d", ErrExtents, n, c.o.Extents)
		}
	}
	for {
		switch err := unix.IoctlFileClone(out, in); err {
		case nil:
			return true, nil
		case unix.EINTR:
		case unix.EOPNOTSUPP, unix.ENOTTY, unix.EXDEV, unix.ENOSYS:
			c.data.unshared = true
			return false, c.unshared(err)
		case unix.EINVAL, unix.ETXTBSY, unix.EPERM:
			return false, c.unshared(err) // this file alone, for example one that is used for swapping
		default:
			return false, err
		}
	}
}

func (c *copier) unshared(err error) error {
	if c.o.Share {
		return fmt.Errorf("%w: %w", ErrUnshared, err)
	}
	return nil
}

// write copies the bytes of a file, and keeps its holes.
func (c *copier) write(in, out int, size int64) error {
	if err := unix.Ftruncate(out, size); err != nil {
		return err
	}
	for at := int64(0); at < size; {
		data, hole, err := nextData(in, at, size)
		if err != nil {
			return err
		}
		if at, err = c.span(in, out, data, hole); err != nil {
			return err
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(in, &st); err != nil || st.Size >= size {
		return err
	}
	return unix.Ftruncate(out, st.Size)
}

// nextData returns where data begins after at, and where it ends; both are size if no data follows.
// On a filesystem without holes, everything is data.
func nextData(in int, at, size int64) (data, hole int64, err error) {
	data, err = unix.Seek(in, at, unix.SEEK_DATA)
	switch {
	case err == unix.ENXIO || err == nil && data >= size:
		return size, size, nil
	case err == unix.EINVAL:
		return at, size, nil
	case err != nil:
		return 0, 0, err
	}
	hole, err = unix.Seek(in, data, unix.SEEK_HOLE)
	if err == unix.ENXIO { // it was truncated meanwhile
		return size, size, nil
	}
	return data, min(hole, size), err
}

// span copies the bytes between two offsets, and returns the offset to continue at: end, also if
// the file ends before.
func (c *copier) span(in, out int, from, end int64) (int64, error) {
	dropped := from
	for at := from; at < end; {
		if err := c.o.Pace.wait(c.ctx); err != nil {
			return at, err
		}
		n, err := c.data.piece(in, out, at, int(min(end-at, piece)))
		if err != nil {
			return at, err
		}
		if n == 0 {
			return end, nil
		}
		at += int64(n)
		c.written += int64(n)
		if at-dropped >= window || at == end && end-from >= piece {
			c.drop(in, out, dropped, at)
			dropped = at
		}
		if c.o.Wrote != nil {
			if err := c.o.Wrote(c.ctx, int64(n)); err != nil {
				return at, err
			}
		}
	}
	return end, nil
}

// drop writes pages of the copy to disk and takes them out of the cache, which counts against the
// memory of this process. A pod may use those of the original, unless nothing changes it. Errors
// are left to the caller's flush.
func (c *copier) drop(in, out int, from, end int64) {
	_ = unix.SyncFileRange(out, from, end-from,
		unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
	_ = unix.Fadvise(out, from, end-from, unix.FADV_DONTNEED)
	if c.o.Changes == NoChanges {
		_ = unix.Fadvise(in, from, end-from, unix.FADV_DONTNEED)
	}
}

func (d *contents) piece(in, out int, at int64, length int) (int, error) {
	for d.buf == nil {
		from, to := at, at
		n, err := unix.CopyFileRange(in, &from, out, &to, length, 0)
		switch err {
		case unix.EINTR, unix.EAGAIN:
		case unix.EXDEV, unix.EINVAL, unix.EOPNOTSUPP, unix.ENOSYS, unix.ETXTBSY, unix.EPERM:
			d.buf = make([]byte, piece)
		default:
			return n, err
		}
	}
	return transfer(in, out, at, d.buf[:length])
}

func transfer(in, out int, at int64, buf []byte) (int, error) {
	n, err := retry(func() (int, error) { return unix.Pread(in, buf, at) })
	if err != nil {
		return 0, err
	}
	for done := 0; done < n; {
		m, err := retry(func() (int, error) { return unix.Pwrite(out, buf[done:n], at+int64(done)) })
		if err != nil {
			return done, err
		}
		done += m
	}
	return n, nil
}

func retry(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}

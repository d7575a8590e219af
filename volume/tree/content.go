package tree

import (
	"cmp"
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// piece is how many bytes are copied between two calls of the pace.
const piece = 1 << 20

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

// copy copies the first size bytes of a file into an empty one. If the file becomes shorter
// meanwhile, so does the copy.
func (d *contents) copy(in, out int, size int64, step func() error) error {
	if size == 0 {
		return nil
	}
	if !d.unshared {
		switch err := unix.IoctlFileClone(out, in); err {
		case nil:
			return nil
		case unix.EOPNOTSUPP, unix.ENOTTY, unix.EXDEV, unix.ENOSYS:
			d.unshared = true
		case unix.EINVAL, unix.ETXTBSY, unix.EPERM, unix.EINTR:
			// This file alone cannot be cloned: a swap file, or a file of btrfs without checksums.
		default:
			return err
		}
	}
	if err := unix.Ftruncate(out, size); err != nil {
		return err
	}
	for at := int64(0); at < size; {
		data, hole, err := nextData(in, at, size)
		if err != nil {
			return err
		}
		if at, err = d.span(in, out, data, hole, step); err != nil {
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
func (d *contents) span(in, out int, from, end int64, step func() error) (int64, error) {
	for at := from; at < end; {
		if err := step(); err != nil {
			return at, err
		}
		n, err := d.piece(in, out, at, int(min(end-at, piece)))
		if err != nil {
			return at, err
		}
		if n == 0 {
			return end, nil
		}
		at += int64(n)
	}
	return end, nil
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

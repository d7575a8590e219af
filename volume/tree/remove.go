package tree

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// Pace is called before every change, or for every entry that is read. It may wait. Its error ends
// the work. nil never waits.
type Pace func(context.Context) error

// wait waits for the pace. Its error ends the work.
func (p Pace) wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil || p == nil {
		return err
	}
	return p(ctx)
}

// ErrBusy is the cause if Remove gives up on a tree that a process keeps changing.
var ErrBusy = errors.New("a process keeps writing into it")

const (
	// rounds bounds how often the top directory is read again. A round removes what it moves there,
	// so many rounds mean that a process adds entries.
	rounds = 100
	// queue bounds the names kept in memory between two reads of the top.
	queue = 4096
	// maxTops bounds the descriptors; two are the most that btrfs needs.
	maxTops = 8
	// movedPrefix begins the names of directories that moved up. The rest of the name is different
	// in each call, so it cannot collide with names of earlier calls.
	movedPrefix = ".moved-"
)

// Remove removes name in the directory dir with everything below it. It does nothing if the name
// does not exist, so callers can call it again after an interruption.
//
// Remove crosses no mount: it leaves a mount and the directories above it, and returns an error. It
// clears immutable and append-only flags that prevent a removal, and the flag of a read-only btrfs
// subvolume, unless dir is in that subvolume. After any other error it continues with the rest; it
// returns the first few errors joined. It flattens deep trees: it moves a directory up to the top
// before it empties it.
//
// If the context or the pace ends the work, Remove returns their error, joined with earlier errors
// if it has removed nothing.
func Remove(ctx context.Context, dir int, name string, pace Pace) error {
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return err
	}
	r := remover{ctx: ctx, pace: pace, outside: st.Dev, prefix: movedPrefix + rand.Text()[:10] + "-"}
	err := r.remove(dir, name)
	switch {
	case r.fatal == nil:
		return err
	case r.removed > 0 || err == nil || err == errStopped:
		return r.fatal
	}
	return errors.Join(r.fatal, err)
}

// A remover removes one tree.
type remover struct {
	ctx     context.Context //nolint:containedctx // of one call
	pace    Pace
	fatal   error  // ends the work: the context's error, or the pace's
	outside uint64 // the device of the directory that the tree is in

	tops    []*top
	prefix  string // of the names of directories that move up
	moved   uint64 // directories moved up so far, for their names
	removed uint64 // entries removed or moved up, to detect progress
}

// A top is a directory to which the directories below it move. There is one, and another for each
// boundary that a rename cannot cross: the directories of a btrfs subvolume cannot leave it, though
// the subvolume itself can move up.
type top struct {
	fd      int
	pending []string // moved here and not emptied yet
}

// errStays is the error of an entry that cannot move to any top.
var errStays = errors.New("cannot be moved up")

func (r *remover) remove(dir int, name string) error {
	gone, err := r.unlink(dir, name)
	if gone || err != nil {
		return err
	}
	fd, err := r.openDir(dir, name)
	if fd < 0 {
		return err
	}
	defer unix.Close(fd)
	if err := r.empty(fd); err != nil {
		return err
	}
	return r.rmdir(dir, name)
}

// empty removes everything in the directory fd. It reads the directory again until it is empty or a
// round removes nothing.
func (r *remover) empty(fd int) error {
	t := &top{fd: fd}
	r.tops = append(r.tops, t)
	defer func() { r.tops = r.tops[:len(r.tops)-1] }()
	for range rounds {
		before := r.removed
		errs := &failures{}
		found := r.round(fd, errs)
		for len(t.pending) > 0 && r.fatal == nil {
			last := len(t.pending) - 1
			name := t.pending[last]
			t.pending = t.pending[:last]
			errs.add(r.directory(fd, name))
		}
		switch {
		case r.fatal != nil, !found, r.removed == before:
			return errs.join()
		}
	}
	return ErrBusy
}

// round tries once to remove each entry of dir, and reports whether there were entries.
func (r *remover) round(dir int, errs *failures) (found bool) {
	err := names(dir, func(name string) bool {
		found = true
		errs.add(r.entry(dir, name))
		return r.fatal == nil
	})
	errs.add(err)
	return found
}

// entry removes an entry of dir: a directory is emptied in place if dir is a top, else moved up.
func (r *remover) entry(dir int, name string) error {
	gone, err := r.unlink(dir, name)
	if gone || err != nil {
		return err
	}
	err = r.rmdir(dir, name)
	if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
		return err
	}
	if dir == r.tops[len(r.tops)-1].fd {
		return r.directory(dir, name)
	}
	return r.moveUp(dir, name)
}

// directory empties and removes the directory name of dir. The directories in it move up.
func (r *remover) directory(dir int, name string) error {
	fd, err := r.openDir(dir, name)
	if fd < 0 {
		return err
	}
	defer unix.Close(fd)
	errs := &failures{}
	r.round(fd, errs)
	if errs.stays && len(r.tops) < maxTops {
		errs = &failures{}
		errs.add(r.empty(fd))
	}
	if err := errs.join(); err != nil {
		return err
	}
	return r.rmdir(dir, name)
}

// openDir opens a directory at the pace, so that a test can replace the directory by a link just
// before it is opened. It returns -1 with an error, and if there is none.
func (r *remover) openDir(dir int, name string) (int, error) {
	if err := r.wait(); err != nil {
		return -1, err
	}
	switch fd, err := OpenDir(dir, name); err {
	case nil:
		return fd, nil
	case unix.ENOENT:
		return -1, nil
	default:
		return -1, explain(name, err)
	}
}

// unlink removes name from dir unless it is a directory.
func (r *remover) unlink(dir int, name string) (gone bool, err error) {
	switch err := r.change(dir, name, func() error { return unix.Unlinkat(dir, name, 0) }); err {
	case nil, unix.ENOENT:
		r.removed++
		return true, nil
	case unix.EISDIR:
		return false, nil
	default:
		return false, explain(name, err)
	}
}

// rmdir removes the directory name from dir. The next round tries a directory again that is not
// empty any more.
func (r *remover) rmdir(dir int, name string) error {
	switch err := r.change(dir, name, func() error { return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) }); err {
	case nil, unix.ENOENT:
		r.removed++
		return nil
	default:
		return explain(name, err)
	}
}

// moveUp moves the directory name from dir to the outermost top that takes it.
func (r *remover) moveUp(dir int, name string) error {
	for _, t := range r.tops {
		if t.fd == dir {
			continue
		}
		err := r.moveTo(t, dir, name)
		// A directory with another project ID cannot move into a top that passes on its own.
		if err == unix.EXDEV && r.wait() == nil && clearInherit(t.fd) {
			err = r.moveTo(t, dir, name)
		}
		switch err {
		case nil, unix.ENOENT:
			return nil
		case unix.EXDEV, unix.ENOSPC, unix.EDQUOT, unix.EMLINK, unix.ENOKEY:
			// Another subvolume, a top without space for one more name on a full disk or at
			// its quota, or a directory that is encrypted with a missing key: rename(2). The
			// directory is emptied in place.
		default:
			return explain(name, err)
		}
	}
	return errStays
}

func (r *remover) moveTo(t *top, dir int, name string) error {
	for {
		r.moved++
		to := r.prefix + strconv.FormatUint(r.moved, 36)
		err := r.change(dir, name, func() error {
			return Rename(dir, name, t.fd, to)
		})
		if err == unix.EEXIST { // a tenant can see the names and create the next one
			continue
		}
		if err == nil {
			r.removed++
			if len(t.pending) < queue {
				t.pending = append(t.pending, to)
			}
		}
		return err
	}
}

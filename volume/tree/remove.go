package tree

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// Pace is called before every change, or every entry that is read. It may
// wait, and its error ends the work. nil never waits.
type Pace func(context.Context) error

// wait lets work go on, or ends it.
func (p Pace) wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil || p == nil {
		return err
	}
	return p(ctx)
}

// ErrBusy is the cause where a tree does not come to an end, because somebody
// changes it all the time.
var ErrBusy = errors.New("somebody keeps writing into it")

const (
	// rounds bounds how often the top directory is read again. What a round
	// moves there it also removes; more rounds than a few mean company.
	rounds = 100
	// queue bounds the names kept in memory between two reads of the top.
	queue = 4096
	// maxTops bounds the descriptors; two are the most that btrfs needs.
	maxTops = 8
	// movedPrefix begins the names of directories that moved up. What follows
	// is another for each call, which so needs no look at what earlier ones left.
	movedPrefix = ".moved-"
)

// Remove removes name in the directory dir with everything below it. A name
// that is not there is a success, and so work cut short is resumed by calling
// again.
//
// Mounts are never crossed: what is mounted stays, with the directories above
// it, and is an error. Immutable and append-only flags are cleared where they
// are in the way, and so is the flag of a read-only btrfs subvolume, unless dir
// lies in it. Other errors do not keep the rest from being removed; they come
// joined, at most a few. Deep trees are flattened: a directory moves up to the
// top before it is emptied.
//
// If the context or the pace ends the work, Remove returns their error. If
// nothing was removed until then, Remove joins the errors that kept it.
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
	ctx     context.Context
	pace    Pace
	fatal   error  // ends the work: the context's error, or the pace's
	outside uint64 // the device of the directory that the tree is in

	tops    []*top
	prefix  string // of the names of what moves up
	moved   uint64 // directories moved up so far, for their names
	removed uint64 // entries removed or moved up, to tell progress
}

// A top is a directory into which the ones below it are flattened. There is
// one, and another for each filesystem boundary that a rename cannot cross: a
// btrfs subvolume keeps its plain directories, though it can itself move up.
type top struct {
	fd      int
	pending []string // moved here and not emptied yet
}

// errStays is the answer to an entry that cannot move to any top.
var errStays = errors.New("cannot be moved up")

func (r *remover) remove(dir int, name string) error {
	gone, err := r.unlink(dir, name)
	if gone || err != nil {
		return err
	}
	fd, err := r.openDir(dir, name)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return explain(name, err)
	}
	defer unix.Close(fd)
	if err := r.empty(fd); err != nil {
		return err
	}
	return r.rmdir(dir, name)
}

// empty removes everything in the directory fd, reading it until nothing is
// left or nothing more can be done.
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

// round removes once what one read of dir returns, and reports whether there
// was anything.
func (r *remover) round(dir int, errs *failures) (found bool) {
	err := names(dir, func(name string) bool {
		found = true
		errs.add(r.entry(dir, name))
		return r.fatal == nil
	})
	errs.add(err)
	return found
}

// entry removes one entry of dir. A directory that is not empty is emptied
// where it is if dir is a top, and moves up otherwise.
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

// directory empties and removes the directory name of dir, whose own
// directories move up.
func (r *remover) directory(dir int, name string) error {
	fd, err := r.openDir(dir, name)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return explain(name, err)
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

// openDir opens what was a directory a moment ago, at the pace: whatever the
// pace does, such as a test that puts a link there, comes between the two.
func (r *remover) openDir(dir int, name string) (int, error) {
	if err := r.wait(); err != nil {
		return -1, err
	}
	return OpenDir(dir, name)
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

// rmdir removes the directory name from dir. One that filled up again stays
// for the next round.
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
		// A top that hands down a project ID takes no directory of another.
		if err == unix.EXDEV && r.wait() == nil && clearInherit(t.fd) {
			err = r.moveTo(t, dir, name)
		}
		switch err {
		case nil, unix.ENOENT:
			return nil
		case unix.EXDEV, unix.ENOSPC, unix.EDQUOT, unix.EMLINK, unix.ENOKEY:
			// Another subvolume, a top without room for one more name on a full
			// disk or at its limit, or a directory encrypted with a key that is
			// not there: rename(2). It is emptied where it is.
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
			return unix.Renameat2(dir, name, t.fd, to, unix.RENAME_NOREPLACE)
		})
		if err == unix.EEXIST { // a tenant who sees the names makes the next one
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

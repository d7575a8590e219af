package tree

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Changes are what may change in a tree while Copy copies it.
type Changes int

const (
	// NoChanges: nothing may change. It is for a tree that no process uses.
	NoChanges Changes = iota
	// ChangesOfOneFile: the data of one file may change. The tree must have at most one regular
	// file with data; that file is copied at one moment if its blocks are shared.
	ChangesOfOneFile
	// ChangesOfFiles: files may change, directories may not. Each file is copied at another moment.
	ChangesOfFiles
)

// CopyOptions are the conditions of a copy. The zero value is for a tree that no process uses.
type CopyOptions struct {
	Changes Changes
	// Share makes Copy fail with ErrUnshared instead of writing data: every file must share its
	// blocks with the original.
	Share bool
	// Extents is the largest number of extents that a file may have, 0 for any. Sharing the blocks
	// of a file takes a time for each extent, and reads and writes of that file wait meanwhile.
	Extents int
	// Pace is called for every entry that is read, copied or removed, and for every MiB written.
	Pace Pace
	// Wrote is called after each piece of data that is written instead of shared, of at most a MiB.
	// It may wait. Its error ends the copy. It may be nil.
	Wrote func(ctx context.Context, bytes int64) error
}

// MaxExtents is a bound for CopyOptions.Extents: sharing 100,000 extents of a file in use takes
// about 5 s on XFS.
const MaxExtents = 100_000

var (
	// ErrUnshared: the blocks of a file cannot be shared with its copy.
	ErrUnshared = errors.New("its blocks cannot be shared with a copy")
	// ErrExtents: a file has more extents than CopyOptions.Extents.
	ErrExtents = errors.New("it is in too many pieces on disk")
	// ErrManyFiles: the tree has more than one file with data, and ChangesOfOneFile was given.
	ErrManyFiles = errors.New("more than one file has data")
)

// Copied describes a copy.
type Copied struct {
	LeftOut LeftOut
	Entries int64 // entries of the original below its top
	Files   int64 // regular files with data; several links of a file may count several times
	Bytes   int64 // data that was written, because it could not be shared
	Tries   int   // how often the copy was made; more than once if the tree changed meanwhile
}

// LeftOut lists what a copy lacks.
type LeftOut struct {
	Total int
	First []string // paths below the top, with the reason; at most maxLeftOut
}

const (
	// maxLeftOut bounds the length of the list.
	maxLeftOut = 10
	// maxLeftOutPath bounds the length of a path in it, which a tenant has chosen.
	maxLeftOutPath = 200
)

// Add adds an entry to the list, with the reason.
func (l *LeftOut) Add(path, why string) {
	if l.Total++; len(l.First) < maxLeftOut {
		path = shown(path)
		if len(path) > maxLeftOutPath {
			path = strings.ToValidUTF8(path[:maxLeftOutPath], "") + "..."
		}
		l.First = append(l.First, path+": "+why)
	}
}

// String returns a sentence for a message, "" if nothing was left out.
func (l LeftOut) String() string {
	if l.Total == 0 {
		return ""
	}
	return fmt.Sprintf("left out %d: %s", l.Total, strings.Join(l.First, "; "))
}

const (
	// maxTries bounds how often a copy of a tree that changes is made.
	maxTries = 4
	// tick is longer than a tick of the clock of ctimes, which is at most 10 ms: a change later
	// than that gives an inode another ctime than the one before.
	tick = 20 * time.Millisecond
)

// Copy copies the directory name in from into the empty directory to, on the same filesystem or
// another: everything below it, and its own owner, mode, times, flags and extended attributes,
// whatever to had. It returns what it left out: device nodes except whiteouts, mounts, and what the
// filesystem of to does not support. It skips sockets, which are useless without their listener,
// and does not list them.
//
// Files share their blocks with the original if the filesystem supports it (FICLONE); otherwise the
// copy has the same holes. Copy keeps hard links among the files of the tree, space that is
// allocated and not written, and the flags append-only, nodump and nodatacow. It copies symbolic
// links without following them. New inodes inherit the project ID from to. See copiedXattr for
// extended attributes. Copy reads nothing outside of the tree.
//
// The owner may change the tree meanwhile. Copy compares a listing before with one after, and makes
// the copy again if more changed than CopyOptions.Changes allows. The error is ErrBusy after
// maxTries. So a copy without an error has every entry. The deadline of ctx bounds the work on a
// tree that grows faster than it is copied.
//
// The caller makes sure that no other process works in to. Copy flushes nothing. After an error, to
// has a part of the copy, which the caller removes. The error is ENOTEMPTY if to was not empty.
func Copy(ctx context.Context, from int, name string, to int, o CopyOptions) (Copied, error) {
	var done Copied
	empty, err := emptyDir(to)
	if err == nil && !empty {
		err = unix.ENOTEMPTY
	}
	for err == nil {
		c := &copier{ctx: ctx, o: o, base: to, links: -1, written: done.Bytes}
		changed := ""
		changed, err = c.try(from, name)
		done = Copied{c.left, c.entries, c.files, c.written, done.Tries + 1}
		switch {
		case err != nil:
		case changed == "":
			return done, nil
		case done.Tries == maxTries:
			err = fmt.Errorf("copy %s: %w: %s changed during each of %d tries", shown(name), ErrBusy, changed, maxTries)
		default:
			err = c.empty()
		}
	}
	return done, pathError("copy", name, err)
}

// try makes the copy once. It returns the path of a change that makes the copy useless, "" if there
// was none.
func (c *copier) try(from int, name string) (changed string, err error) {
	defer c.close()
	before, err := list(c.ctx, from, name, c.o)
	if err != nil {
		return "", err
	}
	if c.files = before.files; c.o.Changes == ChangesOfOneFile && before.files > 1 {
		return "", fmt.Errorf("%w: %d", ErrManyFiles, before.files)
	}
	if err := sleep(c.ctx, before.unsettled(time.Now())); err != nil {
		return "", err
	}
	c.most = before.entries
	err = c.open(from, name)
	if err == nil && before.linked { // first: of the quota of a full tree nothing is left later
		err = c.makeLinks()
	}
	if err == nil {
		err = c.from.walk(c.visit, c.leave)
	}
	if err != nil && !errors.Is(err, errMoved) && !errors.Is(err, ErrBusy) {
		return "", err
	}
	after, listErr := list(c.ctx, from, name, c.o)
	switch {
	case listErr != nil:
		return "", listErr
	case err == nil && c.entries == before.entries && before.sum == after.sum:
		return "", nil
	}
	return after.latest, nil
}

// empty removes what a try has copied.
func (c *copier) empty() error {
	dir, err := reopen(c.base, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := unix.Fchmod(dir, 0o700); err != nil {
		return err
	}
	var all []string
	for {
		all = all[:0]
		err := names(dir, func(name string) bool { all = append(all, name); return len(all) < queue })
		if err != nil || len(all) == 0 {
			return err
		}
		for _, name := range all {
			if err := Remove(c.ctx, dir, name, c.o.Pace); err != nil {
				return err
			}
		}
	}
}

// emptyDir is Empty for a descriptor of any kind.
func emptyDir(dir int) (bool, error) {
	fd, err := reopen(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	return Empty(fd)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

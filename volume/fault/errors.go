package fault

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// What can be wrong, for errors.Is. Every error of this package is an *Error
// that wraps one of these or the operating system's own error.
var (
	// ErrNotReady: the pool cannot be used now; its disk may not be mounted,
	// another process may own it, it may be read-only. Try again later.
	ErrNotReady = errors.New("pool is not ready")
	// ErrNotOpened: Open was not called yet, so no record was read. It is an ErrNotReady.
	ErrNotOpened = fmt.Errorf("%w: it was not opened", ErrNotReady)
	// ErrInvalid: the request itself is wrong (a name, a size); do not retry.
	ErrInvalid = errors.New("invalid request")
	// ErrConflict: something else is there under this name.
	ErrConflict = errors.New("conflict")
	// ErrNotFound: no such volume.
	ErrNotFound = errors.New("no such volume")
	// ErrNoSpace: the bytes are not available; see SpaceError.
	ErrNoSpace = errors.New("not enough space")
	// ErrInUse: something is mounted on, in or from the volume.
	ErrInUse = errors.New("volume is in use")
	// ErrNotEmpty: an unfinished volume has data; only a person may decide.
	ErrNotEmpty = errors.New("volume is not empty")
	// ErrNoQuotas: a quota is required, and the filesystem enforces none.
	ErrNoQuotas = errors.New("no quota can be enforced")
	// ErrMigrating: the volume's PV is being replaced; try again later.
	ErrMigrating = errors.New("volume is being migrated")
	// ErrSetAside is an ErrNotFound: a deletion moved the directory to the trash and was not
	// finished. Delete finishes it, and Restore brings the volume back.
	ErrSetAside = fmt.Errorf("%w: its deletion was begun and not finished", ErrNotFound)
	// ErrCloning: the volume is being made as a copy of another one. Try again when that has ended.
	ErrCloning = errors.New("volume is being copied")
	// ErrSource: the volume that is to be copied cannot be copied as it is. Another sentinel beside
	// it, such as ErrNotFound or ErrInUse, says which kind of obstacle it is.
	ErrSource = errors.New("source cannot be copied")
	// ErrUnshared is an ErrSource: the copy would have to write every byte, which was not permitted.
	ErrUnshared = fmt.Errorf("%w: its blocks cannot be shared with a copy", ErrSource)
	// ErrYielded: a copy ended because a pod began to use the source. A new one begins once the source
	// is not in use.
	ErrYielded = errors.New("a pod began to use the source")
	// ErrDamaged: the record on disk cannot be understood.
	ErrDamaged = errors.New("record is damaged")
)

// Error is a failed operation on a volume or pool, with the fields of fs.PathError.
type Error struct {
	Op   string // "create volume", "open pool", ...
	Name string // the volume, or the pool's path
	Err  error
}

// Error returns operation, volume and cause in one line.
func (e *Error) Error() string { return fmt.Sprintf("%s %q: %v", e.Op, e.Name, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// HeldError is the cause if another process owns the pool. It is an ErrNotReady.
type HeldError struct {
	// By describes that process: its Config.Holder, and more.
	By string
}

// Error names the process that owns the pool.
func (e *HeldError) Error() string { return fmt.Sprintf("%v: it is in use by %s", ErrNotReady, e.By) }

// Is makes errors.Is(err, ErrNotReady) true.
func (e *HeldError) Is(target error) bool { return target == ErrNotReady }

// HangError is the cause if the disk of a pool does not answer. It is an ErrNotReady. Its
// text stays the same while the disk hangs, so that repeated events aggregate.
type HangError struct {
	Where string    // the pool, in words
	Op    string    // the operation that waits for the disk
	Since time.Time // of its last progress
}

// Error names the pool and the operation, and what to do.
func (e *HangError) Error() string {
	return fmt.Sprintf("%v: the disk of %s does not answer: %q has been waiting for it since %s; "+
		"check the disk and the kernel's log; the agent refuses calls until it answers, and then continues",
		ErrNotReady, e.Where, e.Op, e.Since.UTC().Format(time.RFC3339))
}

// Is makes errors.Is(err, ErrNotReady) true.
func (e *HangError) Is(target error) bool { return target == ErrNotReady }

// SpaceError is the cause if the requested bytes are not available. It is an ErrNoSpace.
type SpaceError struct {
	Wanted, Available, Total int64
	// Kept is how much more would be available without the deleted volumes that are kept.
	Kept int64
	// MakingRoom is true if the next purges remove kept volumes for this request: try again after each.
	MakingRoom bool
	// NoInodes is true if the filesystem has too few free inodes for another volume, however many
	// bytes are free. Available is then 0.
	NoInodes bool
	// Estimate is true if the usage of some volume is not known exactly.
	Estimate bool
}

// Error gives the numbers in bytes, or says that inodes are missing.
func (e *SpaceError) Error() string {
	if e.NoInodes {
		return fmt.Sprintf("%v: its filesystem has no free inodes; remove files, or move volumes to another pool", ErrNoSpace)
	}
	text := fmt.Sprintf("%v: wanted %d bytes, %d of %d available",
		ErrNoSpace, e.Wanted, e.Available, e.Total)
	if e.MakingRoom {
		text += "; deleted volumes that were kept are being removed to make room"
	}
	return text
}

// Is makes errors.Is(err, ErrNoSpace) true.
func (e *SpaceError) Is(target error) bool { return target == ErrNoSpace }

// Failed returns the error of an operation; nil stays nil. The system's errors of a full
// disk become ErrNoSpace.
func Failed(op, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case IsFull(err) && !errors.Is(err, ErrNoSpace):
		err = fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return &Error{Op: op, Name: name, Err: err}
}

// Path adds operation and path to an error of the operating system; nil stays nil.
func Path(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: name, Err: err}
}

// maxName is NAME_MAX of every filesystem we serve.
const maxName = 255

// CheckName reports whether name can be a volume: [A-Za-z0-9._-], 1 to 255
// bytes, no leading dot. The error is an ErrInvalid with the reason.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: the name is empty", ErrInvalid)
	case len(name) > maxName:
		return fmt.Errorf("%w: the name has %d bytes, at most %d fit", ErrInvalid, len(name), maxName)
	case name[0] == '.':
		return fmt.Errorf("%w: the name %q begins with a dot", ErrInvalid, name)
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			c == '.', c == '_', c == '-':
		default:
			return fmt.Errorf("%w: the name %q has %q at byte %d; letters, digits, '.', '_' and '-' are allowed",
				ErrInvalid, name, c, i)
		}
	}
	return nil
}

// IsFull reports whether the kernel refused a write because the filesystem, or a quota, has no space left.
func IsFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

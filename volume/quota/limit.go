package quota

import (
	"errors"
	"fmt"
)

// What an Enforcer's errors wrap.
var (
	// ErrNone: the filesystem enforces no limits; Support says why.
	ErrNone = errors.New("the filesystem enforces no limits")
	// ErrInvalid: the limit asked for makes no sense here.
	ErrInvalid = errors.New("invalid limit")
	// ErrUsed: the limit in force would be lowered below what is in use.
	ErrUsed = errors.New("more than that is in use")
	// ErrForeign: the directory cannot have a limit of ours as it is: it has
	// an ID that is not ours or not its own, or content that no limit counts.
	ErrForeign = errors.New("not a directory of ours, or not a new one")
	// ErrUnlimited: the directory has no limit of ours.
	ErrUnlimited = errors.New("the directory has no limit of ours")
)

// An Enforcer sets the limits of one filesystem. Directories are handed over
// as open descriptors, not O_PATH ones. All methods may be called by many
// goroutines, for different directories also at once.
type Enforcer interface {
	// Support says what the filesystem can do.
	Support() Support

	// Make makes the directory name in parent, of the kind that can have a
	// limit. Its mode is for the caller to set, and 0700 until then. The error
	// is that of mkdir(2).
	Make(parent int, name string) error

	// Set puts the limit in force for the directory and everything that will
	// be in it, and returns the ID under which the kernel counts. The first
	// Set of a directory finds it empty, and id is 0. A later one raises or
	// lowers the limit while the directory is in use, and does nothing where
	// it is in force, so callers may repeat it. id is then what the first one
	// returned. An ID that the inode shows is never believed alone: a tenant who
	// is root in a container can give the directory another volume's, and the
	// limit changed would be that one's. Only a btrfs subvolume cannot change its
	// ID, and so may be named by 0 later, too.
	//
	// A crash before the next flush of the filesystem may bring the limit
	// before back; a directory's first one is on disk with the rename that
	// puts it into place, once that is flushed.
	//
	// The error is ErrUsed where it would lower a limit below what is in use
	// (a first limit may be lower: nothing more can then be written),
	// ErrForeign, ErrInvalid or ErrNone.
	Set(dir int, id uint64, want Limit) (uint64, error)

	// Usage returns what the kernel counts for the ID that Set returned for the
	// directory; 0 stands for the ID that the directory shows. It reads counters,
	// whatever the size of the tree. What was removed a moment ago may still
	// be in it. The error is ErrUnlimited where no Set came before, and ErrForeign
	// where the directory shows another ID: then what is in it may be counted
	// elsewhere, and the answer is still what is counted for id.
	Usage(dir int, id uint64) (Usage, error)

	// Remove removes the directory name from parent with everything in it, and
	// reports whether it did: false means that the filesystem cannot do that
	// in one step, or not with what is inside, and the tree is unchanged.
	// The caller makes sure that nothing is mounted there.
	Remove(parent int, name string) (removed bool, err error)

	// Sweep clears the limits on the filesystem of dir that belong to no
	// directory any more, and returns how many. It never touches one that is
	// in use, in whichever pool. What the filesystem still cleans up itself
	// after a removal is left for the next call.
	Sweep(dir int) (cleared int, err error)
}

// Support says how a filesystem enforces limits.
type Support struct {
	// Method is the kernel's mechanism, MethodNone where there is none.
	Method Method
	// Reason says in words why there is none and what to do about it. It is
	// empty where limits are enforced.
	Reason string
	// Inodes is whether the number of inodes can be limited, too.
	Inodes bool
}

// Method is a mechanism of the kernel.
type Method string

// The methods, as logs and metrics name them.
const (
	MethodNone  Method = "none"
	MethodXFS   Method = "xfs-project-quota"
	MethodExt4  Method = "ext4-project-quota"
	MethodBtrfs Method = "btrfs-squota"
)

// String is a sentence for the log.
func (s Support) String() string {
	if s.Method == MethodNone {
		return "limits are not enforced: " + s.Reason
	}
	return "limits are enforced by " + string(s.Method)
}

// Limit is the most that a directory may hold.
type Limit struct {
	// Bytes on disk, metadata of the tree included where the filesystem counts
	// it. What is in force is rounded up to whole blocks.
	Bytes int64
	// Inodes: files and directories, the directory itself among them. 0 means
	// no limit.
	Inodes uint64
}

// Usage is what a directory holds, and may hold.
type Usage struct {
	Bytes int64 // on disk, with what is reserved there for data that is not written yet
	// Unwritten is how much of Bytes the free space of the filesystem still has, as
	// btrfs reserves it for data that is not written yet.
	Unwritten int64
	Inodes    uint64 // 0 where they are not counted
	Limit     Limit  // in force
}

// mostBytes is an exbibyte; sums with it do not overflow.
const mostBytes = 1 << 60

// check returns ErrInvalid for what no filesystem takes.
func (l Limit) check(s Support) error {
	if l.Bytes <= 0 {
		return fmt.Errorf("%w: %d bytes; a volume has at least one", ErrInvalid, l.Bytes)
	}
	if l.Bytes > mostBytes {
		return fmt.Errorf("%w: %d bytes, which is more than any filesystem has", ErrInvalid, l.Bytes)
	}
	if l.Inodes > 0 && !s.Inodes {
		return fmt.Errorf("%w: %d inodes; %s does not count them", ErrInvalid, l.Inodes, s.Method)
	}
	return nil
}

// allowed returns ErrUsed where l takes away what was given and is in use. A
// directory without a limit so far may get any: it then holds what it holds.
func (l Limit) allowed(now Usage) error {
	if now.Limit.Bytes > l.Bytes && now.Bytes > l.Bytes {
		return fmt.Errorf("%w: %d bytes, which does not go into %d", ErrUsed, now.Bytes, l.Bytes)
	}
	if l.Inodes > 0 && now.Limit.Inodes > l.Inodes && now.Inodes > l.Inodes {
		return fmt.Errorf("%w: %d inodes, which do not go into %d", ErrUsed, now.Inodes, l.Inodes)
	}
	return nil
}

// same returns ErrForeign where a directory has another ID than it was given, 0
// being none.
func same[ID uint32 | uint64](has ID, given uint64) error {
	if uint64(has) != given {
		return fmt.Errorf("%w: it has the ID %d and was given %d", ErrForeign, has, given)
	}
	return nil
}

// roundUp returns bytes as whole blocks: a limit is never less than asked for.
func roundUp(bytes, block int64) int64 {
	return (bytes-1)/block*block + block
}

package quota

import (
	"errors"
	"fmt"
)

// The sentinels of an Enforcer's errors.
var (
	// ErrNone: the filesystem enforces no quotas; Support has the reason.
	ErrNone = errors.New("the filesystem enforces no quotas")
	// ErrInvalid: the requested quota makes no sense on this filesystem.
	ErrInvalid = errors.New("invalid quota")
	// ErrUsed: the quota in force would be lowered below what is in use.
	ErrUsed = errors.New("more than that is in use")
	// ErrForeign: the directory cannot have a quota as it is: it has an ID that is not of
	// this package or not its own, or content that would not count.
	ErrForeign = errors.New("the directory has an ID of another owner, or is not new")
	// ErrUnlimited: the directory has no quota of this package.
	ErrUnlimited = errors.New("the directory has no quota")
)

// An Enforcer sets quotas on one filesystem. Directories are open descriptors, not O_PATH ones. All
// methods may be called by many goroutines, for different directories also at once.
type Enforcer interface {
	// Support returns what the filesystem can do.
	Support() Support

	// Make creates the directory name in parent, of the kind that can have a quota. Its
	// mode is 0700 until the caller sets it. The error is that of mkdir(2).
	Make(parent int, name string) error

	// Set puts the quota in force for the directory and everything that will be in it,
	// and returns the ID under which the kernel counts. The first Set of a directory finds
	// it empty, and id is 0. A later one raises or lowers the quota while the directory is
	// in use, and does nothing if it is in force, so callers may repeat it; id is then the
	// result of the first one. Set never trusts the ID of the inode alone: a tenant who is
	// root in a container can set another volume's, and Set would change the quota of that
	// one. Only a btrfs subvolume cannot change its ID, so that id may be 0 later, too.
	//
	// A crash before the next flush of the filesystem may restore the quota of before. A
	// directory's first one is on the disk once the rename in place is flushed.
	//
	// The error is ErrUsed if Set would lower a quota below what is in use (a first quota
	// may be lower: nothing more can then be written), ErrForeign, ErrInvalid or ErrNone.
	Set(dir int, id uint64, want Limit) (uint64, error)

	// Usage returns what the kernel counts for the ID that Set returned for the directory; 0 stands
	// for the ID that the directory has now. It reads counters, whatever the size of the tree. Data
	// that was removed a moment ago may still count. The error is ErrUnlimited if there was no Set,
	// and ErrForeign if the directory now has another ID: its content may then count for that one,
	// and the result is still that of id.
	Usage(dir int, id uint64) (Usage, error)

	// Remove removes the directory name from parent with everything in it, and reports whether it
	// did: false means that the filesystem cannot do that in one step, or not with this content,
	// and the tree is unchanged. The caller makes sure that nothing is mounted there.
	Remove(parent int, name string) (removed bool, err error)

	// Sweep clears the quotas on the filesystem of dir that belong to no directory any
	// more, and returns how many. It changes none that is in use, in any pool. It leaves a
	// quota that the filesystem is still cleaning up after a removal to the next call.
	Sweep(dir int) (cleared int, err error)
}

// Support describes how a filesystem enforces quotas.
type Support struct {
	// Method is the kernel's mechanism, MethodNone if there is none.
	Method Method
	// Reason explains why there is none, and what to do; "" if quotas are enforced.
	Reason string
	// Inodes reports whether quotas on inodes are enforced, too.
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
		return "quotas are not enforced: " + s.Reason
	}
	return "quotas are enforced by " + string(s.Method)
}

// Limit is a quota: the most that a directory may hold.
type Limit struct {
	// Bytes on disk, with metadata of the tree if the filesystem counts it. The quota in
	// force is rounded up to whole blocks.
	Bytes int64
	// Inodes: files and directories, the directory itself among them. 0 means no quota on them.
	Inodes uint64
}

// Usage is the usage of a directory, and its quota.
type Usage struct {
	Bytes int64 // on disk, with space that is reserved for unwritten data
	// Unwritten is the part of Bytes that btrfs has reserved for unwritten data. The free
	// space of the filesystem still contains it.
	Unwritten int64
	Inodes    uint64 // 0 if they are not counted
	Limit     Limit  // in force
}

// mostBytes is an exbibyte. Sums with it do not overflow.
const mostBytes = 1 << 60

// check returns an ErrInvalid for a quota that no filesystem supports.
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

// allowed returns ErrUsed if l is less than the quota in force and than what is in use. A
// directory without a quota so far may get any.
func (l Limit) allowed(now Usage) error {
	if now.Limit.Bytes > l.Bytes && now.Bytes > l.Bytes {
		return fmt.Errorf("%w: %d bytes are in use, and the quota would be %d", ErrUsed, now.Bytes, l.Bytes)
	}
	if l.Inodes > 0 && now.Limit.Inodes > l.Inodes && now.Inodes > l.Inodes {
		return fmt.Errorf("%w: %d inodes are in use, and the quota would be %d", ErrUsed, now.Inodes, l.Inodes)
	}
	return nil
}

// same returns an ErrForeign if a directory has another ID than it was given; 0 is no ID.
func same[ID uint32 | uint64](has ID, given uint64) error {
	if uint64(has) != given {
		return fmt.Errorf("%w: it has the ID %d and was given %d", ErrForeign, has, given)
	}
	return nil
}

// roundUp returns bytes as whole blocks: a quota is never less than requested.
func roundUp(bytes, block int64) int64 {
	return (bytes-1)/block*block + block
}

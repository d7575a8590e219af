package quota

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"golang.org/x/sys/unix"
)

// The project IDs of the agent. Other programs count up from 1 or, in the kubelet, from 2^20;
// systemd begins at 2^31.
const (
	firstID = 1 << 30
	lastID  = 1<<31 - 1
)

// project enforces quotas by project quota. XFS and ext4 have the same calls.
type project struct {
	method Method
	// candidate proposes a new ID.
	candidate func() uint32
	step      func(string)         // see Hooks
	taken     func(id uint64) bool // see Hooks
}

func newProject(method Method, hooks Hooks) project {
	return project{method: method, step: hooks.Step, taken: hooks.Taken,
		candidate: func() uint32 { return firstID + rand.Uint32N(lastID-firstID+1) }}
}

func (p project) Support() Support { return Support{Method: p.method, Inodes: true} }

func (p project) Make(parent int, name string) error {
	p.step("make")
	return unix.Mkdirat(parent, name, 0o700)
}

func (p project) Set(dir int, given uint64, want Limit) (uint64, error) {
	want, err := p.checked(dir, want)
	if err != nil {
		return 0, err
	}
	id, err := projectOf(dir)
	switch {
	case err != nil:
	case given == 0 && id == 0:
		id, err = p.assign(dir)
	default:
		err = same(id, given)
	}
	if err != nil {
		return 0, err
	}
	q, err := quotaOf(dir, id)
	if err != nil {
		return 0, fmt.Errorf("read the quota of project %d: %w", id, err)
	}
	now := q.usage()
	if now.Limit == want {
		return uint64(id), nil
	}
	if err := want.allowed(now); err != nil {
		return 0, err
	}
	p.step("set")
	if err := setQuota(dir, id, want); err != nil {
		return 0, fmt.Errorf("set the quota of project %d: %w", id, err)
	}
	return uint64(id), nil
}

// checked returns the quota in whole blocks, if the filesystem enforces it at this moment. An
// administrator may have turned quotas off since the probe, and later calls would still succeed.
func (p project) checked(dir int, want Limit) (Limit, error) {
	if err := want.check(p.Support()); err != nil {
		return want, err
	}
	if _, enforced, err := projectState(dir); err != nil || !enforced {
		return want, errors.Join(fmt.Errorf("%w: its project quota was turned off", ErrNone), err)
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(dir, &st); err != nil {
		return want, fmt.Errorf("statfs: %w", err)
	}
	want.Bytes = roundUp(want.Bytes, st.Bsize)
	return want, nil
}

func (p project) Usage(dir int, given uint64) (Usage, error) {
	shown, err := projectOf(dir)
	if given != 0 && err == nil {
		err = same(shown, given)
	}
	if err != nil && (given == 0 || !errors.Is(err, ErrForeign)) {
		return Usage{}, err
	}
	id := uint32(given)
	if given == 0 {
		id = shown
	}
	if id == 0 {
		return Usage{}, ErrUnlimited
	}
	q, why := quotaOf(dir, id)
	switch {
	case why != nil:
		return Usage{}, errors.Join(err, fmt.Errorf("read the quota of project %d: %w", id, why))
	case err == nil && !q.limited():
		err = ErrUnlimited
	}
	return q.usage(), err
}

func (p project) Remove(int, string) (bool, error) { return false, nil }

func (p project) Sweep(dir int) (cleared int, err error) {
	for id := uint32(firstID); ; id++ {
		q, ok, err := nextQuota(dir, id)
		if err != nil {
			return cleared, fmt.Errorf("list the quotas from project %d on: %w", id, err)
		}
		if !ok || q.ID > lastID {
			return cleared, nil
		}
		id = q.ID
		// assign gives the inode its ID before the ID has a quota, and takes no ID that has one.
		// So no call is about to use the ID that is cleared here.
		if q.Inodes > 0 || !q.limited() {
			continue
		}
		p.step("clear")
		if err := setQuota(dir, id, Limit{}); err != nil {
			return cleared, fmt.Errorf("clear the quota of project %d, which no inode has: %w", id, err)
		}
		cleared++
	}
}

// projectOf returns the ID of the agent that the directory's children inherit, 0 if it has none.
func projectOf(dir int) (id uint32, err error) {
	a, err := GetAttr(dir)
	if err != nil {
		return 0, fmt.Errorf("read the project ID: %w", err)
	}
	own := a.Project >= firstID && a.Project <= lastID
	switch inherits := a.Flags&ProjectInherit != 0; {
	case own && inherits:
		return a.Project, nil
	case a.Project == 0 && !inherits:
		return 0, nil
	}
	return 0, fmt.Errorf("%w: it has the project ID %d, inherited by its children: %v", ErrForeign, a.Project,
		a.Flags&ProjectInherit != 0)
}

// tries bounds the IDs that assign tries. With a billion of them it rarely needs a second one.
const tries = 1000

// assign gives an empty directory an ID that no other inode on the filesystem has. If two calls, in
// any processes, take the same free ID at the same moment, the kernel counts two inodes for it, and
// both calls take another ID.
func (p project) assign(dir int) (uint32, error) {
	if err := onlyEmpty(dir); err != nil {
		return 0, err
	}
	for range tries {
		id, err := p.free(dir)
		if err != nil {
			return 0, err
		}
		alone, err := p.take(dir, id, ProjectInherit)
		if alone || err != nil {
			return id, err
		}
	}
	return 0, errNoID()
}

// free returns an ID that no inode has at this moment.
func (p project) free(dir int) (uint32, error) {
	for range tries {
		id := p.candidate()
		if p.taken(uint64(id)) {
			continue
		}
		q, err := quotaOf(dir, id)
		if err != nil {
			return 0, fmt.Errorf("read the quota of project %d: %w", id, err)
		}
		if !q.used() {
			return id, nil
		}
	}
	return 0, errNoID()
}

func errNoID() error {
	return fmt.Errorf("no free project ID after %d tries from %d to %d", tries, firstID, lastID)
}

// take gives the directory the ID and flags, and reports whether no other inode has the ID. If
// another one has it, take restores the directory.
func (p project) take(dir int, id, flags uint32) (alone bool, err error) {
	a, err := GetAttr(dir)
	if err != nil {
		return false, fmt.Errorf("read the project ID: %w", err)
	}
	before := a
	a.Project, a.Flags = id, a.Flags|flags
	p.step("assign")
	switch err := SetAttr(dir, a); {
	case errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.ENOSPC):
		return false, nil // taken meanwhile, with a full quota
	case err != nil:
		return false, fmt.Errorf("set the project ID %d: %w", id, err)
	}
	q, err := quotaOf(dir, id)
	if err == nil && q.Inodes == 1 && !q.limited() {
		return true, nil
	}
	p.step("giveback")
	return false, errors.Join(err, SetAttr(dir, before))
}

// onlyEmpty returns an ErrForeign if the directory has entries: a first quota would not count them,
// and the kernel would refuse to rename them within the directory.
func onlyEmpty(dir int) error {
	// With its own descriptor: another call may be reading from the caller's.
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open it for reading: %w", err)
	}
	defer unix.Close(fd)
	buf := make([]byte, 4096)
	for {
		n, err := unix.ReadDirent(fd, buf)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return fmt.Errorf("read it: %w", err)
		case n == 0:
			return nil
		}
		if _, _, names := unix.ParseDirent(buf[:n], -1, nil); len(names) > 0 {
			return fmt.Errorf("%w: it has no quota yet, and is not empty", ErrForeign)
		}
	}
}

// A Restorer is an Enforcer for directories whose ID root in the volume's pod can change. Only
// project quota has such IDs: the ID of a btrfs volume is the ID of its subvolume.
type Restorer interface {
	Enforcer

	// Restore restores the ID that Set returned for the directory, and its inheritance. It changes
	// only the directory: entries that were created meanwhile keep their ID. It changes no quota.
	// The caller makes sure that no other directory has the ID. The error is ErrForeign, and nothing
	// changes, if the directory has entries and the kernel counts nothing for the ID.
	Restore(dir int, id uint64) error
}

func (p project) Restore(dir int, id uint64) error {
	if id < firstID || id > lastID {
		return fmt.Errorf("%w: the project ID %d is not one of the agent's", ErrInvalid, id)
	}
	q, err := quotaOf(dir, uint32(id))
	if err != nil {
		return fmt.Errorf("read the quota of project %d: %w", id, err)
	}
	if !q.used() && !q.limited() {
		if err := onlyEmpty(dir); err != nil {
			return fmt.Errorf("none of its files counts for it, as after a copy of the pool to another disk: "+
				"copy its data into the volume of a new claim to have a quota: %w", err)
		}
	}
	a, err := GetAttr(dir)
	if err != nil {
		return fmt.Errorf("read the project ID: %w", err)
	}
	a.Project, a.Flags = uint32(id), a.Flags|ProjectInherit
	p.step("restore")
	if err := SetAttr(dir, a); err != nil {
		return fmt.Errorf("restore the project ID %d of the directory: %w", id, err)
	}
	return nil
}

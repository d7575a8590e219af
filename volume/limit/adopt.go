package limit

import (
	"errors"
	"fmt"
)

// An Adopter is an Enforcer that can hold a directory which was filled before
// it had a limit. Each of its inodes has to be given the ID first, and each of
// its directories told to hand it down, in this order: the kernel refuses, with
// EXDEV, to rename or link what has another ID into a directory that hands down
// its own. So while only some directories do, or some inodes lack the ID, no
// program may use the tree. Once all do, Set puts a limit in force.
//
// Project quota alone has it: a plain directory of btrfs cannot become a
// subvolume.
type Adopter interface {
	Enforcer

	// Free returns an ID that nothing on the filesystem of dir has.
	Free(dir int) (uint64, error)

	// Claim gives the top directory the ID, without handing it down. It does
	// nothing where it has the ID. The error is ErrTaken where another inode
	// of the filesystem has it, ErrForeign where dir has another ID.
	Claim(dir int, id uint64) error

	// Mark gives a regular file or a directory the ID; before is called before
	// it is changed, which is reported. The error is ErrForeign where it has an
	// ID already, which is another one.
	Mark(fd int, id uint64, before func()) (changed bool, err error)

	// HandDown makes a directory that has the ID hand it down, as Mark does.
	HandDown(dir int, id uint64, before func()) (changed bool, err error)

	// UsageOf says what the kernel counts for an ID.
	UsageOf(dir int, id uint64) (Usage, error)

	// Restore gives the directory back the ID that Set returned for it, and makes
	// it hand that down, whatever ID it shows now. It changes the directory alone:
	// what was made in it meanwhile keeps its ID. No limit is touched. The caller
	// makes sure that no other directory was given the ID.
	Restore(dir int, id uint64) error
}

// ErrTaken is the cause where something else has the ID.
var ErrTaken = errors.New("the ID is taken")

func (p project) Free(dir int) (uint64, error) {
	id, err := p.free(dir)
	return uint64(id), err
}

func (p project) Claim(dir int, id uint64) error {
	a, err := GetAttr(dir)
	if err != nil {
		return fmt.Errorf("read the project ID: %w", err)
	}
	if a.Project != 0 {
		return mine(a, id)
	}
	q, err := quotaOf(dir, uint32(id))
	if err != nil {
		return fmt.Errorf("read the quota of project %d: %w", id, err)
	}
	if q.used() {
		return fmt.Errorf("%w: project %d", ErrTaken, id)
	}
	if a.Flags&ProjectInherit != 0 { // it hands down none; see Mark
		if _, err := ClearFlags(dir, ProjectInherit); err != nil {
			return fmt.Errorf("clear the flag that hands down no ID: %w", err)
		}
	}
	alone, err := p.take(dir, uint32(id), 0)
	if err == nil && !alone {
		err = fmt.Errorf("%w: project %d", ErrTaken, id)
	}
	return err
}

func (p project) Mark(fd int, id uint64, before func()) (bool, error) {
	a, err := GetAttr(fd)
	if err != nil {
		return false, fmt.Errorf("read the project ID: %w", err)
	}
	if a.Project != 0 {
		return false, mine(a, id)
	}
	before()
	// One that hands down no ID must not begin to hand down this one yet.
	a.Project, a.Flags = uint32(id), a.Flags&^ProjectInherit
	return true, SetAttr(fd, a)
}

func (p project) HandDown(dir int, id uint64, before func()) (bool, error) {
	a, err := GetAttr(dir)
	if err != nil {
		return false, fmt.Errorf("read the project ID: %w", err)
	}
	if err := mine(a, id); err != nil || a.Flags&ProjectInherit != 0 {
		return false, err
	}
	before()
	a.Flags |= ProjectInherit
	return true, SetAttr(dir, a)
}

func (p project) Restore(dir int, id uint64) error {
	if id < firstID || id > lastID {
		return fmt.Errorf("%w: the project ID %d is none of ours", ErrInvalid, id)
	}
	a, err := GetAttr(dir)
	if err != nil {
		return fmt.Errorf("read the project ID: %w", err)
	}
	a.Project, a.Flags = uint32(id), a.Flags|ProjectInherit
	p.step("restore")
	if err := SetAttr(dir, a); err != nil {
		return fmt.Errorf("give the directory its project ID %d back: %w", id, err)
	}
	return nil
}

// mine returns ErrForeign unless an inode has the ID.
func mine(a Attr, id uint64) error {
	if uint64(a.Project) != id {
		return fmt.Errorf("%w: it has the project ID %d", ErrForeign, a.Project)
	}
	return nil
}

func (p project) UsageOf(dir int, id uint64) (Usage, error) {
	q, err := quotaOf(dir, uint32(id))
	if err != nil {
		return Usage{}, fmt.Errorf("read the quota of project %d: %w", id, err)
	}
	return q.usage(), nil
}

// StopHandingDown makes a directory hand down its ID no more.
func StopHandingDown(dir int, before func()) error {
	a, err := GetAttr(dir)
	if err != nil || a.Flags&ProjectInherit == 0 {
		return err
	}
	before()
	a.Flags &^= ProjectInherit
	return SetAttr(dir, a)
}

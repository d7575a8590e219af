package quota

import "fmt"

// A Restorer is an Enforcer for directories whose ID root in the volume's pod can
// change. Only project quota has such IDs: the ID of a btrfs volume is the ID of its
// subvolume.
type Restorer interface {
	Enforcer

	// Restore gives the directory back the ID that Set returned for it, and makes
	// it hand that down, whatever ID it shows now. It changes the directory alone:
	// what was made in it meanwhile keeps its ID. No limit is touched. The caller
	// makes sure that no other directory was given the ID.
	Restore(dir int, id uint64) error
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

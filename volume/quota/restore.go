package quota

import "fmt"

// A Restorer is an Enforcer for directories whose ID root in the volume's pod can change. Only
// project quota has such IDs: the ID of a btrfs volume is the ID of its subvolume.
type Restorer interface {
	Enforcer

	// Restore restores the ID that Set returned for the directory, and its inheritance. It changes
	// only the directory: entries that were created meanwhile keep their ID. It changes no quota.
	// The caller makes sure that no other directory has the ID.
	Restore(dir int, id uint64) error
}

func (p project) Restore(dir int, id uint64) error {
	if id < firstID || id > lastID {
		return fmt.Errorf("%w: the project ID %d is not one of the agent's", ErrInvalid, id)
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

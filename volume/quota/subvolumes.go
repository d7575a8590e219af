package quota

// subvolumes is the Enforcer of a btrfs without quotas. Its directories are subvolumes all the same: they
// can be copied in one step while they are used, and removed in one step.
type subvolumes struct {
	none
	step func(string) // announces a change
}

func (s subvolumes) Make(parent int, name string) error {
	s.step("make")
	if err := subvolume(parent, btrfsSubvolCreate, name); err != nil {
		return err
	}
	s.step("mode")
	return closeToOthers(parent, name)
}

func (s subvolumes) Remove(parent int, name string) (bool, error) {
	return squota{step: s.step}.Remove(parent, name)
}

func (s subvolumes) Snapshot(source, parent int, name string) error {
	s.step("snapshot")
	return snapshot(source, parent, name)
}

func (s subvolumes) SetSnapshot(dir int, want Limit) (uint64, error) { return s.Set(dir, 0, want) }

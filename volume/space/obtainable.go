package space

// Obtainable is the largest request that a new volume, or one that grows, can get: what is available, and
// what is once deleted volumes that are kept are removed for it. Create and Expand begin to do that for
// a request which is not available yet; see fault.SpaceError.
func (s Space) Obtainable() int64 { return s.Available + s.Kept }

// CheckObtainable is Check for a caller that asks before Create does.
func (s Space) CheckObtainable(wanted int64) error {
	if wanted <= s.Obtainable() {
		return nil
	}
	return s.Check(wanted)
}

package space

import "kubevirt.io/hostpath-provisioner/volume/fault"

// Space is the space of a pool, in bytes.
type Space struct {
	Total     int64 `json:"total"`
	Free      int64 `json:"free"`      // for users, without the filesystem's root reserve
	Used      int64 `json:"used"`      // by volumes at least, each counted up to its allocation
	External  int64 `json:"external"`  // total - free - what volumes surely use: data outside of volumes, trash included
	Allocated int64 `json:"allocated"` // to volumes that are not being deleted
	Elsewhere int64 `json:"elsewhere"` // allocated by the process's other pools on the same filesystem
	// Available is max(0, ratio*(total-reserve-external) - allocated - elsewhere), at most
	// free - reserve; 0 with NoInodes.
	Available int64 `json:"available"`
	// Kept is how much more would surely be available without the deleted volumes that are kept. Create
	// and Expand do not rest on it: they begin to remove such volumes; see fault.SpaceError.
	Kept int64 `json:"kept,omitempty"`
	// NoInodes is true if the filesystem has too few free inodes for another volume.
	NoInodes bool `json:"noInodes,omitempty"`
	// Estimate is true if the usage of some volume is not known exactly.
	Estimate bool `json:"estimate"`

	margins margins `json:"-"`
}

// margins has in bytes of the filesystem what Available does not show.
type margins struct {
	// free and allocation are what is left of free space, and of what may be allocated; less than 0 if
	// external data has more.
	free, allocation int64
	overcommit       float64
	// lacking is what is allocated or reserved, and neither written nor free.
	lacking int64
}

// Check returns a fault.SpaceError if the pool does not have the wanted bytes available.
func (s Space) Check(wanted int64) error {
	if wanted <= s.Available {
		return nil
	}
	return &fault.SpaceError{Wanted: wanted, Available: s.Available, Total: s.Total, Kept: s.Kept, NoInodes: s.NoInodes,
		Estimate: s.Estimate}
}

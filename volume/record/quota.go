package record

import "cmp"

// LimitPolicy says what becomes of a volume where the pool's filesystem
// enforces no limits, or none on inodes where one is asked for.
type LimitPolicy string

// The policies.
const (
	// LimitBestEffort: the volume is made all the same, with what can be
	// enforced. Volume says what is not.
	LimitBestEffort LimitPolicy = ""
	// LimitRequired: Create refuses with ErrNoLimits.
	LimitRequired LimitPolicy = "required"
	// LimitNone: no limit is set, wherever the volume is.
	LimitNone LimitPolicy = "none"
)

// String is the policy's name in messages.
func (l LimitPolicy) String() string { return cmp.Or(string(l), "best-effort") }

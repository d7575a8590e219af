package record

import "cmp"

// QuotaPolicy says what becomes of a volume where the pool's filesystem
// enforces no limits, or none on inodes where one is asked for.
type QuotaPolicy string

// The policies.
const (
	// QuotaBestEffort: the volume is made all the same, with what can be
	// enforced. Volume says what is not.
	QuotaBestEffort QuotaPolicy = ""
	// QuotaRequired: Create refuses with ErrNoQuotas.
	QuotaRequired QuotaPolicy = "required"
	// QuotaNone: no limit is set, wherever the volume is.
	QuotaNone QuotaPolicy = "none"
)

// String is the policy's name in messages.
func (l QuotaPolicy) String() string { return cmp.Or(string(l), "best-effort") }

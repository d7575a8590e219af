package record

import "cmp"

// QuotaPolicy decides about a volume in a pool that enforces no quotas, or none on inodes
// if one is requested.
type QuotaPolicy string

// The policies.
const (
	// QuotaBestEffort: Create creates the volume with the quotas that can be enforced.
	QuotaBestEffort QuotaPolicy = ""
	// QuotaRequired: Create returns ErrNoQuotas.
	QuotaRequired QuotaPolicy = "required"
	// QuotaNone: no quota is set, in any pool.
	QuotaNone QuotaPolicy = "none"
)

// String is the policy's name in messages.
func (l QuotaPolicy) String() string { return cmp.Or(string(l), "best-effort") }

package volume

import "kubevirt.io/hostpath-provisioner/volume/record"

type (
	// Record is what the agent remembers of a volume.
	Record = record.Record
	// State is the point in its life at which a volume is.
	State = record.State
	// Owner is the claim of a volume.
	Owner = record.Owner
	// Orphan is what was last noted of a volume whose PV is gone.
	Orphan = record.Orphan
	// Migration is the journal of a volume whose PV is replaced.
	Migration = record.Migration
	// QuotaPolicy decides what happens to a volume if its pool enforces no quotas.
	QuotaPolicy = record.QuotaPolicy
)

// The states of a volume, in the order of its life.
const (
	Creating = record.Creating
	Ready    = record.Ready
	Bound    = record.Bound
	Deleting = record.Deleting
)

// The policies for pools without limits.
const (
	QuotaBestEffort = record.QuotaBestEffort
	QuotaRequired   = record.QuotaRequired
	QuotaNone       = record.QuotaNone
)

package volume

import "kubevirt.io/hostpath-provisioner/volume/record"

// What callers know of a volume; see package record.
type (
	Record        = record.Record
	State         = record.State
	Owner         = record.Owner
	Orphan        = record.Orphan
	Migration     = record.Migration
	MigrationStep = record.MigrationStep
	LimitPolicy   = record.LimitPolicy
)

// The states of a volume, in the order of its life.
const (
	Creating = record.Creating
	Ready    = record.Ready
	Bound    = record.Bound
	Deleting = record.Deleting
)

// The steps of a migration, in their order.
const (
	MigrationPrepared = record.MigrationPrepared
	MigrationCutover  = record.MigrationCutover
	MigrationDone     = record.MigrationDone
)

// The policies for pools without limits.
const (
	LimitBestEffort = record.LimitBestEffort
	LimitRequired   = record.LimitRequired
	LimitNone       = record.LimitNone
)

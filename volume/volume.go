package volume

import (
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Spec is what a caller asks for.
type Spec struct {
	Name    string // [A-Za-z0-9._-], 1 to 255 bytes, no leading dot
	Bytes   int64  // the allocation; more than zero, or zero if it is adopted
	Owner   Owner
	PV      string // the PV that will name, or names, the volume
	Cluster string
	// ReclaimPolicy of the PV, as far as it is known.
	ReclaimPolicy string
	// Ephemeral volumes are deleted with their pod; no PV ever names them.
	Ephemeral bool
	// Quota decides about a pool that enforces no quotas. In any other, the kernel holds
	// the volume to Bytes unless this is QuotaNone.
	Quota QuotaPolicy
	// Inodes is the most that it may have, itself among them; 0 is no quota on inodes.
	Inodes uint64
}

// Volume is a volume as callers see it: its record and its place.
type Volume struct {
	Record
	// Path is <pool path>/<name>.
	Path string
	// Missing is true if the record is there and the directory is not.
	Missing bool
	// QuotaEnforced is true if the kernel holds the volume to its bytes.
	QuotaEnforced bool
	// NotEnforced describes the part of its quota that the kernel does not enforce, and
	// why; "" if it enforces all of it.
	NotEnforced string
}

// Binding is the content of a PV of this node that the volume's record repeats.
type Binding struct {
	PV            string
	ReclaimPolicy string
	Owner         Owner
	Cluster       string
}

type (
	// Record is what the agent records of a volume.
	Record = record.Record
	// State is where a volume is in its life.
	State = record.State
	// Owner is the claim of a volume.
	Owner = record.Owner
	// Orphan is the note on a volume whose PV is gone.
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

// The labels of new volumes; see package pooldir.
const (
	LabelAuto    = pooldir.LabelAuto
	DefaultLabel = pooldir.DefaultLabel
)

// Expected is what PVs show of a pool before it is opened; see package
// pooldir.
type Expected = pooldir.Expected

// Error says which operation failed on which volume, and why.
type Error = fault.Error

// HeldError is the cause where another process owns the pool.
type HeldError = fault.HeldError

// HangError is the cause where the disk of a pool does not answer.
type HangError = fault.HangError

// SpaceError is the cause of a refusal for want of space, in bytes.
type SpaceError = fault.SpaceError

// The sentinels of errors, which package fault describes. Every
// error of this package is an *Error that wraps one of these or the operating
// system's own error.
var (
	ErrNotReady  = fault.ErrNotReady
	ErrNotOpened = fault.ErrNotOpened
	ErrInvalid   = fault.ErrInvalid
	ErrConflict  = fault.ErrConflict
	ErrNotFound  = fault.ErrNotFound
	ErrNoSpace   = fault.ErrNoSpace
	ErrInUse     = fault.ErrInUse
	ErrNotEmpty  = fault.ErrNotEmpty
	ErrNoQuotas  = fault.ErrNoQuotas
	ErrMigrating = fault.ErrMigrating
	ErrDamaged   = fault.ErrDamaged
)

// CheckName reports whether name can be a volume: [A-Za-z0-9._-], 1 to 255
// bytes, no leading dot. The error is an ErrInvalid.
func CheckName(name string) error { return fault.CheckName(name) }

// Check returns an error for a path that cannot be a pool; see pooldir.Check.
func Check(path string) error { return pooldir.Check(path) }

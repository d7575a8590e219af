package volume

import (
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
)

// What can be wrong, for errors.Is; package fault says what each means. Every
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

// Error says which operation failed on which volume, and why.
type Error = fault.Error

// HeldError is the cause where another process owns the pool.
type HeldError = fault.HeldError

// HangError is the cause where the disk of a pool does not answer.
type HangError = fault.HangError

// SpaceError is the cause of a refusal for want of space, in bytes.
type SpaceError = fault.SpaceError

// CheckName reports whether name can be a volume: [A-Za-z0-9._-], 1 to 255
// bytes, no leading dot. The error is an ErrInvalid and says what is wrong.
func CheckName(name string) error { return fault.CheckName(name) }

// Expected is what others know of a pool before it is opened; see package
// pooldir.
type Expected = pooldir.Expected

// The labels of new volumes; see package pooldir.
const (
	LabelAuto    = pooldir.LabelAuto
	DefaultLabel = pooldir.DefaultLabel
)

// Check reports what cannot be a pool, whatever its state; see pooldir.Check.
func Check(path string) error { return pooldir.Check(path) }

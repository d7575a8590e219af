package volume

import (
	"fmt"
	"slices"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Spec describes a volume that Create creates or Adopt records.
type Spec = record.Spec

// Volume is a volume as callers see it: its record and its place.
type Volume struct {
	record.Record
	// Path is <pool path>/<name>.
	Path string
	// Missing is true if the record is there and the directory is not.
	Missing bool
	// QuotaEnforced is true if the kernel enforces the quota of bytes.
	QuotaEnforced bool
	// NotEnforced describes the part of its quota that the kernel does not enforce, and
	// why; "" if it enforces all of it.
	NotEnforced string
}

// Binding is the content of a PV of this node that the volume's record repeats.
type Binding struct {
	PV            string
	ReclaimPolicy string
	Owner         record.Owner
	// UID is that of the PV, "" if it may not delete the volume. Cluster is recorded with it.
	UID, Cluster string
	// Bound: the PV is Bound to a claim that exists. UID and Cluster replace what is recorded.
	Bound bool
}

// The sentinels of errors, which package fault describes. Every error of this package is a
// *fault.Error that wraps one of these or the operating system's own error.
var (
	ErrNotReady  = fault.ErrNotReady
	ErrInvalid   = fault.ErrInvalid
	ErrConflict  = fault.ErrConflict
	ErrNotFound  = fault.ErrNotFound
	ErrNoSpace   = fault.ErrNoSpace
	ErrInUse     = fault.ErrInUse
	ErrNoQuotas  = fault.ErrNoQuotas
	ErrMigrating = fault.ErrMigrating
	ErrSetAside  = fault.ErrSetAside
	ErrDamaged   = fault.ErrDamaged
	ErrCloning   = fault.ErrCloning
	ErrSource    = fault.ErrSource
	ErrUnshared  = fault.ErrUnshared
	ErrYielded   = fault.ErrYielded
)

// CheckName returns an ErrInvalid unless name is 1 to 255 bytes of [A-Za-z0-9._-], no leading dot.
func CheckName(name string) error { return fault.CheckName(name) }

// checkName refuses a name that no volume of this pool can have.
func (p *Pool) checkName(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if slices.Contains(p.config.Inner, name) {
		return fmt.Errorf("%w: the name %q is that of a pool inside this one", ErrInvalid, name)
	}
	return nil
}

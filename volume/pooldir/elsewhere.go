package pooldir

import (
	"fmt"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// Selection is whether the pool belongs on this node.
type Selection int

const (
	// Selected is the zero value: the pool is opened, and founded if it is not there.
	Selected Selection = iota
	// NotSelected is a pool of other nodes. It is opened if it is there all the same, and else it is
	// not missing.
	NotSelected
	// Unknown is a pool that may be of other nodes. It is opened if it is there, and else it is missing.
	Unknown
)

// Elsewhere returns why the pool is none of this node's, "" if it is one, or may be: the labels of the
// node do not match, and the last attempt to open the pool found neither it nor PVs of it.
func (o *Opener) Elsewhere() string {
	if why := o.elsewhere.Load(); why != nil {
		return *why
	}
	return ""
}

// mayFound returns an error for a pool that is founded on other nodes only.
func (o *Opener) mayFound(e Expected) error {
	switch s, why := o.config.Selected(); {
	case s == Selected || len(e.IDs)+len(e.Volumes) > 0 || o.ID() != "": // admit decides
		return nil
	case s == NotSelected:
		o.elsewhere.Store(&why)
		return fmt.Errorf("%w: %s", fault.ErrNotReady, why)
	default:
		return fmt.Errorf("%w: %s; a pool that is not there yet is not made", fault.ErrNotReady, why)
	}
}

// isFounded reports whether there is a pool at the path, or something that keeps it from being read.
func (o *Opener) isFounded() bool {
	if _, err := o.mounted(); err != nil {
		return false
	}
	base, err := openBase(o.config.Path)
	if err != nil || base < 0 {
		return false
	}
	defer func() { _ = unix.Close(base) }() // it was only read
	private, err := openDir(base, PrivateName)
	if err != nil || private < 0 {
		return err != nil
	}
	defer func() { _ = unix.Close(private) }()
	id, err := readIdentity(private)
	return err != nil || id.ID != ""
}

package quota

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// none is the Enforcer of a filesystem without quotas.
type none struct{ reason string }

func (n none) Support() Support { return Support{Method: MethodNone, Reason: n.reason} }

func (n none) Make(parent int, name string) error { return unix.Mkdirat(parent, name, 0o700) }

func (n none) Set(int, uint64, Limit) (uint64, error) { return 0, n.refused() }

func (n none) Usage(int, uint64) (Usage, error) { return Usage{}, n.refused() }

func (n none) refused() error { return fmt.Errorf("%w: %s", ErrNone, n.reason) }

func (n none) Remove(int, string) (bool, error) { return false, nil }

func (n none) Sweep(int) (int, error) { return 0, nil }

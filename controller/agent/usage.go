package agent

import (
	"errors"
	"fmt"

	"kubevirt.io/hostpath-provisioner/volume"
)

// usageError is an error in the command line or in a setting. Starting again
// with the same arguments fails again.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usagef returns an error in the command line, formatted as fmt.Errorf does.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// settingError returns err as a usageError. A disk that is not mounted is not
// one: it can be mounted later.
func settingError(err error) error {
	if err == nil || errors.Is(err, volume.ErrNotReady) {
		return err
	}
	return usageError{err}
}

// ExitCode returns the exit code of a process that ends with the error: 2 if
// the caller has to change the command line or a setting, else 1.
func ExitCode(err error) int {
	if errors.As(err, new(usageError)) {
		return 2
	}
	return 1
}

package tree

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// explain adds the name to an error, and describes the error of a mount.
func explain(name string, err error) error {
	if err == unix.EXDEV || err == unix.EBUSY {
		return fmt.Errorf("%s: something is mounted there: %w", shown(name), err)
	}
	return pathError("remove", name, err)
}

// failures keeps the first few errors of many, without errStopped.
type failures struct {
	errs  []error
	more  int
	stays bool // errStays was among them
}

func (f *failures) add(err error) {
	f.stays = f.stays || err == errStays
	switch {
	case err == nil || err == errStopped:
	case len(f.errs) < 3:
		f.errs = append(f.errs, err)
	default:
		f.more++
	}
}

func (f *failures) join() error {
	if f.more > 0 {
		return errors.Join(append(f.errs, fmt.Errorf("and %d more", f.more))...)
	}
	return errors.Join(f.errs...)
}

// pathError adds operation and name to an error of the operating system.
func pathError(op, name string, err error) error {
	errno, ok := err.(unix.Errno) //nolint:errorlint // a wrapped one has its name already
	if !ok {
		return err
	}
	return &os.PathError{Op: op, Path: shown(name), Err: errno}
}

// shown returns a name that is safe in a log: a tenant can choose any bytes.
func shown(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

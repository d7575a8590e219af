package fault

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFailedMapsWhatTheSystemSays(t *testing.T) {
	for errno, want := range map[unix.Errno]error{
		unix.ENOSPC: ErrNoSpace, unix.EDQUOT: ErrNoSpace,
	} {
		err := Failed("op", "v", Path("write", "x", errno))
		if !errors.Is(err, want) || !errors.Is(err, errno) {
			t.Errorf("%v is no %v", err, want)
		}
	}
	if Failed("op", "v", nil) != nil {
		t.Error("nil became an error")
	}
}

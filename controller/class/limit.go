package class

import (
	"fmt"
	"strconv"

	storagev1 "k8s.io/api/storage/v1"
)

// Class parameters about the limits of volumes, the same for both shapes.
const (
	// LimitParameter is required, best-effort or none; absent means
	// best-effort.
	LimitParameter = "limit"
	// InodesParameter is how many files and directories a volume may have;
	// absent means no limit.
	InodesParameter = "inodes"
)

// What LimitParameter may be. The volume library has the same words; there
// best-effort is the empty one.
const (
	limitBestEffort = "best-effort"
	limitRequired   = "required"
	limitNone       = "none"
)

// Limits is what a class's parameters say of limits.
type Limits struct {
	Policy string // required, none, or empty for best-effort
	Inodes uint64 // 0 is no limit
}

// LimitsOf reads a class's parameters. The error names the parameter; no retry
// changes the answer.
func LimitsOf(parameters map[string]string) (l Limits, err error) {
	switch text, given := parameters[LimitParameter]; {
	case !given, text == limitBestEffort:
	case text == limitRequired, text == limitNone:
		l.Policy = text
	default:
		return l, fmt.Errorf("parameter %s is %q; it is %s, %s or %s", LimitParameter, text, limitRequired, limitBestEffort, limitNone)
	}
	if text, given := parameters[InodesParameter]; given {
		l.Inodes, err = strconv.ParseUint(text, 10, 63)
		if err != nil || l.Inodes == 0 {
			return l, fmt.Errorf("parameter %s is %q; it is a whole number above zero, such as 100000", InodesParameter, text)
		}
	}
	if l.Policy == limitNone && l.Inodes > 0 {
		return l, fmt.Errorf("parameter %s is %d and parameter %s is %s; leave one out", InodesParameter, l.Inodes, LimitParameter, limitNone)
	}
	return l, nil
}

// CheckLimits returns nil where a class's parameters about limits are such as
// LimitsOf understands.
func CheckLimits(c *storagev1.StorageClass) error {
	if _, err := LimitsOf(c.Parameters); err != nil {
		return fmt.Errorf("class %q: %w; a class cannot be edited: delete it and make it anew", c.Name, err)
	}
	return nil
}

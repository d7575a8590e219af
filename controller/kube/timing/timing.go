//go:build !faults

package timing

import "time"

// Scaled returns d.
func Scaled(d time.Duration) time.Duration { return d }

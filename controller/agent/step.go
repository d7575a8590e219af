//go:build !faults

package agent

// step is the volume library's hook for tests; it does nothing here.
var step func(string)

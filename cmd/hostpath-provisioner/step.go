//go:build !faults

package main

// step is the volume library's hook for tests; it does nothing here.
var step func(string)

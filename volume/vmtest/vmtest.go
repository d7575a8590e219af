// Package vmtest is imported by tests with the build tag vm, for its effect alone: they overwrite
// the disks of the machine, such as /dev/vda, so a program that has it ends at once unless the
// first process of the virtual machine of e2e/vm started it.
package vmtest

import (
	"fmt"
	"os"
)

func init() { //nolint:gochecknoinits // it must run before the first test does
	if os.Getenv("VIRTUAL_MACHINE") != "e2e/vm" {
		fmt.Fprintln(os.Stderr, "tests with the tag vm overwrite this machine's disks: go -C e2e test ./vm runs them in "+
			"a virtual machine")
		os.Exit(2)
	}
}

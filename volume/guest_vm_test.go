//go:build vm

package volume_test

import (
	"fmt"
	"os"
)

// The tests with the tag vm write on the disks of the machine, such as /dev/vda.
func init() {
	if os.Getenv("VIRTUAL_MACHINE") != "e2e/vm" {
		fmt.Fprintln(os.Stderr, "tests with the tag vm overwrite this machine's disks: go -C e2e test ./vm runs them in a virtual machine")
		os.Exit(2)
	}
}

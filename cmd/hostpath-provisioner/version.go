package main

import (
	"fmt"
	"io"
	"runtime"

	"kubevirt.io/hostpath-provisioner/controller/agent"
)

// version is set by the linker; see the Makefile.
var version = "unknown"

// printVersion runs the command version.
func printVersion(args []string, out io.Writer) error {
	if len(args) > 0 {
		return agent.Usagef("version: unexpected argument %q; the command takes none", args[0])
	}
	_, err := fmt.Fprintf(out, "hostpath-provisioner %s %s/%s %s\n", version, runtime.GOOS, runtime.GOARCH,
		runtime.Version())
	return err
}

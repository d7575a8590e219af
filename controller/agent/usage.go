package agent

import (
	"errors"
	"fmt"
	"strings"

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

// helpText is what --help prints around the flags.
const helpText = `hostpath-provisioner turns the claims of one node into directories.

It runs on every node. A claim comes to this node when the scheduler chose it
(a class with volumeBindingMode WaitForFirstConsumer) or when the claim says so:

    metadata:
      annotations:
        kubevirt.io/provisionOnNode: node-01

The claim then gets a directory in PV_DIR, with the mode that --directory-mode
gives, and a hostPath PV that names it. When the claim is deleted and its class
says Delete, the directory goes out of sight at once and its files soon after.

As a CSI driver it makes the same directories, in the pools of --datadir, and
mounts them itself. The scheduler chooses the node of such a claim.

What it keeps for itself stands in <pool>/.hostpath-provisioner. A directory
whose disk is not mounted is left alone: nothing is created there, and nothing
is called deleted, until the disk is back.

Usage:
  hostpath-provisioner [flags]                 claims that get hostPath PVs
  hostpath-provisioner --endpoint=unix:///csi/csi.sock --kubelet-registration-path=PATH --provision=csi
                                               the CSI driver, no sidecar beside it; --provision=hostpath,csi
                                               serves both kinds of claims
  hostpath-provisioner --endpoint=unix:///csi/csi.sock --nodeid=NODE --datadir=JSON
                                               a plain CSI driver, the standard sidecars beside it
  hostpath-provisioner disks [flags]           offer raw disks as local PVs; disks --help explains
  hostpath-provisioner inspect [-o json] [DIRECTORY ...]
                                               print pools, volumes and trash
  hostpath-provisioner migrate [-o json]       print which hostPath PVs of the node become CSI PVs
  hostpath-provisioner version                 print the version; so does --version alone

Flags, with the environment variable of each in brackets. A flag takes
precedence; an empty variable counts as not set:
%s
Endpoints on --http-address:
  /healthz   the process lives
  /readyz    it serves claims, or 503 and what stands in the way
  /metrics   for Prometheus; over HTTPS on --metrics-address too

Exit code: 0 after SIGTERM or SIGINT, 2 if the command line or a setting is
wrong, 1 after any other error. The agent waits for an API server that does not
answer.
`

// usages returns the flags of each section, as --help shows them.
func usages(sections []section) string {
	var b strings.Builder
	for _, s := range sections {
		fmt.Fprintf(&b, "\n%s:\n%s", s.title, s.flags.FlagUsagesWrapped(100))
	}
	return b.String()
}

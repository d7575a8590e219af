package agent

import (
	"errors"
	"fmt"
	"strings"

	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
	"kubevirt.io/hostpath-provisioner/volume"
)

// usageError is an error in the command line or in a setting: a restart fails, too.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usagef returns an error in the command line, formatted as fmt.Errorf does.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// settingError returns err as a usageError. It returns an ErrNotReady as it is, because a missing
// disk can be mounted later.
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

It runs on every node. A claim is for this node if the scheduler chose the node
(a class with volumeBindingMode WaitForFirstConsumer) or if the claim names it:

    metadata:
      annotations:
        kubevirt.io/provisionOnNode: node-01

The claim then gets a directory in PV_DIR, with the mode of --directory-mode,
and a hostPath PV with that path. When the claim is deleted and its class has
the policy Delete, the agent moves the directory to the trash at once and
removes its files soon after.

As a CSI driver it creates the same directories, in the pools of --datadir, and
mounts them itself. The scheduler chooses the node of such a claim.

Its own files are in <pool>/.hostpath-provisioner. While the disk of a pool is
not mounted, the agent creates nothing there and regards nothing as deleted.

Usage:
  hostpath-provisioner [flags]                 claims that get hostPath PVs
  hostpath-provisioner --endpoint=unix:///csi/csi.sock --kubelet-registration-path=PATH --provision=csi
                                               the CSI driver, without sidecars; --provision=hostpath,csi
                                               serves both kinds of claims
  hostpath-provisioner --endpoint=unix:///csi/csi.sock --nodeid=NODE --datadir=JSON
                                               driver-only mode, with the standard sidecars
  hostpath-provisioner disks [flags]           offer raw disks as local PVs; disks --help explains
  hostpath-provisioner hold, unmount           a claim's filesystem as the disk of a pool; --help explains
  hostpath-provisioner inspect [-o json] [DIRECTORY ...]
                                               print pools, volumes and trash
  hostpath-provisioner migrate [-o json]       print which hostPath PVs of the node become CSI PVs
  hostpath-provisioner orphans [show|remove NAME]
                                               print volumes without a PV; bring one back, or remove it
  hostpath-provisioner version                 print the version; so does --version alone

Flags, with the environment variable of each in brackets. A flag takes
precedence; an empty variable counts as not set:
%s
Endpoints on --http-address:
  /healthz   the process lives
  /readyz    it serves claims and its pools are open, or 503 and the reasons
  /readyz/agent  the same without the pools, for the kubelet's probe
  /status    the text of /readyz with 200 always; ?format=json for scripts
  /metrics   for Prometheus; over HTTPS on --metrics-address too

Exit code: 0 after SIGTERM or SIGINT, 2 if the command line or a setting is
wrong, 1 after any other error. The agent waits for an API server that does not
answer.
`

// usages returns the flags of each section, as --help shows them.
func usages(sections []settings.Section) string {
	var b strings.Builder
	for _, s := range sections {
		fmt.Fprintf(&b, "\n%s:\n%s", s.Title, s.Flags().FlagUsagesWrapped(100))
	}
	return b.String()
}

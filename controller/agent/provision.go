package agent

import (
	"errors"
	"slices"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// provisionOptions are the flags of the claims that the agent serves without a sidecar.
type provisionOptions struct {
	claims    []string
	compat    []contract.Dialect
	set       bool // claims was given, perhaps as an empty list, or compat
	publish   bool
	namespace string
	pod       string

	// Set by check, from claims and compat.
	dialects []contract.Dialect
	csi      bool
}

// hostPath reports whether the agent serves claims of any dialect.
func (p *provisionOptions) hostPath() bool { return len(p.dialects) > 0 }

// check validates the flags. driver reports whether there is a CSI socket, and prefix how
// directories are named.
func (p *provisionOptions) check(driver, prefix bool) error {
	if !p.set && !driver {
		p.claims = []string{"hostpath"}
	}
	if slices.Contains(p.claims, "hostpath") {
		p.dialects = []contract.Dialect{contract.Own(prefix)}
	}
	p.dialects = append(p.dialects, p.compat...)
	p.csi = slices.Contains(p.claims, "csi")
	if !driver && !p.hostPath() && !p.csi {
		return errors.New("--provision is empty and there is no --endpoint: nothing is left to do")
	}
	return nil
}

package agent

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// provisionOptions are the flags of the claims that the agent serves without a sidecar.
type provisionOptions struct {
	claims    string
	compat    string
	set       bool // claims was given, perhaps as an empty list
	publish   bool
	namespace string
	pod       string

	// Set by check, from claims and compat.
	dialects []contract.Dialect
	csi      bool
}

// podName is the variable with the name of the agent's pod, by the downward API. Without it the objects of capacity have no owner.
const podName = "POD_NAME"

// hostPath reports whether the agent serves claims of any dialect.
func (p *provisionOptions) hostPath() bool { return len(p.dialects) > 0 }

func (p *provisionOptions) register(f *pflag.FlagSet) {
	_, p.set = os.LookupEnv(Variable("provision"))
	f.StringVar(&p.claims, "provision", "",
		"claims that the agent serves without a sidecar: hostpath, csi, or hostpath,csi. Without it hostpath; with --endpoint none, which is driver-only mode: the agent does not use the API server, and needs the standard sidecars")
	f.StringVar(&p.compat, "compat", "",
		"also serve the classes and volumes of these provisioners, in --pv-dir: hostpath (for a cluster of one node), local-path (rancher.io/local-path), or both with a comma. Without --provision in place of kubevirt.io/hostpath-provisioner")
	f.BoolVar(&p.publish, "publish-capacity", true,
		"publish what is available for csi claims, as CSIStorageCapacity objects for the scheduler. The DaemonSet of the pod "+podName+" owns them")
	f.StringVar(&p.namespace, "namespace", "",
		"namespace of these objects; required with --provision=csi")
	p.pod = os.Getenv(podName)
}

// check parses the flags. driver reports whether there is a CSI socket, and prefix how
// directories are named.
func (p *provisionOptions) check(driver, prefix bool) error {
	if !p.set && !driver && p.compat == "" {
		p.claims = "hostpath"
	}
	for s := range strings.SplitSeq(p.claims, ",") {
		switch strings.TrimSpace(s) {
		case "hostpath":
			p.dialects = []contract.Dialect{contract.Own(prefix)}
		case "csi":
			p.csi = true
		case "":
		default:
			return fmt.Errorf("--provision (PROVISION): %q is neither hostpath nor csi", s)
		}
	}
	compat, err := contract.ParseCompat(p.compat)
	if err != nil {
		return fmt.Errorf("--compat (COMPAT): %w", err)
	}
	p.dialects = append(p.dialects, compat...)
	if !driver && !p.hostPath() && !p.csi {
		return errors.New("--provision is empty and there is no --endpoint: nothing is left to do")
	}
	return nil
}

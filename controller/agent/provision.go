package agent

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// provisionOptions say which claims this process serves itself, and what the
// scheduler is told.
type provisionOptions struct {
	claims    string
	set       bool // claims was given, maybe as nothing
	publish   bool
	namespace string
	pod       string

	// What claims means, set by check.
	hostPath, csi bool
}

func (p *provisionOptions) register(f *pflag.FlagSet) {
	value, set := os.LookupEnv("PROVISION")
	p.set = set
	f.StringVar(&p.claims, "provision", value,
		"claims that are served without a sidecar: hostpath, csi, both as hostpath,csi, or none; without it hostpath, and with --endpoint none [PROVISION]")
	f.BoolVar(&p.publish, "publish-capacity", true,
		"tell the scheduler what can still be promised for csi claims, by CSIStorageCapacity objects")
	f.StringVar(&p.namespace, "namespace", os.Getenv("POD_NAMESPACE"),
		"where those objects are [POD_NAMESPACE]")
	f.StringVar(&p.pod, "pod-name", os.Getenv("POD_NAME"),
		"this pod, whose DaemonSet owns those objects, so that they go with it; without it nobody owns them [POD_NAME]")
}

// check works out what the flags mean. driver: there is a CSI socket.
func (p *provisionOptions) check(driver bool) error {
	if !p.set && !driver {
		p.claims = "hostpath"
	}
	for s := range strings.SplitSeq(p.claims, ",") {
		switch strings.TrimSpace(s) {
		case "hostpath":
			p.hostPath = true
		case "csi":
			p.csi = true
		case "":
		default:
			return fmt.Errorf("--provision (PROVISION): %q is neither hostpath nor csi", s)
		}
	}
	if !driver && !p.hostPath && !p.csi {
		return errors.New("--provision is empty and there is no --endpoint: nothing is left to do")
	}
	return nil
}

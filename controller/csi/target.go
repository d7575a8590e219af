package csi

import (
	"errors"
	"fmt"
	"strings"

	"kubevirt.io/hostpath-provisioner/volume"
)

// errPV: the volume is published for another PV than its own.
var errPV = errors.New("volume of another PV")

// pvOf returns the PV that a target of the kubelet is for:
// <kubelet>/pods/<pod's UID>/volumes/kubernetes.io~csi/<PV>/mount, see
// GetPath of pkg/volume/csi/csi_mounter.go in Kubernetes. It is empty for any
// other target, which a test or another orchestrator may choose.
func pvOf(kubelet, target string) string {
	below, found := strings.CutPrefix(target, kubelet+"/")
	parts := strings.Split(below, "/")
	if !found || len(parts) != 6 || parts[0] != "pods" || parts[2] != "volumes" || parts[3] != "kubernetes.io~csi" || parts[5] != "mount" {
		return ""
	}
	return parts[4]
}

// checkPV refuses a volume that is recorded for another PV than the target
// names. Whoever may write PVs could otherwise put another tenant's handle
// into one of his own, and read that tenant's data. A volume whose record has
// no PV yet is anybody's who has its handle.
func (p *publication) checkPV(v volume.Volume) error {
	if p.make != nil || p.pv == "" || v.PV == "" || p.pv == v.PV {
		return nil
	}
	return fmt.Errorf("%w: it belongs to PV %q, and PV %q has its handle; use it by a PV of the name %q", errPV, v.PV, p.pv, v.PV)
}

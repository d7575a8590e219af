package csi

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"kubevirt.io/hostpath-provisioner/volume"
)

// errPV: the volume is published for another PV than its own.
var errPV = errors.New("volume of another PV")

// parseTarget returns the UID of the pod that a target of the kubelet is for, and
// the name of the PV or, for an inline volume, the pod's name of it. The target is
// <kubelet>/pods/<pod's UID>/volumes/kubernetes.io~csi/<name>/mount, see
// GetPath of pkg/volume/csi/csi_mounter.go in Kubernetes. Both are empty for any
// other target, which a test or another orchestrator may choose.
func parseTarget(kubelet, target string) (pod, name string) {
	below, found := strings.CutPrefix(target, kubelet+"/")
	parts := strings.Split(below, "/")
	if !found || len(parts) != 6 || parts[0] != podsName || parts[2] != "volumes" || parts[3] != "kubernetes.io~csi" || parts[5] != "mount" {
		return "", ""
	}
	return parts[1], parts[4]
}

// samePodSubpath reports whether point is a mount that the kubelet made of a
// subPath for a container of the pod whose target is here: the kubelet makes
// them below <kubelet>/pods/<pod's UID>/volume-subpaths and keeps them while it
// restarts, see getSubpathBindTarget of pkg/volume/util/subpath in Kubernetes.
// here has the form that parseTarget accepts. Any other mount below the pod's directory
// is a second target, which the CSI spec refuses to a single writer.
func samePodSubpath(here, point string) bool {
	return strings.HasPrefix(point, filepath.Join(here, "../../../../volume-subpaths")+"/")
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

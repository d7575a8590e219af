package health

import (
	"regexp"
	"slices"
	"strings"

	"kubevirt.io/hostpath-provisioner/volume/mount"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// ofPod matches a mount point that the kubelet made for a pod: <kubelet>/pods/<UID>/volumes/..., or
// volume-subpaths. See GetPodVolumeDir and getSubpathBindTarget in Kubernetes.
var ofPod = regexp.MustCompile(`/pods/[^/]+/(volumes|volume-subpaths)/`)

// mayBelong reports whether a mount that shows a directory of the volume's name can be a mount of
// the volume. The names of directories prove nothing: a tenant chooses the subPath of a pod, and
// makes a directory of any name in a volume. The kubelet chooses where it has the driver mount a
// PV.
func mayBelong(r record.Record, i mount.Info) bool {
	point := i.Point
	at := ofPod.FindStringSubmatchIndex(point)
	if at == nil {
		return true // not made for a pod
	}
	if point[at[2]:at[3]] != "volumes" {
		return false
	}
	parts := strings.Split(point[at[1]:], "/") // kubernetes.io~csi/<PV>/mount
	return len(parts) == 3 && parts[0] == "kubernetes.io~csi" && slices.Contains([]string{r.PV, r.Name}, parts[1]) &&
		parts[2] == "mount"
}

package class

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Other is another provisioner that makes one directory for each claim. Its PVs
// can become CSI PVs of ours, on the very same directories. What such a PV says
// is only compared with what its provisioner would have written.
type Other struct {
	// Provisioner is its name in classes and on PVs.
	Provisioner string
	// directory is the name that it gives to the directory of a PV.
	directory func(pv string, claim *corev1.ObjectReference) string
	// nodes returns all that a PV says of its node, each the Node's name or its
	// label kubernetes.io/hostname; "" where it should say one, and says none.
	nodes func(*corev1.PersistentVolume) []string
}

var others = []Other{
	{
		// Its PVs have no affinity; the annotation has the node of the process
		// that made the directory.
		Provisioner: "hostpath",
		directory: func(pv string, claim *corev1.ObjectReference) string {
			return claim.Namespace + "-" + claim.Name + "-" + pv
		},
		nodes: func(pv *corev1.PersistentVolume) []string {
			said := []string{pv.Annotations[AnnIdentity]}
			if pv.Spec.NodeAffinity != nil {
				said = append(said, Hostname(pv))
			}
			return said
		},
	},
	{
		Provisioner: "rancher.io/local-path",
		directory: func(pv string, claim *corev1.ObjectReference) string {
			return pv + "_" + claim.Namespace + "_" + claim.Name
		},
		nodes: func(pv *corev1.PersistentVolume) []string { return []string{Hostname(pv)} },
	},
}

// ParseOthers returns the provisioners of a list of names, separated by commas;
// an empty one names none. The error names those that there are.
func ParseOthers(text string) (named []Other, err error) {
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		i := slices.IndexFunc(others, func(o Other) bool { return o.Provisioner == name })
		if i < 0 {
			var known []string
			for _, o := range others {
				known = append(known, o.Provisioner)
			}
			return nil, fmt.Errorf("%q is none of %q", name, known)
		}
		named = append(named, others[i])
	}
	return named, nil
}

// MadeByOther returns which of the provisioners made a PV, by the PV's word; nil
// where none did.
func MadeByOther(pv *corev1.PersistentVolume, among []Other) *Other {
	if pv.Spec.CSI != nil {
		return nil
	}
	i := slices.IndexFunc(among, func(o Other) bool { return o.Provisioner == pv.Annotations[AnnProvisionedBy] })
	if i < 0 {
		return nil
	}
	return &among[i]
}

// OfOther reports whether a PV says that it is of any of the other provisioners
// that are known.
func OfOther(pv *corev1.PersistentVolume) bool { return MadeByOther(pv, others) != nil }

// On reports whether a PV of this provisioner says that it is of the node.
func (o *Other) On(pv *corev1.PersistentVolume, node, hostname string) bool {
	for _, said := range o.nodes(pv) {
		if said == "" || said != node && said != hostname {
			return false
		}
	}
	return true
}

// Path returns the directory that a PV of this provisioner names, where the PV
// is named after its claim, and the directory after both, just as the
// provisioner does it. The names are compared as wholes: a namespace and a claim
// that are joined cannot be told apart again.
func (o *Other) Path(pv *corev1.PersistentVolume) (string, error) {
	path := DirectoryOf(pv)
	if path == "" {
		return "", fmt.Errorf("it names provisioner %s and has neither a hostPath nor a local path", o.Provisioner)
	}
	ref := pv.Spec.ClaimRef
	if ref == nil || ref.UID == "" || pv.Name != "pvc-"+string(ref.UID) {
		return "", fmt.Errorf("its name is not pvc-<UID of its claim>, as provisioner %s names PVs", o.Provisioner)
	}
	if want := o.directory(pv.Name, ref); filepath.Base(path) != want || filepath.Clean(path) != path {
		return "", fmt.Errorf("its directory %q is not named as provisioner %s does it: want %q", path, o.Provisioner, want)
	}
	return path, nil
}

// DirectoryOf returns the path that a hostPath or local PV names, "" for any
// other PV.
func DirectoryOf(pv *corev1.PersistentVolume) string {
	switch {
	case pv.Spec.HostPath != nil:
		return pv.Spec.HostPath.Path
	case pv.Spec.Local != nil:
		return pv.Spec.Local.Path
	}
	return ""
}

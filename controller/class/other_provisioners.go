package class

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Other is another provisioner that creates one directory for each claim. The agent
// can replace its PVs by CSI PVs on the same directories. The fields of such a PV
// are not trusted, only compared with those that its provisioner would have written.
type Other struct {
	// Provisioner is its name in classes and on PVs.
	Provisioner string
	// directory returns the name that it gives to the directory of a PV.
	directory func(pv string, claim *corev1.ObjectReference) string
	// nodes returns each field of a PV that names its node, by the Node's name or
	// its label kubernetes.io/hostname; "" for a required field that is empty.
	nodes func(*corev1.PersistentVolume) []string
}

var others = []Other{
	{
		// Its PVs have no affinity; the annotation names the node of the process
		// that created the directory.
		Provisioner: "hostpath",
		directory: func(pv string, claim *corev1.ObjectReference) string {
			return claim.Namespace + "-" + claim.Name + "-" + pv
		},
		nodes: func(pv *corev1.PersistentVolume) []string {
			nodes := []string{pv.Annotations[AnnIdentity]}
			if pv.Spec.NodeAffinity != nil {
				nodes = append(nodes, Hostname(pv))
			}
			return nodes
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

// ParseOthers returns the provisioners that a comma-separated list names, none for
// an empty list. The error lists the names that are known.
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

// MadeByOther returns the provisioner that a PV's annotation names, nil if it is not
// one of the given ones or if the PV is a CSI PV.
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

// OfOther reports whether a PV's annotation names any of the other provisioners.
func OfOther(pv *corev1.PersistentVolume) bool { return MadeByOther(pv, others) != nil }

// On reports whether all fields of a PV that name a node name this one.
func (o *Other) On(pv *corev1.PersistentVolume, node, hostname string) bool {
	for _, named := range o.nodes(pv) {
		if named == "" || named != node && named != hostname {
			return false
		}
	}
	return true
}

// Path returns the directory of a PV of this provisioner. It returns an error unless
// PV and directory have the names that the provisioner derives from the claim.
// It compares whole names: a joined namespace and claim cannot be split again.
func (o *Other) Path(pv *corev1.PersistentVolume) (string, error) {
	path := DirectoryOf(pv)
	if path == "" {
		return "", fmt.Errorf("the PV names provisioner %s and has neither a hostPath nor a local path", o.Provisioner)
	}
	ref := pv.Spec.ClaimRef
	if ref == nil || ref.UID == "" || pv.Name != "pvc-"+string(ref.UID) {
		return "", fmt.Errorf("the PV's name is not pvc-<UID of its claim>, as provisioner %s names PVs", o.Provisioner)
	}
	if want := o.directory(pv.Name, ref); filepath.Base(path) != want || filepath.Clean(path) != path {
		return "", fmt.Errorf("the directory %q has not the name that provisioner %s gives it: want %q", path, o.Provisioner, want)
	}
	return path, nil
}

// DirectoryOf returns the path of a hostPath or local PV, "" for any other PV.
func DirectoryOf(pv *corev1.PersistentVolume) string {
	switch {
	case pv.Spec.HostPath != nil:
		return pv.Spec.HostPath.Path
	case pv.Spec.Local != nil:
		return pv.Spec.Local.Path
	}
	return ""
}

package contract

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Provisioners whose classes and volumes the agent can take over.
const (
	// SingleNodeProvisioner is the provisioner for clusters of one machine.
	SingleNodeProvisioner = "hostpath"
	// LocalPathProvisioner is the default provisioner of k3s and kind.
	LocalPathProvisioner = "rancher.io/local-path"
)

// Own returns the dialect of this provisioner. With prefix, new directories are named
// <claim>-<PV> instead of <PV>.
func Own(prefix bool) Dialect {
	return Dialect{
		Provisioner:  HostPathProvisioner,
		Modes:        []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		ByAnnotation: true,
		directories: func(pv string, claim *corev1.ObjectReference) []string {
			return []string{Directory(pv, claim.Name, prefix), Directory(pv, claim.Name, !prefix)}
		},
		annotations: []annotation{
			{key: AnnIdentity, values: func(Place) []string { return []string{HostPathProvisioner} }},
			{key: AnnProvisionOnNode, values: func(at Place) []string { return []string{at.Node} }, node: true},
		},
	}
}

var others = []Dialect{
	{
		Provisioner:  SingleNodeProvisioner,
		Setting:      "hostpath",
		Modes:        []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteMany, corev1.ReadOnlyMany},
		ByAnnotation: true,
		OnlyNode:     true,
		directories: func(pv string, claim *corev1.ObjectReference) []string {
			return []string{Directory(pv, claim.Namespace+"-"+claim.Name, true)}
		},
		annotations: []annotation{{key: AnnIdentity, values: Place.names, node: true, host: true}},
		unpinned:    true,
	},
	{
		Provisioner:   LocalPathProvisioner,
		Setting:       "local-path",
		Modes:         []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteOncePod},
		PathParameter: pathParameter,
		parameters:    []string{pathParameter, patternParameter, affinityParameter, unsafeParameter},
		directories: func(pv string, claim *corev1.ObjectReference) []string {
			// Versions before v0.0.13 named a directory after the PV alone.
			return []string{truncate(pv+"_"+claim.Namespace+"_"+claim.Name, maxDirectory), pv}
		},
		annotations: []annotation{{key: "local.path.provisioner/selected-node", values: Place.names, node: true,
			optional: true}},
		local:    true,
		pinsElse: true,
		check:    checkLocalPath,
		source:   localPathSource,
		naming:   patternNaming,
	},
}

// ParseCompat returns the dialects that a comma-separated list of settings names, none for an empty
// list. The error is that of a setting that is not known.
func ParseCompat(text string) ([]Dialect, error) {
	return parseDialects(text, func(d Dialect) string { return d.Setting })
}

// ParseProvisioners is ParseCompat for the names of provisioners.
func ParseProvisioners(text string) ([]Dialect, error) {
	return parseDialects(text, func(d Dialect) string { return d.Provisioner })
}

func parseDialects(text string, key func(Dialect) string) (named []Dialect, err error) {
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		i := slices.IndexFunc(others, func(d Dialect) bool { return key(d) == name })
		if i < 0 {
			return nil, fmt.Errorf("%q is not known", name)
		}
		if !slices.ContainsFunc(named, func(d Dialect) bool { return key(d) == name }) {
			named = append(named, others[i])
		}
	}
	return named, nil
}

// ParametersOf parses the parameters of a class. The error names the class and the parameter.
func ParametersOf(c *storagev1.StorageClass) (Parameters, error) {
	source := CSIClass // the driver's name can be configured
	if DialectOf(c.Provisioner) != nil {
		source = HostPathClass
	}
	p, err := source.Parse(c.Parameters)
	if err != nil {
		return p, fmt.Errorf("class %q: %w; a class cannot be edited: delete it and create it again", c.Name, err)
	}
	return p, nil
}

// DialectOf returns the dialect of a provisioner that makes hostPath PVs, nil for another one and
// for a CSI driver. That of HostPathProvisioner is the one without prefix.
func DialectOf(provisioner string) *Dialect {
	if provisioner == HostPathProvisioner {
		own := Own(false)
		return &own
	}
	i := slices.IndexFunc(others, func(d Dialect) bool { return d.Provisioner == provisioner })
	if i < 0 {
		return nil
	}
	return &others[i]
}

// CSIModes are the access modes of claims that get CSI PVs. The scheduler and the
// kubelet enforce ReadWriteOncePod.
var CSIModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteOncePod}

// DefaultFSType is the fsType of CSI PVs whose class names none. Nothing is
// formatted; the kubelet applies a pod's fsGroup only to a PV with an fsType.
const DefaultFSType = "xfs"

// CSIPV returns the CSI PV of the volume whose directory is named handle, in the pool of that name.
// The driver is the class's provisioner, and the capacity is the claim's request. The caller adds
// the claimRef and the annotation AnnProvisionedBy, and has validated the class's parameters.
func CSIPV(name, handle, pool string, claim *corev1.PersistentVolumeClaim, c *storagev1.StorageClass,
	at Place, policy corev1.PersistentVolumeReclaimPolicy) *corev1.PersistentVolume {
	p, _ := CSIClass.Parse(c.Parameters)
	pv := newPV(name, claim, at, policy)
	pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{
			Driver:           c.Provisioner,
			VolumeHandle:     handle,
			FSType:           p.FSType,
			VolumeAttributes: map[string]string{StoragePool: pool},
		},
	}
	pv.Spec.MountOptions = c.MountOptions
	pv.Spec.NodeAffinity = affinity(TopologyNode, at.Node)
	return pv
}

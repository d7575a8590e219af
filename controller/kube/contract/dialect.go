package contract

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Dialect is the convention of one provisioner that creates a directory for each
// claim: which claims it serves, how it names directories, and what it writes on PVs.
//
// The agent serves the claims of some dialects, and binds, adopts, deletes and grows
// their volumes. It can migrate the volumes of the others. The fields of a PV are not
// trusted, only compared with those that the provisioner would have written.
type Dialect struct {
	// Provisioner is the name in classes and on PVs.
	Provisioner string
	// Setting is the value of --compat that turns the dialect on, "" for Own.
	Setting string
	// Modes are the access modes of claims.
	Modes []corev1.PersistentVolumeAccessMode
	// ByAnnotation makes AnnProvisionOnNode of a claim choose the node, before the scheduler.
	ByAnnotation bool
	// OnlyNode is set if the provisioner is for clusters of one node: a claim that
	// names no node, of a class that binds at once, is that node's.
	OnlyNode bool
	// PathParameter is the class parameter that names the parent of new directories, if any.
	PathParameter string

	// parameters are the class parameters of the provisioner besides those of known.
	parameters []string
	// directories returns the provisioner's names of a directory. New directories get the first.
	directories func(pv string, claim *corev1.ObjectReference) []string
	// annotations are those of its PVs, except AnnProvisionedBy.
	annotations []annotation
	// unpinned accepts PVs without node affinity. New PVs have one.
	unpinned bool
	// pinsElse is set if the provisioner can pin PVs by another label than the hostname. No agent
	// serves these.
	pinsElse bool
	// local accepts PVs with a local path instead of a hostPath.
	local bool
	// naming returns the name of new directories of a class; nil for the first of
	// directories. An error is one of check too.
	naming func(*storagev1.StorageClass) (naming, error)
	// check refuses what only this provisioner's claims and classes can request; may be nil.
	check func(*corev1.PersistentVolumeClaim, *storagev1.StorageClass) error
	// source returns the source of a new PV, nil for a hostPath of type Directory. The
	// caller has checked claim and class.
	source func(path string, claim *corev1.PersistentVolumeClaim, c *storagev1.StorageClass) corev1.PersistentVolumeSource
}

// annotation is an annotation of a dialect's PVs.
type annotation struct {
	key string
	// values returns the accepted values. New PVs get the first.
	values func(Place) []string
	// node is set if the value names the PV's node, host if it may do so by a hostname.
	node, host bool
	// optional is set if some PVs of the provisioner lack the annotation.
	optional bool
}

// accepts reports whether a PV has the annotation as the provisioner writes it.
func (a *annotation) accepts(pv *corev1.PersistentVolume, at Place) bool {
	value, ok := pv.Annotations[a.key]
	return !ok && a.optional || ok && value != "" && slices.Contains(a.values(at), value)
}

// MadeBy returns the dialect of the provisioner that a PV's annotation names, nil if it
// is not one of the given ones or if the PV is a CSI PV.
func MadeBy(pv *corev1.PersistentVolume, among []Dialect) *Dialect {
	if pv.Spec.CSI != nil {
		return nil
	}
	i := slices.IndexFunc(among, func(d Dialect) bool { return d.Provisioner == pv.Annotations[AnnProvisionedBy] })
	if i < 0 {
		return nil
	}
	return &among[i]
}

// MadeByOther returns the dialect of the provisioner that a PV's annotation names, nil if
// that is Own, or none, or if the PV is a CSI PV.
func MadeByOther(pv *corev1.PersistentVolume) *Dialect { return MadeBy(pv, others) }

// OfOther reports whether a PV's annotation names the provisioner of a dialect other than Own.
func OfOther(pv *corev1.PersistentVolume) bool { return MadeByOther(pv) != nil }

// Names reports whether a PV names this node by the annotation that its provisioner always writes,
// or by its node affinity if there is no such annotation. Whose the volume is, package identity
// decides.
func (d *Dialect) Names(pv *corev1.PersistentVolume, at Place) bool {
	for _, a := range d.annotations {
		if a.node && !a.optional {
			return a.accepts(pv, at)
		}
	}
	if d.pinsElse && otherAffinity(pv) != "" {
		// Only an optional annotation names the node of a PV that the agent refuses with words.
		return slices.ContainsFunc(d.annotations, func(a annotation) bool {
			return a.node && pv.Annotations[a.key] != "" && a.accepts(pv, at)
		})
	}
	return d.IsUnpinned(pv) || at.IsNamed(Hostname(pv))
}

// NodeAnnotations returns the annotations by which the dialect's PVs name their node, and whether
// this PV's value is of this one. The value is "" if the PV lacks the annotation.
func (d *Dialect) NodeAnnotations(pv *corev1.PersistentVolume, at Place) (all []NodeMark) {
	for _, a := range d.annotations {
		if a.node {
			value := pv.Annotations[a.key]
			all = append(all, NodeMark{Key: a.key, Value: value, Own: value != "" && slices.Contains(a.values(at), value),
				Host: a.host})
		}
	}
	return all
}

// NodeMark is an annotation of a PV that names its node.
type NodeMark struct {
	Key, Value string
	Own        bool
	Host       bool // the value may be a hostname, and not the name of a Node
}

// IsUnpinned reports whether a PV has no node affinity and its provisioner writes none.
func (d *Dialect) IsUnpinned(pv *corev1.PersistentVolume) bool {
	return d.unpinned && pv.Spec.NodeAffinity == nil
}

// Validate returns the directory of a PV. It returns an error unless the PV has the form that the
// provisioner gives to its PVs. It compares no nodes or names; see CheckNames.
func (d *Dialect) Validate(pv *corev1.PersistentVolume, at Place) (path string, err error) {
	switch path = DirectoryOf(pv); {
	case pv.Spec.HostPath == nil && !d.local:
		return "", fmt.Errorf("it names provisioner %s and has no hostPath", d.Provisioner)
	case path == "" && d.local:
		return "", fmt.Errorf("it names provisioner %s and has neither a hostPath nor a local path", d.Provisioner)
	}
	if by := pv.Annotations[AnnProvisionedBy]; by != d.Provisioner {
		return "", fmt.Errorf("annotation %s is %q, not %q", AnnProvisionedBy, by, d.Provisioner)
	}
	for _, a := range d.annotations {
		if !a.node && !a.accepts(pv, at) {
			return "", fmt.Errorf("annotation %s is %q, not %q", a.key, pv.Annotations[a.key], a.values(at)[0])
		}
	}
	if key := otherAffinity(pv); d.pinsElse && key != "" {
		return "", fmt.Errorf("its node affinity requires the label %s, by the parameter %s of its class, and the "+
			"agent serves %s alone; the provisioner that made the PV deletes its volume",
			key, affinityParameter, corev1.LabelHostname)
	}
	if !d.IsUnpinned(pv) && Hostname(pv) == "" {
		return "", fmt.Errorf("its node affinity is not just %s=%s", corev1.LabelHostname, at.Hostname)
	}
	return path, nil
}

// CheckNames returns nil if a PV and its directory have the names that the provisioner derives from
// the claim. It compares whole names: a joined namespace and claim cannot be split again.
func (d *Dialect) CheckNames(pv *corev1.PersistentVolume, directory string) error {
	ref := pv.Spec.ClaimRef
	if ref == nil || ref.UID == "" || pv.Name != "pvc-"+string(ref.UID) {
		return errors.New("its name is not pvc-<UID of its claim>")
	}
	names := d.directories(pv.Name, ref)
	if slices.Contains(names, directory) {
		return nil
	}
	var want []string
	for _, name := range names {
		want = append(want, fmt.Sprintf("%q", name))
	}
	return fmt.Errorf("directory %q is not named after it: want %s", directory, strings.Join(want, " or "))
}

// naming returns the name of the directory of a PV and its claim.
type naming func(pv, namespace, claim string) string

// Directory returns the name of the directory of a claim's new volume. An existing
// volume's name is in its record; do not compute it again. The caller has called Check.
func (d *Dialect) Directory(claim *corev1.PersistentVolumeClaim, c *storagev1.StorageClass) string {
	if d.naming != nil {
		if name, err := d.naming(c); err == nil {
			return name(PVName(claim), claim.Namespace, claim.Name)
		}
	}
	return d.directories(PVName(claim), &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name,
		UID: claim.UID})[0]
}

// Check returns nil if the agent can serve a claim of the class. The error names the field, its
// value and the values that are supported; a retry does not change the result.
func (d *Dialect) Check(claim *corev1.PersistentVolumeClaim, c *storagev1.StorageClass) error {
	if err := CheckSupported(claim, d.Modes); err != nil {
		return err
	}
	// The kubelet starts no pod whose hostPath volume has mount options ("mount options
	// are not supported for this volume type").
	if len(c.MountOptions) > 0 {
		return fmt.Errorf("class %q has mountOptions %q, and the kubelet refuses mount options of hostPath volumes; "+
			"a class cannot be edited: delete it and create it again without them, or use a class of provisioner %s",
			c.Name, c.MountOptions, CSIProvisioner)
	}
	if _, err := ParametersOf(c); err != nil || d.check == nil {
		return err
	}
	return d.check(claim, c)
}

// PV returns the PV of the volume at path. The capacity is the claim's request. The
// caller adds the claimRef, and has called Check.
func (d *Dialect) PV(name, path string, claim *corev1.PersistentVolumeClaim, c *storagev1.StorageClass,
	at Place, policy corev1.PersistentVolumeReclaimPolicy) *corev1.PersistentVolume {
	pv := newPV(name, claim, at, policy)
	pv.Annotations[AnnProvisionedBy] = c.Provisioner
	for _, a := range d.annotations {
		pv.Annotations[a.key] = a.values(at)[0]
	}
	pv.Spec.PersistentVolumeSource = hostPathSource(path)
	if d.source != nil {
		pv.Spec.PersistentVolumeSource = d.source(path, claim, c)
	}
	pv.Spec.NodeAffinity = affinity(corev1.LabelHostname, at.Hostname)
	return pv
}

// hostPathSource returns a source of the type Directory, so that a pod fails to start while the
// disk of the directory is not mounted. With any other type it could write to the disk below.
func hostPathSource(path string) corev1.PersistentVolumeSource {
	return corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path,
		Type: new(corev1.HostPathDirectory)}}
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

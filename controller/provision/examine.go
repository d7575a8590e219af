package provision

import (
	"errors"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/volume"
)

// examine returns the volume that a PV names. Everything a PV says can have
// been written by somebody else, so it must say the same thing throughout: our
// identity, this node, this pool, and a path that is a child of the pool. The
// path is compared, never followed.
func (c *Controller) examine(pv *corev1.PersistentVolume) (string, error) {
	source := pv.Spec.HostPath
	if source == nil {
		return "", errors.New("it names our provisioner but has no hostPath")
	}
	for _, want := range []struct{ key, value string }{
		{class.AnnProvisionedBy, class.HostPathProvisioner},
		{class.AnnIdentity, class.HostPathProvisioner},
		{class.AnnProvisionOnNode, c.node},
	} {
		if got := pv.Annotations[want.key]; got != want.value {
			return "", fmt.Errorf("annotation %s is %q, not %q", want.key, got, want.value)
		}
	}
	if h := class.Hostname(pv); h != c.facts.hostname && h != c.node {
		return "", fmt.Errorf("its node affinity is not just %s=%s", corev1.LabelHostname, c.facts.hostname)
	}
	if id := pv.Annotations[class.AnnPool]; id != "" && c.pool.ID() != "" && id != c.pool.ID() {
		return "", fmt.Errorf("it names pool %s, and the pool in %s is %s", id, c.pool.Path(), c.pool.ID())
	}
	name := filepath.Base(source.Path)
	if filepath.Join(c.pool.Path(), name) != source.Path {
		return "", fmt.Errorf("its path %q is not a directory right below the pool's, %s", source.Path, c.pool.Path())
	}
	return name, volume.CheckName(name)
}

// matches returns nil where the PV is the one that the volume's record names.
func matches(v volume.Volume, pv *corev1.PersistentVolume) error {
	if v.PV != pv.Name {
		return fmt.Errorf("directory %s belongs to PV %q, not to %q", v.Path, v.PV, pv.Name)
	}
	if uid := claimUID(pv); v.Owner.UID != "" && uid != v.Owner.UID {
		return fmt.Errorf("directory %s belongs to the claim with UID %s, and this PV's claimRef has %q", v.Path, v.Owner.UID, uid)
	}
	return nil
}

// adoptable returns nil where a PV names a directory just as this provisioner,
// or the older one whose place it takes, would have named it. Only then does a
// directory without a record become a volume.
func adoptable(pv *corev1.PersistentVolume, name string) error {
	ref := pv.Spec.ClaimRef
	if ref == nil || pv.Name != "pvc-"+string(ref.UID) {
		return errors.New("its name is not pvc-<UID of its claim>")
	}
	if name != class.Directory(pv.Name, ref.Name, false) && name != class.Directory(pv.Name, ref.Name, true) {
		return fmt.Errorf("directory %q is not named after it: want %q or %q", name,
			class.Directory(pv.Name, ref.Name, false), class.Directory(pv.Name, ref.Name, true))
	}
	return nil
}

func claimUID(pv *corev1.PersistentVolume) string {
	if pv.Spec.ClaimRef == nil {
		return ""
	}
	return string(pv.Spec.ClaimRef.UID)
}

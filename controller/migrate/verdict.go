package migrate

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/mount"
)

// Verdict is what a plan says of a volume.
type Verdict string

// The verdicts.
const (
	Migrated Verdict = "migrated" // it has the CSI PV that it was given
	Ready    Verdict = "ready"    // it is moved, or would be
	Waiting  Verdict = "waiting"  // it is moved once something else has come
	Refused  Verdict = "refused"  // it cannot be, until a person acts
	Left     Verdict = "left"     // nobody asks for it to be moved
	Moving   Verdict = "moving"   // it is under way
	Stopped  Verdict = "stopped"  // it is under way, and a person must act
)

// subject is all that is known of a PV.
type subject struct {
	pv    *corev1.PersistentVolume
	claim *corev1.PersistentVolumeClaim // nil where it has none, or that is gone
	pool  *volume.Pool
	v     volume.Volume
	// mountedAt is where the volume is mounted now by the driver, "" for nowhere.
	mountedAt string
	err       error // why the claim loop would not act on it; v is not known then
}

// node is what is known of the node and the cluster.
type node struct {
	mode   Mode
	driver string
	name   string // the Node's
	// unserved says why no CSI PV could be used here now; nil where one could.
	unserved error
	used     bool // volumes that are used are moved as well
	// users returns who uses a claim of this node, "" for nobody.
	users func(*corev1.PersistentVolumeClaim) (string, error)
	// elsewhere returns a pod of any other node that uses a claim, "" for none.
	elsewhere func(*corev1.PersistentVolumeClaim) (string, error)
}

// judge says whether a PV may be moved and, where it may, returns the one that
// takes its place. It looks at nothing but what it is given.
func (n *node) judge(s subject) (to string, next *corev1.PersistentVolume, verdict Verdict, reason string) {
	to, err := n.mode.wanted(s.pv)
	moved := first(s.v) != nil
	isCSI := s.pv.Spec.CSI != nil
	switch {
	case err != nil:
		return "", nil, Refused, err.Error()
	case errors.Is(s.err, volume.ErrNotReady), errors.Is(s.err, volume.ErrNotFound):
		return to, nil, Waiting, s.err.Error()
	case s.err != nil:
		return to, nil, Refused, s.err.Error()
	case isCSI && (to == toCSI || to == "" || !moved):
		return "", nil, Migrated, note(s.v)
	case to == "", to == toHostPath && !isCSI:
		return "", nil, Left, ""
	}
	next, err = n.successor(s, to)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return to, nil, Refused, err.Error()
	}
	if why := n.waits(s, to); why != "" {
		return to, next, Waiting, why
	}
	return to, next, Ready, ""
}

// first is the journal of how the volume got its CSI PV, nil where it got none
// that way.
func first(v volume.Volume) *volume.Migration { return v.Migration.Finished() }

// note is what a finished migration left to do.
func note(v volume.Volume) string {
	if v.Migration == nil {
		return ""
	}
	return v.Migration.Stopped
}

// successor describes the PV that takes the place of the subject's.
func (n *node) successor(s subject, to string) (*corev1.PersistentVolume, error) {
	at := class.Place{Node: n.name, Pool: s.pool.ID()}
	if to == toHostPath {
		was, err := parsePV(first(s.v).Old)
		if err != nil {
			return nil, fmt.Errorf("the hostPath PV in its journal: %w", err)
		}
		return class.ReturnedHostPathPV(was, s.pv, at), nil
	}
	if err := offered(s.pv); err != nil {
		return nil, err
	}
	if len(s.v.Name) > class.MaxHandle {
		return nil, fmt.Errorf("the name of its directory has %d bytes, and a CSI volume's handle at most %d; it stays a hostPath PV",
			len(s.v.Name), class.MaxHandle)
	}
	return class.MigratedCSIPV(s.pv, n.driver, s.v.Name, s.pool.Name(), size(s), at), nil
}

// size is what the claim asks for, or what the volume has where that is more:
// an older provisioner's PV says the size of the whole disk.
func size(s subject) resource.Quantity {
	switch {
	case s.claim != nil && class.Bytes(s.claim) >= s.v.Bytes:
		return *s.claim.Spec.Resources.Requests.Storage()
	case s.v.Bytes > 0:
		return *resource.NewQuantity(s.v.Bytes, resource.BinarySI)
	}
	return *s.pv.Spec.Capacity.Storage()
}

// offered returns nil where the driver could publish what the PV says.
func offered(pv *corev1.PersistentVolume) error {
	if mode := pv.Spec.VolumeMode; mode != nil && *mode != corev1.PersistentVolumeFilesystem {
		return fmt.Errorf("volumeMode %s: the CSI driver offers directories alone", *mode)
	}
	for _, mode := range pv.Spec.AccessModes {
		if !slices.Contains(class.CSIModes, mode) {
			return fmt.Errorf("access mode %s: the CSI driver offers %v, and would refuse the pod", mode, class.CSIModes)
		}
	}
	if _, err := mount.ParseFlags(pv.Spec.MountOptions, false); err != nil {
		return fmt.Errorf("the CSI driver would refuse the pod: %w; correct spec.mountOptions of the PV", err)
	}
	return nil
}

// check returns nil where PV and claim are as a migration finds them again.
func (s *subject) check() error {
	pv, ref := s.pv, s.pv.Spec.ClaimRef
	others := foreign(pv)
	switch {
	case pv.DeletionTimestamp != nil:
		return errors.New("the PV is being deleted")
	case len(others) > 0:
		return fmt.Errorf("the PV has finalizers of somebody else, who might miss it: %q", others)
	case s.v.Missing:
		return fmt.Errorf("its directory %s is not there", s.v.Path)
	case pv.Status.Phase == corev1.VolumeFailed:
		return fmt.Errorf("the PV is Failed: %s", pv.Status.Message)
	case pv.Status.Phase == corev1.VolumeReleased && class.Policy(pv) != corev1.PersistentVolumeReclaimRetain:
		return errors.New("the PV is released and about to be deleted with its volume")
	case ref == nil, ref.UID == "", pv.Status.Phase != corev1.VolumeBound:
		return nil
	case s.claim == nil:
		return fmt.Errorf("its claim %s/%s is gone", ref.Namespace, ref.Name)
	case s.claim.DeletionTimestamp != nil:
		return fmt.Errorf("its claim %s/%s is being deleted", ref.Namespace, ref.Name)
	case s.claim.Spec.VolumeName != pv.Name:
		return fmt.Errorf("its claim %s/%s names the volume %q", ref.Namespace, ref.Name, s.claim.Spec.VolumeName)
	}
	return nil
}

// waits says what has to come before the PV can be moved; "" is nothing.
func (n *node) waits(s subject, to string) string {
	if to == toCSI && n.unserved != nil {
		return n.unserved.Error()
	}
	phase := s.pv.Status.Phase
	switch {
	case phase != corev1.VolumeBound && phase != corev1.VolumeReleased && phase != corev1.VolumeAvailable:
		return fmt.Sprintf("the PV is not bound yet (%s)", phase)
	case phase != corev1.VolumeBound, s.claim == nil:
		return ""
	case s.claim.Status.Phase != corev1.ClaimBound:
		return fmt.Sprintf("its claim is %s", s.claim.Status.Phase)
	}
	if s.pv.Spec.CSI == nil && s.pv.Spec.NodeAffinity == nil {
		pod, err := n.elsewhere(s.claim)
		switch {
		case err != nil:
			return err.Error()
		case pod != "":
			return fmt.Sprintf("%s uses it, and so a directory of that node, because the PV names no node; "+
				"stop the pod, and bring what it wrote to %s", pod, s.v.Path)
		}
	}
	user, err := n.users(s.claim)
	switch {
	case err != nil:
		return err.Error()
	case user != "":
		return fmt.Sprintf("pod %s uses it; it is moved when that has gone, or now with --migrate-used", user)
	case s.mountedAt != "" && !n.used:
		return fmt.Sprintf("it is still mounted at %s", s.mountedAt)
	}
	return ""
}

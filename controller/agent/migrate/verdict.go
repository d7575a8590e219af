package migrate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/mount"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Verdict is the result of the check of a PV.
type Verdict string

// The verdicts.
const (
	Migrated Verdict = "migrated" // the volume has a CSI PV
	Ready    Verdict = "ready"    // it is migrated now, or would be
	Waiting  Verdict = "waiting"  // it is migrated when the reason is gone
	Refused  Verdict = "refused"  // it cannot be migrated until a person acts
	Left     Verdict = "left"     // no migration is requested
	Moving   Verdict = "moving"   // a migration is in progress
	Stopped  Verdict = "stopped"  // a migration is in progress, and a person must act
)

// subject is a PV with what its verdict depends on.
type subject struct {
	pv    *corev1.PersistentVolume
	claim *corev1.PersistentVolumeClaim // nil if there is none
	pool  *volume.Pool
	v     volume.Volume
	// mountedAt is where the driver has mounted the volume, or "".
	mountedAt string
	err       error // why the provisioning loop ignores the PV; v is not known then
}

// node is the part of the node's and cluster's state that verdicts depend on.
type node struct {
	mode   settings.MigrateMode
	driver string
	name   string // the Node's
	// unserved returns why no CSI PV can be used on the node now, or nil. It may ask the API server.
	unserved func() error
	used     bool // migrate volumes that pods use, too
	pvs      Provisioners
	// localUser returns a pod of this node that uses a claim, or "".
	localUser func(*corev1.PersistentVolumeClaim) (string, error)
	// remoteUser returns a pod of another node that uses a claim, or "".
	remoteUser func(*corev1.PersistentVolumeClaim) (string, error)
}

// Provisioners answers whose PVs are.
type Provisioners interface {
	// IsForeign reports whether another provisioner created a PV, and the agent does not serve the
	// PVs of that provisioner.
	IsForeign(*corev1.PersistentVolume) bool
	// Serves reports whether this agent serves such a PV, or another provisioner does.
	Serves(*corev1.PersistentVolume) bool
	// At returns the names of the node and of the pool as new PVs have them.
	At(*volume.Pool) contract.Place
	// ValidateReturn returns nil if an unsaved hostPath or local PV would be valid for the volume.
	ValidateReturn(*corev1.PersistentVolume, volume.Volume) error
}

// verdict decides whether a PV may be migrated, and returns the PV that replaces it,
// nil if it may not. It asks the API server only if the migration could begin but for its answer.
func (n *node) verdict(s subject) (to string, next *corev1.PersistentVolume, verdict Verdict, reason string) {
	to, err := target(n.mode, s.pv)
	moved := s.v.Migration.Finished() != nil
	isCSI := s.pv.Spec.CSI != nil
	switch {
	case err != nil:
		return "", nil, Refused, err.Error()
	case errors.Is(s.err, volume.ErrNotReady), errors.Is(s.err, volume.ErrNotFound):
		return to, nil, Waiting, s.err.Error()
	case s.err != nil:
		return to, nil, Refused, s.err.Error()
	case isCSI && (to == toCSI || to == "" || !moved):
		return "", nil, Migrated, cmp.Or(note(s.v), n.stays(s, moved))
	case to == "", to == toHostPath && !isCSI:
		return "", nil, Left, n.recorded(s)
	}
	if note(s.v) != "" {
		s.pv = kept(s.pv)
	}
	next, err = n.successor(s, to)
	if err == nil {
		err = s.check()
	}
	if err == nil {
		err = fits(s.v.Record, s.pv, next)
	}
	if err != nil {
		return to, nil, Refused, err.Error()
	}
	if why := n.waits(s, to); why != "" {
		return to, next, Waiting, why
	}
	return to, next, Ready, ""
}

// stays returns why a volume that was migrated keeps its CSI PV although the mode is Back, or "".
func (n *node) stays(s subject, moved bool) string {
	value := s.pv.Annotations[contract.AnnMigrate]
	if n.mode != settings.MigrateBack || !moved || value == "" {
		return ""
	}
	return fmt.Sprintf("its annotation takes precedence over the mode: kubectl annotate pv %s %s-", s.pv.Name,
		contract.AnnMigrate)
}

// recorded returns a note on a volume of another provisioner that has a record although no
// migration created it.
func (n *node) recorded(s subject) string {
	if s.v.State == "" || s.pv.Spec.CSI != nil || !n.pvs.IsForeign(s.pv) {
		return ""
	}
	return fmt.Sprintf("the agent has a record of it, from COMPAT or an older version, and keeps it: %d bytes stay "+
		"allocated", s.v.Bytes)
}

// fits returns an error if the record of a volume is too long with a PV and the one that replaces
// it in its journal.
func fits(r record.Record, old, next *corev1.PersistentVolume) error {
	m, err := journalOf("", old, next)
	if err != nil {
		return err
	}
	if err := r.Begin(m); err != nil {
		return fmt.Errorf("%w; shorten the PV's annotations and labels", err)
	}
	return nil
}

// note returns what a finished migration left for a person to do, or "".
func note(v volume.Volume) string {
	if v.Migration == nil {
		return ""
	}
	return v.Migration.Stopped
}

// kept returns a PV whose last migration ended with a note: it keeps the policy that it has. Older
// versions left AnnPolicy on it.
func kept(pv *corev1.PersistentVolume) *corev1.PersistentVolume {
	pv = pv.DeepCopy()
	delete(pv.Annotations, contract.AnnPolicy)
	return pv
}

// successor returns the PV that replaces the subject's, or why there can be none.
func (n *node) successor(s subject, to string) (*corev1.PersistentVolume, error) {
	at := n.pvs.At(s.pool)
	if to == toHostPath {
		was, err := parsePV(s.v.Migration.Finished().Old)
		if err != nil {
			return nil, fmt.Errorf("the hostPath PV in its journal: %w", err)
		}
		next := contract.ReturnedHostPathPV(was, s.pv, s.v.Path, at, n.pvs.IsForeign(was))
		if err := n.pvs.ValidateReturn(next, s.v); err != nil {
			return nil, fmt.Errorf("the PV that would replace it is not valid: %w", err)
		}
		return next, nil
	}
	if err := checkSupported(s.pv); err != nil {
		return nil, err
	}
	if len(s.v.Name) > contract.MaxHandle {
		return nil, fmt.Errorf("the name of its directory has %d bytes, and a CSI volume handle at most %d; it stays a "+
			"hostPath PV",
			len(s.v.Name), contract.MaxHandle)
	}
	return contract.MigratedCSIPV(s.pv, n.driver, s.v.Name, s.pool.Name(), size(s), at), nil
}

// size returns what is allocated to the volume. If that is not known, it returns the smaller of the
// claim's request, which may be a growth that was refused, and the PV's capacity, which may be the
// size of the whole disk.
func size(s subject) resource.Quantity {
	has := *s.pv.Spec.Capacity.Storage()
	if s.v.Bytes > 0 {
		has = *resource.NewQuantity(s.v.Bytes, resource.BinarySI)
	}
	if s.claim == nil {
		return has
	}
	switch asked := *s.claim.Spec.Resources.Requests.Storage(); {
	case asked.Cmp(has) == 0, asked.Cmp(has) < 0 && s.v.Bytes == 0:
		return asked
	}
	return has
}

// checkSupported returns nil if the CSI driver can publish a volume with such modes and options.
func checkSupported(pv *corev1.PersistentVolume) error {
	if mode := pv.Spec.VolumeMode; mode != nil && *mode != corev1.PersistentVolumeFilesystem {
		return fmt.Errorf("volumeMode %s: the CSI driver supports directories only", *mode)
	}
	for _, mode := range pv.Spec.AccessModes {
		if !slices.Contains(contract.CSIModes, mode) {
			return fmt.Errorf("access mode %s: the CSI driver supports %v, and would refuse the pod", mode, contract.CSIModes)
		}
	}
	if _, err := mount.ParseFlags(pv.Spec.MountOptions, false); err != nil {
		return fmt.Errorf("the CSI driver would refuse the pod: %w; correct spec.mountOptions of the PV", err)
	}
	return nil
}

// check returns nil if PV, claim and directory are in a state in which a migration can begin.
func (s *subject) check() error {
	pv, ref := s.pv, s.pv.Spec.ClaimRef
	others := otherFinalizers(pv)
	switch {
	case pv.DeletionTimestamp != nil:
		return errors.New("the PV is being deleted")
	case !slices.Contains([]string{"", string(corev1.PersistentVolumeReclaimDelete),
		string(corev1.PersistentVolumeReclaimRetain)}, pv.Annotations[contract.AnnPolicy]):
		return fmt.Errorf("its annotation %s is %q, and no policy: remove it", contract.AnnPolicy,
			pv.Annotations[contract.AnnPolicy])
	case len(others) > 0:
		return fmt.Errorf("the PV has finalizers of other controllers: %q", others)
	case s.v.Missing:
		return fmt.Errorf("its directory %s is missing", s.v.Path)
	case pv.Status.Phase == corev1.VolumeFailed:
		return fmt.Errorf("the PV is Failed: %s", pv.Status.Message)
	case pv.Status.Phase == corev1.VolumeReleased && contract.Policy(pv) != corev1.PersistentVolumeReclaimRetain:
		return errors.New("the PV is Released and will be deleted with its volume")
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

// waits returns why the PV cannot be migrated now, or "".
func (n *node) waits(s subject, to string) string {
	if to == toCSI {
		if err := n.unserved(); err != nil {
			return err.Error()
		}
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
		pod, err := n.remoteUser(s.claim)
		switch {
		case err != nil:
			return err.Error()
		case pod != "":
			return fmt.Sprintf("%s uses a directory of that node, because the PV names no node; "+
				"stop the pod, and copy what it wrote to %s", pod, s.v.Path)
		}
	}
	user, err := n.localUser(s.claim)
	switch {
	case err != nil:
		return err.Error()
	case user != "":
		return fmt.Sprintf("pod %s uses it; it is migrated when the pod is gone, or now with --migrate-used", user)
	case s.mountedAt != "" && !n.used:
		return fmt.Sprintf("it is mounted at %s", s.mountedAt)
	}
	return ""
}

package orphans

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Restorer makes the PV of a volume without one.
type Restorer interface {
	// Restored returns a PV without claimRef that the agent would accept for the volume and the
	// claim, with policy Retain and its capacity. It sets the claim's class if it has none, and lowers its
	// request to the capacity.
	Restored(*volume.Pool, volume.Volume, *corev1.PersistentVolumeClaim,
		[]storagev1.StorageClass) (*corev1.PersistentVolume, error)
}

// Objects are those that bring an orphan back.
type Objects struct {
	PV    *corev1.PersistentVolume      `json:"pv"`
	Claim *corev1.PersistentVolumeClaim `json:"claim,omitempty"` // nil if it exists
	// Notes are what an administrator should know before applying them.
	Notes []string `json:"notes,omitempty"`
}

// Wanted names an orphan that is to come back, and for which claim.
type Wanted struct {
	Named
	// As is the claim, namespace/name; "" is the recorded one.
	As string `json:"as,omitempty"`
}

// Restored returns the PV and the claim that bring an orphan back: a PV with its recorded name and
// policy Retain, and a claim that names it. If the recorded claim exists, it is Lost, and the PV
// names it. A claim that the caller names must not exist. Without one the namespace must be that of the
// recorded claim, and none that was made again since. Restored changes nothing.
//
// The error is an ErrNotFound if the record does not exist or is another volume's, an ErrNotReady
// if the API server does not answer, and another one if no PV can bring the volume back now.
func (o *Checker) Restored(ctx context.Context, n Wanted, from Restorer) (all Objects, err error) {
	pool, r, err := n.In(o.Pools)
	if err != nil {
		return all, err
	}
	switch pv, err := live.PV(ctx, o.Client, pvOf(r)); {
	case err != nil:
		return all, err
	case pv != nil:
		return all, fmt.Errorf("PV %s exists, and a volume has one PV, of its recorded name; if that PV names another "+
			"volume, save and delete it first", pv.Name)
	case r.Ephemeral:
		return all, fmt.Errorf("%s is an ephemeral inline volume, which no PV can name", r.Name)
	}
	claim, exists, err := o.claimFor(ctx, r)
	if n.As != "" {
		claim, exists, err = o.claimNamed(ctx, r, n.As)
	}
	if err != nil {
		return all, err
	}
	meant := n.As != "" || exists && string(claim.UID) == r.Owner.UID // which proves the namespace, too
	if all.Notes, err = o.tenant(ctx, r, claim.Namespace, meant); err != nil {
		return all, err
	}
	classes, err := o.Client.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return all, live.Unanswered{Request: "list storage classes", Err: err}
	}
	r.PV = pvOf(r)
	all.PV, err = from.Restored(pool, volume.Volume{Record: r, Path: filepath.Join(pool.Path(), r.Name)}, claim,
		classes.Items)
	if err != nil {
		return all, err
	}
	all.PV.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
	all.PV.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	if r.Bytes == 0 {
		all.Notes = append(all.Notes, "the volume's size is not known, because its directory was adopted: correct it in PV "+
			"and claim")
	}
	if !exists {
		all.Claim = claim
	}
	all.Notes = append(all.Notes, notes(r, claim, exists, n.As != "")...)
	return all, nil
}

// notes returns what differs from the PV and the claim that the volume had. chosen is set if the caller
// named the claim.
func notes(r record.Record, claim *corev1.PersistentVolumeClaim, exists, chosen bool) (all []string) {
	if !exists && !chosen && r.Owner.Name != claim.Name {
		all = append(all, fmt.Sprintf("the volume was made for claim %s, whose name is not known or is taken: choose "+
			"namespace and name, the same in PV and claim",
			cmp.Or(r.Owner.Namespace+"/"+r.Owner.Name, r.Owner.UID)))
	}
	if exists {
		all = append(all, "claim "+claim.Namespace+"/"+claim.Name+" exists and names this PV: it needs no other")
	}
	if *claim.Spec.StorageClassName == "" {
		all = append(all, "no class has volumes in this pool, so the volume cannot grow")
	}
	if r.ReclaimPolicy != string(corev1.PersistentVolumeReclaimRetain) {
		all = append(all, fmt.Sprintf("the policy is Retain, and the last one was %q: restore it once PV and claim are Bound",
			r.ReclaimPolicy))
	}
	return all
}

// unknownBytes is what a claim requests for a volume of unknown size.
const unknownBytes = 1 << 30

// claimFor returns the claim for a volume, and whether it exists: the recorded one, or one of its
// name that names the volume's PV. A new claim has the recorded name unless another claim has it.
func (o *Checker) claimFor(ctx context.Context, r record.Record) (claim *corev1.PersistentVolumeClaim, exists bool,
	err error) {
	name := r.Owner.Name
	if r.Owner.Namespace != "" && name != "" {
		found, err := live.NamedClaim(ctx, o.Client, r.Owner.Namespace, name)
		switch {
		case err != nil:
			return nil, false, err
		case found != nil && (string(found.UID) == r.Owner.UID || found.Spec.VolumeName == pvOf(r)):
			return found, true, nil
		case found != nil:
			name = name[:min(len(name), maxName-len(restoredSuffix))] + restoredSuffix
		}
	}
	return newClaim(r, cmp.Or(r.Owner.Namespace, metav1.NamespaceDefault), cmp.Or(name, pvOf(r))), false, nil
}

// claimNamed returns the claim for a volume that its caller names. It must not exist, so that no data is
// given to a claim that waits for another volume, or for an importer.
func (o *Checker) claimNamed(ctx context.Context, r record.Record, as string) (claim *corev1.PersistentVolumeClaim,
	exists bool, err error) {
	namespace, name, both := strings.Cut(as, "/")
	if !both || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, false, fmt.Errorf("%q is not NAMESPACE/CLAIM", as)
	}
	found, err := live.NamedClaim(ctx, o.Client, namespace, name)
	switch {
	case err != nil:
		return nil, false, err
	case found != nil && found.Spec.VolumeName == pvOf(r):
		return found, true, nil
	case found != nil:
		return nil, false, fmt.Errorf("claim %s exists: name one that does not", as)
	}
	return newClaim(r, namespace, name), false, nil
}

// newClaim returns a claim for a volume, with what was recorded of its own.
func newClaim(r record.Record, namespace, name string) *corev1.PersistentVolumeClaim {
	size := *resource.NewQuantity(cmp.Or(r.Bytes, unknownBytes), resource.BinarySI)
	claim := &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
			VolumeName:  pvOf(r),
		},
	}
	contract.Restore(claim, r.Claim)
	return claim
}

const (
	restoredSuffix = "-restored"
	maxName        = 253 // bytes of an object's name
)

package claims

import (
	"context"
	"errors"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// readRetryDelay is the pause before a held claim that could not be read is read again.
const readRetryDelay = 10 * time.Second

// heldClaim is a claim whose class does not exist. Every agent keeps every such
// claim, and any user can create claims, so a heldClaim has only the fields that the
// placer reads. Each field has a bounded length.
type heldClaim struct {
	namespace, name string
	class           string
	wanted, chosen  string // the nodes that the annotations name, "" for none
	volume          string // the PV that the claim names, "" for none
	bytes           int64  // requested
}

// hold returns the heldClaim of a claim, and false if no class can have such a name.
func hold(claim *corev1.PersistentVolumeClaim) (heldClaim, bool) {
	name := contract.Of(claim)
	return heldClaim{
		namespace: claim.Namespace, name: claim.Name, class: name,
		wanted: contract.Bounded(claim.Annotations[contract.AnnProvisionOnNode]),
		chosen: contract.Bounded(claim.Annotations[contract.AnnSelectedNode]),
		volume: contract.Bounded(claim.Spec.VolumeName), bytes: contract.Bytes(claim),
	}, contract.Bounded(name) == name
}

// claim returns a claim that has only the fields of h.
func (h heldClaim) claim(uid types.UID) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: h.name, UID: uid}}
	c.Spec.StorageClassName, c.Spec.VolumeName = &h.class, h.volume
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(h.bytes,
		resource.BinarySI)}
	for key, node := range map[string]string{contract.AnnProvisionOnNode: h.wanted, contract.AnnSelectedNode: h.chosen} {
		if node != "" {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, key, node)
		}
	}
	return c
}

// matches reports whether h is the heldClaim of the claim. If not, the claim has
// changed and the watch will report it.
func (h heldClaim) matches(claim *corev1.PersistentVolumeClaim) bool {
	now, _ := hold(claim)
	return now == h
}

// classAppeared places the claims that are held for the class of that name. Local
// claims are read from the API server before they are passed. If a read fails,
// classAppeared runs again after readRetryDelay.
func (f *filter) classAppeared(name string) {
	failed := false
	for uid, h := range f.heldFor(name) {
		if f.placer.place(h.claim(uid)) != local {
			f.retry(uid)
			continue
		}
		claim, err := f.read(h.namespace, h.name)
		switch {
		case apierrors.IsNotFound(err), errors.Is(err, context.Canceled):
		case err != nil:
			failed = true
		case claim.UID == uid:
			f.retryRead(map[types.UID]*corev1.PersistentVolumeClaim{uid: contract.Slim(claim)})
		}
	}
	if failed {
		time.AfterFunc(readRetryDelay, func() { f.classAppeared(name) })
	}
}

func (f *filter) heldFor(class string) map[types.UID]heldClaim {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := maps.Clone(f.held)
	maps.DeleteFunc(held, func(_ types.UID, h heldClaim) bool { return h.class != class })
	return held
}

// placeHeld releases a held claim that is not local. It does nothing if the claim is
// local or its class is gone again.
func (f *filter) placeHeld(uid types.UID, h heldClaim) {
	where := f.placer.place(h.claim(uid))
	if where == local || where == unknown {
		return // the class was deleted or created again; classAppeared runs again
	}
	f.placed(h.claim(uid), where)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.held, uid)
}

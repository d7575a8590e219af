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
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
)

// readRetryDelay is the pause before a held claim that could not be read is read again.
const readRetryDelay = 10 * time.Second

// heldClaim is a claim whose class does not exist, or whose source is not bound to a PV of this node.
// Every agent keeps every such claim, and any user can create claims, so a heldClaim has only the fields
// that the placer reads. Each field has a bounded length.
type heldClaim struct {
	namespace, name string
	class           string
	wanted, chosen  string         // the nodes that the annotations name, "" for none
	volume          string         // the PV that the claim names, "" for none
	bytes           int64          // requested
	source          contract.Named // the claim whose volume is copied, if any
	asked           bool           // the controller-manager has written the provisioner's name on it
	left            bool           // chosen was this node before, and is another one now
	since           time.Time      // when chosen and asked were seen first
}

// hold returns the heldClaim of a claim, and false if no class can have such a name.
func hold(claim *corev1.PersistentVolumeClaim) (heldClaim, bool) {
	name := contract.Of(claim)
	source, _ := contract.CopiedClaim(claim)
	return heldClaim{
		source:    contract.Named{Namespace: contract.Bounded(source.Namespace), Name: contract.Bounded(source.Name)},
		namespace: claim.Namespace, name: claim.Name, class: name,
		wanted: contract.Bounded(claim.Annotations[contract.AnnProvisionOnNode]),
		chosen: contract.Bounded(claim.Annotations[contract.AnnSelectedNode]),
		volume: contract.Bounded(claim.Spec.VolumeName), bytes: contract.Bytes(claim),
		asked: claim.Annotations[contract.AnnStorageProvisioner] != "",
	}, contract.Bounded(name) == name
}

// claim returns a claim that has only the fields of h.
func (h heldClaim) claim(uid types.UID) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: h.name, UID: uid}}
	c.Spec.StorageClassName, c.Spec.VolumeName = &h.class, h.volume
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(h.bytes,
		resource.BinarySI)}
	if h.source.Name != "" {
		c.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: h.source.Name,
			Namespace: &h.source.Namespace}
	}
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
	now.left, now.since = h.left, h.since
	return now == h
}

// follows has h begin where former, the same claim before, says that it began.
func (h *heldClaim) follows(former heldClaim, node string) {
	h.left = former.moved(*h, node)
	if h.since = former.since; former.chosen != h.chosen || former.asked != h.asked || h.since.IsZero() {
		h.since = time.Now()
	}
}

// classAppeared places the claims that are held for the class of that name.
func (f *filter) classAppeared(name string) {
	f.placeAgain(func(h heldClaim) bool { return h.class == name })
}

// sourceChanged places the claims again whose source is that claim, which was bound to a PV of this
// node, or is not any more.
func (f *filter) sourceChanged(source contract.Named) {
	f.retry(f.passedFrom(source)...)
	f.placeAgain(func(h heldClaim) bool { return h.source == source })
}

// passedFrom returns the claims that were passed and have that source.
func (f *filter) passedFrom(source contract.Named) (uids []types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for uid, claim := range f.passed {
		if of, ok := contract.CopiedClaim(claim); ok && of == source && claim.Spec.VolumeName == "" {
			uids = append(uids, uid)
		}
	}
	return uids
}

// placeAgain places the held claims that are meant. Local claims are read from the API server before
// they are passed. If a read fails, placeAgain runs again after readRetryDelay.
func (f *filter) placeAgain(meant func(heldClaim) bool) {
	failed := false
	for uid, h := range f.heldFor(meant) {
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
		time.AfterFunc(readRetryDelay, func() { f.placeAgain(meant) })
	}
}

func (f *filter) heldFor(meant func(heldClaim) bool) map[types.UID]heldClaim {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := maps.Clone(f.held)
	maps.DeleteFunc(held, func(_ types.UID, h heldClaim) bool { return !meant(h) })
	return held
}

// leftFor is how long copiesIn returns a copy that left this node after it was bound. The empty claims of its
// pod may be placed only then: the copy of a small volume takes less time than the scheduler's next write.
var leftFor = timing.Scaled(30 * time.Second)

// leftCopy is a copy that left this node and was bound to the PV of another one at that time.
type leftCopy struct {
	heldClaim
	at time.Time
}

// remember keeps a copy that left this node. The caller holds f.mu.
func (f *filter) remember(uid types.UID, h heldClaim) {
	now := time.Now()
	maps.DeleteFunc(f.left, func(_ types.UID, l leftCopy) bool { return now.Sub(l.at) > leftFor })
	if len(f.left) < RememberMost {
		f.left[uid] = leftCopy{h, now}
	}
}

// leftIn returns the copies of a namespace that left this node and are bound.
func (f *filter) leftIn(namespace string) (all []Copy) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for uid, l := range f.left {
		if l.namespace == namespace && time.Since(l.at) <= leftFor {
			all = append(all, Copy{UID: uid, Node: l.chosen, Left: true})
		}
	}
	return all
}

// Copy is a claim with a copy of another claim's volume, which another node makes.
type Copy struct {
	UID types.UID
	// Node is the node that the claim names, "" if the scheduler has yet to choose one.
	Node string
	// Asked is true once the controller-manager has asked for the volume. Only then does the node of the
	// source name itself in place of Node.
	Asked bool
	// Since is when Node and Asked were seen first.
	Since time.Time
	// Left is true if it named this node before. One that has its PV is reported for leftFor, without the
	// two above.
	Left bool
}

// copiesIn returns the held claims of a namespace that wait for a copy, and for the scheduler, and those that
// left this node and were bound in the last leftFor.
func (f *filter) copiesIn(namespace string) (all []Copy) {
	for uid, h := range f.heldFor(func(h heldClaim) bool { return h.namespace == namespace && h.source.Name != "" }) {
		if c := f.placer.class(h.class); c != nil && contract.Delayed(c) && f.placer.place(h.claim(uid)) == remoteBySource {
			all = append(all, Copy{UID: uid, Node: h.chosen, Asked: h.asked, Since: h.since, Left: h.left})
		}
	}
	return append(all, f.leftIn(namespace)...)
}

// moved reports whether a held claim that named the node, or had left it, names another one now.
func (h heldClaim) moved(now heldClaim, node string) bool {
	return now.chosen != "" && now.chosen != node && (h.left || h.chosen == node)
}

// placeHeld releases a held claim that is not local, unless it waits for its source. It does nothing if
// the claim is local or its class is gone again.
func (f *filter) placeHeld(uid types.UID, h heldClaim) {
	where := f.placer.place(h.claim(uid))
	if where == local || where == unknown {
		return // the class was deleted or created again; classAppeared runs again
	}
	f.placed(h.claim(uid), where)
	if where == remoteBySource {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.held, uid)
}

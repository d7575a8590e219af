package claims

import (
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/class"
)

const (
	// maxName is the length in bytes of the longest name that a class or a Node
	// can have.
	maxName = 253
	// readAgain is the pause before a held claim that could not be read is read
	// again.
	readAgain = 10 * time.Second
)

// heldClaim is a claim whose class does not exist. Every agent keeps every such
// claim, and any user can create claims, so a heldClaim has only what the placer
// looks at. All of its fields have a bounded length.
type heldClaim struct {
	namespace, name string
	class           string
	wanted, chosen  string // the nodes that the annotations name, "" for none
}

// hold returns what is kept of a claim, and false if its class cannot ever exist.
func hold(claim *corev1.PersistentVolumeClaim) (heldClaim, bool) {
	name := class.Of(claim)
	return heldClaim{
		namespace: claim.Namespace, name: claim.Name, class: name,
		wanted: shortened(claim.Annotations[class.AnnProvisionOnNode]),
		chosen: shortened(claim.Annotations[class.AnnSelectedNode]),
	}, len(name) <= maxName
}

// claim returns the part of the claim that was kept.
func (h heldClaim) claim(uid types.UID) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: h.name, UID: uid}}
	c.Spec.StorageClassName = &h.class
	for key, node := range map[string]string{class.AnnProvisionOnNode: h.wanted, class.AnnSelectedNode: h.chosen} {
		if node != "" {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, key, node)
		}
	}
	return c
}

// isOf reports whether h is what is kept of the claim. If not, the claim changed
// and the watch brings it.
func (h heldClaim) isOf(claim *corev1.PersistentVolumeClaim) bool {
	now, _ := hold(claim)
	return now == h
}

// shortened returns the name of a node, cut if no node can have such a long name.
// The result is then no node's name either.
func shortened(node string) string {
	if len(node) <= maxName {
		return node
	}
	return strings.Clone(node[:maxName]) + "…"
}

// classAppeared handles the claims that are held for that class, which exists now.
// Claims of this node are read from the API server before they are sent down the
// feed. If that fails, it is tried again after a pause.
func (f *feed) classAppeared(name string) {
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
			f.sendAgain(map[types.UID]*corev1.PersistentVolumeClaim{uid: claim})
		}
	}
	if failed {
		time.AfterFunc(readAgain, func() { f.classAppeared(name) })
	}
}

func (f *feed) heldFor(class string) map[types.UID]heldClaim {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := map[types.UID]heldClaim{}
	for uid, h := range f.held {
		if h.class == class {
			held[uid] = h
		}
	}
	return held
}

// judge handles a held claim that is not of this node.
func (f *feed) judge(uid types.UID, h heldClaim) {
	where := f.placer.place(h.claim(uid))
	if where == local || where == unknown {
		return // the class was made again since, so classAppeared is called again
	}
	f.heard(h.claim(uid), where)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.held, uid)
}

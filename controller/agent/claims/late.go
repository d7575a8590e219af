package claims

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
)

// A claim that names no node is local once its PV is known to be on this node. For a PV without the
// node's label that may be long after the last event of the claim: nothing else would place it again,
// and it could not grow. So it is read when its PV appears.

// boundHere has a claim read and placed again whose PV appeared on this node. It does nothing for a
// claim that was passed.
func (f *filter) boundHere(name contract.Named, uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.passed[uid]; ok || uid == "" {
		return
	}
	f.late[uid] = name
	sleep.Wake(f.readLate)
}

// runLate reads claims of boundHere until the context ends.
func (f *filter) runLate(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.readLate:
		}
		for f.placeLate() && sleep.For(ctx, readRetryDelay) {
		}
	}
}

// placeLate reads the claims and has them sent. It reports whether one could not be read. An event of a
// claim, which places it, or a new list ends that: what was read may be older.
func (f *filter) placeLate() (failed bool) {
	f.mu.Lock()
	unread := map[types.UID]contract.Named{}
	for uid, name := range f.late {
		if f.resend[uid] == nil {
			unread[uid] = name
		}
	}
	f.mu.Unlock()
	read := map[types.UID]*corev1.PersistentVolumeClaim{}
	for uid, name := range unread {
		claim, err := f.read(name.Namespace, name.Name)
		switch {
		case apierrors.IsNotFound(err) || err == nil && claim.UID != uid:
			f.mu.Lock()
			delete(f.late, uid)
			f.mu.Unlock()
		case err != nil:
			failed = true
		default:
			read[uid] = contract.Slim(claim)
		}
	}
	f.retryRead(read)
	return failed
}

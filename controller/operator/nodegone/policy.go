package nodegone

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
)

// policy is what happens to the volumes of a class whose node is gone.
type policy string

const (
	// keep reports the volume.
	keep policy = "keep"
	// release deletes claim and PV. If the node comes back, its agent keeps the directory and
	// reports it as an orphan.
	release policy = "release"
	// remove deletes the claim. The PV stays for the node: if that comes back, its agent acts by
	// the PV's reclaim policy.
	remove policy = "delete"
)

// policyOf returns the policy of a PV, whose class is sc. Without a class it is keep. It is keep
// too for a PV that the provisioners did not make: an administrator did. invalid describes an
// annotation that is none of the policies.
func policyOf(pv *corev1.PersistentVolume, sc *storagev1.StorageClass) (p policy, invalid string) {
	by := pv.Annotations[contract.AnnProvisionedBy]
	if sc == nil || by != contract.HostPathProvisioner && by != contract.CSIProvisioner {
		return keep, ""
	}
	switch p := policy(sc.Annotations[contract.AnnNodeGone]); p {
	case "", keep:
		return keep, ""
	case release, remove:
		return p, ""
	default:
		return keep, fmt.Sprintf("class %s has the annotation %s: %q; set it to %s, %s or %s. ",
			sc.Name, contract.AnnNodeGone, string(p), keep, release, remove)
	}
}

// cachedClass returns the class of a PV from the cache, nil if there is none.
func (r *Reconciler) cachedClass(ctx context.Context, pv *corev1.PersistentVolume) (*storagev1.StorageClass, error) {
	var sc storagev1.StorageClass
	err := r.Cache.Get(ctx, types.NamespacedName{Name: pv.Spec.StorageClassName}, &sc)
	if pv.Spec.StorageClassName == "" || apierrors.IsNotFound(err) {
		return nil, nil
	}
	return &sc, err
}

// liveClass reads the class of a PV from the API server. It is nil if there is none.
func (r *Reconciler) liveClass(ctx context.Context, pv *corev1.PersistentVolume) (*storagev1.StorageClass, error) {
	if pv.Spec.StorageClassName == "" {
		return nil, nil
	}
	sc, err := r.Live.StorageV1().StorageClasses().Get(ctx, pv.Spec.StorageClassName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, live.Unanswered{Request: "read class " + pv.Spec.StorageClassName, Err: err}
	}
	return sc, nil
}

// silence is the time in which a node has not answered.
type silence struct {
	at    time.Time
	uid   types.UID // of the Node that took its place, "" if there is none
	ready bool      // an agent was ready when it was checked last
	over  bool      // the grace period was over then
}

// wait returns what is left of the grace period of a node that does not exist, or that the Node
// with the UID replaced. The period begins when this process first misses the node, and again
// whenever an agent of a node that does not exist was ready since. So a restart of the operator
// only prolongs it.
func (r *Reconciler) wait(ctx context.Context, name string, uid types.UID) (time.Duration, error) {
	grace, err := r.Grace(ctx)
	if err != nil {
		return 0, err
	}
	now := time.Now()
	q, ok := r.since[name]
	if !ok || q.uid != uid {
		q = silence{at: now, uid: uid}
	}
	if uid == "" {
		ready, unready, err := r.agent(ctx, name)
		if err != nil {
			return 0, err
		}
		if ready || q.ready {
			q.at = now
		}
		if unready.After(now) {
			unready = now // the clock of the node may be wrong
		}
		if unready.After(q.at) {
			q.at = unready // it was ready between two checks
		}
		q.ready = ready
	}
	rest := grace - now.Sub(q.at)
	q.over = rest <= 0
	r.since[name] = q
	return rest, nil
}

package nodegone

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/controller/live"
)

// topic is that of the events about a node that is gone.
const topic = "node gone"

// act handles the PVs of a node that seems to be gone, and returns how many are in which state. It counts a PV that it could
// not handle as one that is being removed, so that it is tried again soon.
func (r *Reconciler) act(ctx context.Context, pvs []corev1.PersistentVolume) (tally, error) {
	t, reasons := tally{}, map[home]string{}
	var errs []error
	for i := range pvs {
		pv := &pvs[i]
		h, _ := homeOf(pv)
		why, read := reasons[h]
		var err error
		if !read {
			if why, err = r.gone(ctx, h); err == nil {
				reasons[h] = why
			}
		}
		s := present
		if err == nil && why != "" {
			s, err = r.handle(ctx, pv, h, why)
		}
		if err != nil {
			s, err = removing, fmt.Errorf("PV %s: %w", pv.Name, err)
		}
		t[s]++
		errs = append(errs, err)
	}
	return t, errors.Join(errs...)
}

// handle reports a PV whose home is gone, or takes the next step of its policy.
func (r *Reconciler) handle(ctx context.Context, pv *corev1.PersistentVolume, h home, why string) (state, error) {
	sc, err := r.cachedClass(ctx, pv)
	if err != nil {
		return present, err
	}
	p, invalid := policyOf(pv, sc)
	if p == keep {
		return kept, r.report(ctx, pv, invalid+why)
	}
	return r.giveUp(ctx, pv, h, p)
}

// report records an event on the PV, and on its claim if that is cached: why the volume cannot be used, and how to give it up.
func (r *Reconciler) report(ctx context.Context, pv *corev1.PersistentVolume, why string) error {
	objects, first := []corev1.ObjectReference{events.PV(pv)}, ""
	if ref := pv.Spec.ClaimRef; ref != nil {
		var claim corev1.PersistentVolumeClaim
		switch err := r.Cache.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, &claim); {
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("read claim %s/%s: %w", ref.Namespace, ref.Name, err)
		case err == nil && claim.UID == ref.UID:
			objects, first = append(objects, events.Claim(&claim)), fmt.Sprintf("kubectl -n %s delete pvc %s; ", claim.Namespace, claim.Name)
		}
	}
	for _, o := range objects {
		r.Events.Warn(ctx, o, topic, events.VolumeNodeGone, fmt.Sprintf("%s, and it had this volume: "+
			"if a node of this name comes back with the disk, so does the volume. To give the data up: "+
			"%[2]skubectl delete pv %[3]s --wait=false; kubectl patch pv %[3]s -p '{\"metadata\":{\"finalizers\":null}}'", why, first, pv.Name))
	}
	return nil
}

// collect deletes the capacity objects of a node that does not exist: its agent cannot, and a node of its name would be
// offered with their sizes until its own agent runs.
func (r *Reconciler) collect(ctx context.Context, node string, all []storagev1.CSIStorageCapacity) error {
	if len(all) == 0 {
		return nil
	}
	if why, err := r.gone(ctx, home{node: node}); why == "" || err != nil {
		return err
	}
	var errs []error
	for i := range all {
		o := &all[i]
		err := r.Live.StorageV1().CSIStorageCapacities(o.Namespace).Delete(ctx, o.Name, live.Unchanged(o))
		if err = ignoreMoved(err); err != nil {
			errs = append(errs, fmt.Errorf("delete capacity object %s: %w", o.Name, err))
		}
	}
	return errors.Join(errs...)
}

// ignoreMoved returns nil for the error of a write to an object that changed or is gone: the watch brings the change.
func ignoreMoved(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

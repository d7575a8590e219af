package nodegone

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
)

// topic is that of the events about a node that is gone.
const topic = "node gone"

// handleAll handles the PVs of a node that seems to be gone, and returns how many are in which
// state. One that it could not handle counts as being removed, so that it is tried again soon.
func (r *Reconciler) handleAll(ctx context.Context, pvs []corev1.PersistentVolume, facts *reader) (tally, error) {
	t := tally{}
	var errs []error
	for i := range pvs {
		s, err := r.handle(ctx, &pvs[i], facts)
		if err != nil {
			s, err = removing, fmt.Errorf("PV %s: %w", pvs[i].Name, err)
		}
		t[s]++
		errs = append(errs, err)
	}
	return t, errors.Join(errs...)
}

// handle reports a PV whose volume may be lost with its node, or takes the next step of its policy.
func (r *Reconciler) handle(ctx context.Context, pv *corev1.PersistentVolume, known *reader) (state, error) {
	h, _ := identity.HomeOf(pv)
	f, err := known.facts(ctx, pv, h)
	if err != nil {
		return present, err
	}
	loss, found := identity.NodeGone(f)
	switch {
	case found.Answer == identity.Foreign && f.HostnameTaken():
		return kept, r.report(ctx, pv, found.Why+", and its agent does not have this volume: pods of this PV would start "+
			"there without it. Give one of the two machines another hostname", false)
	case found.Answer == identity.Foreign:
		return present, r.restore(ctx, pv)
	case found.Answer == identity.Unclear && found.Why == "":
		return present, nil
	case loss == identity.GivenUp:
		return r.giveUp(ctx, pv, h, release, loss)
	}
	sc, err := r.cachedClass(ctx, pv)
	if err != nil {
		return present, err
	}
	p, invalid := policyOf(pv, sc)
	switch {
	case p == remove && contract.Released(pv):
		// Its claim is deleted, and it waits for its node, perhaps for ever. Should Kubernetes bind it
		// again, its change begins the next pass.
		return released, nil
	case found.Answer == identity.Unclear:
		return kept, r.report(ctx, pv, invalid+found.Why, !f.Exists)
	case p == keep:
		return kept, r.report(ctx, pv, invalid+reason(f, loss), true)
	}
	return r.giveUp(ctx, pv, h, p, loss)
}

func reason(f identity.NodeFacts, loss identity.Loss) string {
	switch loss {
	case identity.GivenUp:
		return fmt.Sprintf("node %s has the annotation %s, which gives this volume up", f.Node, contract.AnnGiveUp)
	case identity.VolumeMissing:
		return fmt.Sprintf("node %s was made again, and pool %s came to it without this volume", f.Node, f.Pool)
	}
	return fmt.Sprintf("node %s does not exist any more, and it had this volume: if a node of this name comes back "+
		"with the disk, so does the volume", f.Node)
}

// report records an event on the PV, and on its claim if that is cached: why the volume cannot be
// used, and if commands is set those that give it up.
func (r *Reconciler) report(ctx context.Context, pv *corev1.PersistentVolume, why string, commands bool) error {
	objects, first := []corev1.ObjectReference{events.PV(pv)}, ""
	if ref := pv.Spec.ClaimRef; ref != nil {
		var claim corev1.PersistentVolumeClaim
		switch err := r.Cache.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, &claim); {
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("read claim %s/%s: %w", ref.Namespace, ref.Name, err)
		case err == nil && claim.UID == ref.UID:
			objects, first = append(objects, events.Claim(&claim)), events.ToDeleteClaim(&claim, pv.Name, "")
		}
	}
	if commands {
		why += fmt.Sprintf(". To give the data up: %skubectl delete pv %s --wait=false; %s", first, pv.Name,
			contract.ToDropFinalizer(pv.Name))
	}
	for _, o := range objects {
		r.Events.Warn(ctx, o, topic+": "+why, events.VolumeNodeGone, why) // again if it is another reason within the hour
	}
	return nil
}

// collect deletes the capacity objects of a node that does not exist: its agent cannot, and a node
// of its name would be offered with their sizes until its own agent runs.
func (r *Reconciler) collect(ctx context.Context, node string, all []storagev1.CSIStorageCapacity) error {
	if len(all) == 0 {
		return nil
	}
	if now, err := live.Node(ctx, r.Live, node); now != nil || err != nil {
		return err
	}
	if ready, _, err := r.agent(ctx, node); ready != nil || err != nil {
		return err
	}
	var errs []error
	for i := range all {
		o := &all[i]
		err := r.Live.StorageV1().CSIStorageCapacities(o.Namespace).Delete(ctx, o.Name, live.Unchanged(o))
		if err = live.IgnoreMoved(err); err != nil {
			errs = append(errs, fmt.Errorf("delete capacity object %s: %w", o.Name, err))
		}
	}
	return errors.Join(errs...)
}

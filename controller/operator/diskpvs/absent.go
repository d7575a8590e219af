package diskpvs

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/operator/agentstatus"
)

// absence is the time in which a Node does not exist and no agent of it is ready.
type absence struct {
	at    time.Time
	ready bool // an agent was ready when it was checked last
}

// withdraw deletes the PVs of a Node that does not exist which no claim has or had, so that no claim
// gets one, and reports the others. It does nothing until the grace period is over. next is the time
// until the Node is to be checked again.
func (r *Reconciler) withdraw(ctx context.Context, name string,
	pvs []corev1.PersistentVolume) (next time.Duration, err error) {
	grace, err := r.Grace(ctx)
	if err != nil {
		return checkInterval, err
	}
	rest, ready, err := r.rest(ctx, name, grace)
	if rest > 0 || err != nil {
		return max(rest, time.Second), err
	}
	var failed []error
	for i := range pvs {
		if err := r.handle(ctx, pvs[i].Name, ready); err != nil {
			failed = append(failed, fmt.Errorf("PV %s: %w", pvs[i].Name, err))
		}
	}
	return checkInterval, errors.Join(failed...)
}

// rest returns what is left of the grace period. The period begins when this process first misses the
// Node, and again whenever an agent of it was ready since.
func (r *Reconciler) rest(ctx context.Context, name string,
	grace time.Duration) (rest time.Duration, ready bool, err error) {
	now := time.Now()
	a, ok := r.absent[name]
	if !ok {
		a.at = now
	}
	agent, unready, err := agentstatus.OnNode(ctx, r.Live, r.Namespace, name)
	if err != nil {
		return grace, false, err
	}
	ready = agent != nil
	if ready || a.ready {
		a.at = now
	}
	if unready.After(now) {
		unready = now // the clock of the node may be wrong
	}
	if unready.After(a.at) {
		a.at = unready
	}
	a.ready = ready
	r.absent[name] = a
	return grace - now.Sub(a.at), ready, nil
}

// handle deletes or reports a PV as the API server has it.
func (r *Reconciler) handle(ctx context.Context, name string, agent bool) error {
	pv, err := live.PV(ctx, r.Live, name)
	if pv == nil || err != nil || pv.DeletionTimestamp != nil {
		return err
	}
	h, ok := identity.DiskHome(pv)
	if !ok {
		return r.reportHashed(ctx, pv, h)
	}
	f := identity.NodeFacts{PV: pv.Name, Home: h, Agent: agent, Waited: true}
	if f.ThisCluster, err = r.thisCluster(ctx); err != nil {
		return err
	}
	node, err := live.Node(ctx, r.Live, h.Node)
	if node != nil || err != nil {
		return err // the agent of that Node handles the PV
	}
	if f.HostnameAt, err = live.NodeWithHostname(ctx, r.Live, h.Hostname); err != nil {
		return err
	}
	switch _, found := identity.NodeGone(f); {
	case found.Answer == identity.Foreign:
		return nil
	case found.Answer == identity.Unclear:
		return r.report(ctx, pv, found.Why)
	case h.Hostname == "":
		return r.report(ctx, pv, fmt.Sprintf("node %s does not exist any more, and the PV requires no hostname, so "+
			"whether another node has the disk is not known", h.Node))
	case !identity.DiskIsFree(pv):
		return r.report(ctx, pv, fmt.Sprintf("node %s does not exist any more, and it had the disk of this PV: have "+
			"the machine register under this name, and confirm the disk with the command that disks inspect prints "+
			"there", h.Node))
	}
	r.Events.Note(ctx, events.PV(pv), "withdrawn", events.DeviceWithdrawn,
		fmt.Sprintf("the PV is withdrawn: node %s does not exist any more, and no claim had the disk. It is "+
			"offered again if the node comes back", h.Node))
	return live.IgnoreMoved(r.Live.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, live.Unchanged(pv)))
}

// reportHashed reports a PV of a Node whose name is too long for a label: it is known by a hash, and by the
// hostname. It does nothing if a Node has that hostname, or if the PV has no such label.
func (r *Reconciler) reportHashed(ctx context.Context, pv *corev1.PersistentVolume, h identity.Home) error {
	if h.Node == "" {
		return nil
	}
	if at, err := live.NodeWithHostname(ctx, r.Live, h.Hostname); at != "" || err != nil {
		return err
	}
	return r.report(ctx, pv, fmt.Sprintf("no Node has a name with the hash %s and the hostname %q, so the node of this PV "+
		"does not exist any more. Its name is too long for a label, so the operator does not withdraw the PV", h.Node, h.Hostname))
}

// report records on the PV, and on its claim, why the disk cannot be used, and the commands that give
// it up.
func (r *Reconciler) report(ctx context.Context, pv *corev1.PersistentVolume, why string) error {
	objects, first := []corev1.ObjectReference{events.PV(pv)}, ""
	claim, err := live.ClaimOf(ctx, r.Live, pv)
	if err != nil {
		return err
	}
	if claim != nil {
		objects = append(objects, events.Claim(claim))
		first = events.ToDeleteClaim(claim, pv.Name, " --wait=false")
	}
	why += fmt.Sprintf(". If the machine is gone for good, to give the data up: %skubectl delete pv %s", first, pv.Name)
	for _, o := range objects {
		r.Events.Warn(ctx, o, "disk of an absent node: "+why, events.VolumeNodeGone, why)
	}
	return nil
}

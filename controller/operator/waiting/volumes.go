package waiting

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
)

// sayAgainAfter is the time after which the node of a PV is read again, and the event repeated.
var sayAgainAfter = timing.Scaled(time.Hour)

// Volumes watches PVs whose volumes are to be deleted, and records an event on one whose node has no agent
// that could. It leaves those of nodes that do not exist to package nodegone. Register it once with a manager.
type Volumes struct {
	*Reconciler

	leaving map[string]leaving // by the PV's name; used by one worker
}

// leaving is since when nothing deletes the volume of a PV, why, and when that was recorded.
type leaving struct {
	pv              types.UID
	topic           string
	since, recorded time.Time
}

// Register has the manager run the reconciler while it leads.
func (v *Volumes) Register(mgr ctrl.Manager) error {
	v.leaving = map[string]leaving{}
	return builder.ControllerManagedBy(mgr).Named("waiting-volumes").For(&corev1.PersistentVolume{}).Complete(v)
}

// Reconcile acts on a PV whose volume is to be deleted, and does nothing for any other. As long as its
// agent is ready, and after an event, it reads the cache alone.
func (v *Volumes) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var pv corev1.PersistentVolume
	if err := v.Cache.Get(ctx, req.NamespacedName, &pv); err != nil {
		if apierrors.IsNotFound(err) {
			delete(v.leaving, req.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	home, ours := identity.HomeOf(&pv)
	if !ours || !contract.Leaving(&pv) || pv.Status.Phase == corev1.VolumeBound {
		delete(v.leaving, pv.Name)
		return reconcile.Result{}, nil
	}
	provisioner := contract.HostPathProvisioner
	if pv.Spec.CSI != nil {
		provisioner = contract.CSIProvisioner
	}
	agent, err := v.absent(ctx, place{node: home.Node}, provisioner)
	if err != nil {
		return reconcile.Result{}, err
	}
	now, l := time.Now(), v.leaving[pv.Name]
	if l.pv != pv.UID || l.topic != agent.topic {
		l = leaving{pv: pv.UID, topic: agent.topic, since: now}
	}
	v.leaving[pv.Name] = l
	next := reconcile.Result{RequeueAfter: checkInterval}
	switch {
	case agent.topic == "", !l.recorded.IsZero() && now.Sub(l.recorded) < sayAgainAfter:
		return next, nil
	case now.Sub(l.since) < patience:
		next.RequeueAfter = patience - now.Sub(l.since)
		return next, nil
	}
	if namespace, err := v.Installed.Other(ctx); namespace != "" || err != nil {
		return next, err
	}
	node, err := live.Node(ctx, v.Live, home.Node)
	if err != nil {
		return next, err
	}
	l.recorded = now
	v.leaving[pv.Name] = l
	if node == nil {
		return next, nil
	}
	v.Events.Warn(ctx, events.PV(&pv), agent.topic, events.VolumeFailedDelete, fmt.Sprintf("%s, so nothing deletes the volume of this "+
		"PV: %s", v.described(agent.topic, node, provisioner)...))
	return next, nil
}

// described returns why no agent deletes a volume, and what to do.
func (v *Volumes) described(topic string, node *corev1.Node, provisioner string) []any {
	agents := "kubectl -n " + v.Namespace + " get pods -o wide lists the agents"
	switch {
	case !contract.NodeReady(node):
		return []any{"node " + node.Name + " is not ready", "kubectl describe node " + node.Name}
	case topic == topicAgentNotReady:
		return []any{"the agent on node " + node.Name + " is not ready", agents}
	case topic == topicNotServed:
		return []any{fmt.Sprintf("the agent on node %s serves no PVs of provisioner %s", node.Name, provisioner),
			"set spec.pathConfig of the HostPathProvisioner"}
	}
	return []any{"no agent runs on node " + node.Name, "let one run there (spec.workload of the HostPathProvisioner, taints of " +
		"the node); " + agents}
}

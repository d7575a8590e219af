package waiting

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
)

var (
	// patience is the time that a claim waits, and that its agent is away or not ready, before
	// anything is recorded: a node may be about to start, and the agent's pod may be about to be
	// replaced.
	patience = timing.Scaled(15 * time.Second)
	// patienceWithoutNode is the same for a claim that names no node. It is shorter than the head
	// start that agents leave to the operator.
	patienceWithoutNode = timing.Scaled(2 * time.Second)
	// checkInterval is the time after which a waiting claim is checked again: its node or the agent
	// may be gone by then.
	checkInterval = timing.Scaled(time.Minute)
)

// Reconciler watches waiting claims. Register it once with a manager.
type Reconciler struct {
	// Namespace is that of the agents.
	Namespace string
	// Cache has claims, PVs, classes, and the agents' pods.
	Cache client.Reader
	// Live reads nodes, and claims that are to be changed.
	Live   kubernetes.Interface
	Events *events.Recorder
	// Installed finds another installation that serves the claims.
	Installed installed.Reader

	// Used by one worker.
	since map[types.NamespacedName]seen
	pods  map[string]namespacePods // by namespace
}

// seen is when a claim was first seen to wait in a place, and when the place's agent was first seen
// as it is.
type seen struct {
	place
	at      time.Time
	agent   string // the topic of its absence
	agentAt time.Time
}

// Register has the manager run the reconciler while it leads.
func (r *Reconciler) Register(mgr ctrl.Manager) error {
	r.since = map[types.NamespacedName]seen{}
	return builder.ControllerManagedBy(mgr).Named("waiting").For(&corev1.PersistentVolumeClaim{}).
		Watches(&storagev1.StorageClass{}, handler.EnqueueRequestsFromMapFunc(r.pending)).Complete(r)
}

// pending returns requests for the unbound claims of a class, which may be created after them.
func (r *Reconciler) pending(ctx context.Context, sc client.Object) (requests []reconcile.Request) {
	var all corev1.PersistentVolumeClaimList
	if err := r.Cache.List(ctx, &all); err != nil {
		return nil // the cache has ended
	}
	for _, claim := range all.Items {
		if claim.Status.Phase != corev1.ClaimBound && contract.Of(&claim) == sc.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&claim)})
		}
	}
	return requests
}

// Reconcile acts on a claim that has waited in one place for some time, and does nothing for any
// other. It leaves all claims to another installation that serves them, whose agents are in a
// namespace that is not watched.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim, sc, err := r.read(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	var p place
	waits := false
	if sc != nil {
		p, waits = placeOf(claim, sc)
	}
	if !waits {
		delete(r.since, req.NamespacedName)
		return reconcile.Result{}, nil
	}
	if p.copies {
		if p.node, err = r.sourceNode(ctx, claim); p.node == "" || err != nil {
			delete(r.since, req.NamespacedName)
			return reconcile.Result{RequeueAfter: checkInterval}, err
		}
	}
	agent, err := r.absent(ctx, p, sc.Provisioner)
	if err != nil {
		return reconcile.Result{}, err
	}
	first := r.first(req.NamespacedName, p, agent)
	wait := patience
	switch {
	case p.scheduled:
		wait = patienceForPod
	case p.node == "":
		wait = patienceWithoutNode
	}
	if rest := wait - time.Since(first.at); rest > 0 {
		return reconcile.Result{RequeueAfter: rest}, nil
	}
	if namespace, err := r.Installed.Other(ctx); namespace != "" || err != nil {
		return reconcile.Result{RequeueAfter: checkInterval}, err
	}
	next := checkInterval
	if rest := patience - time.Since(first.agentAt); rest > 0 && agent != (absence{}) {
		next, agent = rest, absence{}
	}
	return reconcile.Result{RequeueAfter: next}, r.act(ctx, claim, sc, p, agent)
}

// first returns when the claim was first seen like this, which is now if anything has changed.
func (r *Reconciler) first(claim types.NamespacedName, p place, agent absence) seen {
	now := time.Now()
	first, ok := r.since[claim]
	if !ok || first.place != p {
		first = seen{place: p, at: now, agent: agent.topic, agentAt: now}
	}
	if first.agent != agent.topic {
		first.agent, first.agentAt = agent.topic, now
	}
	r.since[claim] = first
	return first
}

// read returns the claim and its class. The class is nil if the claim or the class does not exist,
// or if the claim has no class.
func (r *Reconciler) read(ctx context.Context, name types.NamespacedName) (*corev1.PersistentVolumeClaim,
	*storagev1.StorageClass, error) {
	var claim corev1.PersistentVolumeClaim
	if err := r.Cache.Get(ctx, name, &claim); err != nil {
		return nil, nil, client.IgnoreNotFound(err)
	}
	var sc storagev1.StorageClass
	err := r.Cache.Get(ctx, types.NamespacedName{Name: contract.Of(&claim)}, &sc)
	if apierrors.IsNotFound(err) || contract.Of(&claim) == "" {
		return &claim, nil, nil
	}
	return &claim, &sc, err
}

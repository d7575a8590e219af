package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	kubeevents "kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/operator/admission"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/release"
	"kubevirt.io/hostpath-provisioner/controller/operator/former"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
	"kubevirt.io/hostpath-provisioner/controller/operator/layout"
	"kubevirt.io/hostpath-provisioner/controller/operator/tlsprofile"
)

// finalizer keeps a resource until the objects are removed in order.
const finalizer = "finalizer.delete.hostpath-provisioner"

// Settings are those of the agents, and of the operator that installs them.
type Settings struct {
	apply.Installation
	// Image is that of the agents.
	Image string
	// Version is that of the operator.
	Version string
	// Verbosity is the level of the agents' logs.
	Verbosity int
}

// Reconciler keeps the objects of one resource as it describes them.
type Reconciler struct {
	Settings
	// Client reads from the cache.
	Client client.Client
	// Live reads from the API server: the pods of other namespaces, which are not cached, and PVs,
	// which a decision needs.
	Live client.Reader
	// Events records events.
	Events events.EventRecorder
	// Profile has the TLS settings, of which the agents get the oldest version.
	Profile *tlsprofile.Source
	// Now is the time of conditions.
	Now func() time.Time

	// Applier writes all objects.
	Applier apply.Applier

	// layouts reads what the agents are to offer.
	layouts layout.Reader
	// troubledSince is when steps began to fail for a reason that ends by itself, else zero.
	troubledSince time.Time
	// missingSince is since when agents were missing as they were judged last.
	missingSince time.Time
	// waits is what the last pass waited for.
	waits waiting
	// blockers are the PVs that kept the holders of pools in the last passes.
	blockers release.Blockers
}

// New returns a reconciler that has done nothing yet. The applier writes through the client.
func New(s Settings, cached client.Client, live client.Reader, recorder events.EventRecorder,
	profile *tlsprofile.Source, now func() time.Time) *Reconciler {
	recorder = kubeevents.Fitting(recorder)
	return &Reconciler{Settings: s, Client: cached, Live: live, Events: recorder, Profile: profile, Now: now,
		Applier: apply.New(cached, recorder, now),
		layouts: layout.Reader{Now: now, Interval: checkInterval}}
}

// installed returns the reader of what is installed.
func (r *Reconciler) installed() installed.Reader {
	return installed.Reader{Namespace: r.Namespace, Cache: r.Client, Live: r.Live}
}

// former returns the agents of before.
func (r *Reconciler) former() former.Agents {
	return former.Agents{Installed: r.installed(), Client: r.Client, Live: r.Live, Applier: r.Applier, Now: r.Now}
}

// Reconcile does the next steps for the resource of that name. An error is shown in the resource's
// conditions, and the steps are tried again.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	cr := &v1beta1.HostPathProvisioner{}
	if err := r.Client.Get(ctx, request.NamespacedName, cr); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if namespace, err := r.installed().Other(ctx); namespace != "" || err != nil {
		return r.yieldTo(namespace, cr, err)
	}
	if cr.DeletionTimestamp != nil {
		return r.delete(ctx, cr)
	}
	served, err := installed.Served(ctx, r.Client)
	if err != nil {
		return reconcile.Result{}, err
	}
	if served.UID != cr.UID {
		return reconcile.Result{}, r.show(ctx, cr, verdict{reason: "MultipleResources",
			message: fmt.Sprintf("only one HostPathProvisioner is served, and %s is older; delete one of them", served.Name)})
	}
	again, err := r.install(ctx, cr)
	switch {
	case apierrors.IsConflict(err): // the cache is behind; what changed comes as an event
		again = time.Second
	case r.passesSoon(err):
		klog.ErrorS(err, "The API server does not answer; trying again")
		again = retryInterval
	case err != nil:
		return reconcile.Result{}, errors.Join(err, r.show(ctx, cr, verdict{reason: "ReconcileFailed", message: err.Error()}))
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// install brings all objects to what the resource asks for, and then writes the status. It returns
// the time after which to check again although nothing changed, 0 for never.
func (r *Reconciler) install(ctx context.Context, cr *v1beta1.HostPathProvisioner) (again time.Duration, err error) {
	if err := r.applyWebhook(ctx, cr); err != nil { // first: that of an older operator refuses every change
		return 0, err
	}
	if err := r.addFinalizer(ctx, cr); err != nil { // before there is an object that is removed in order
		return 0, err
	}
	l, a, err := r.applyAgents(ctx, cr)
	if err != nil {
		return 0, err
	}
	if !a.Counting {
		err = r.writeStatus(ctx, cr, r.judge(cr, l, a))
	}
	polls := r.pace(soonest(l.again(), l.claims.Again, a.again()), l.Retained, l.Leaving(), l.without, l.claims.Left,
		a.waiting, a.counts())
	return soonest(polls, r.Applier.Again(), l.secretAgain()), err
}

// applyAgents brings the agents and the disks of their pools to what the resource asks for:
//
//  1. write down in the operator's record which pools there are to be, and what is kept for
//     volumes;
//  2. remove agents of an older operator, or of a DaemonSet that is replaced, so that no node has
//     two;
//  3. apply the agents' objects;
//  4. judge the agents, which 3 may have changed;
//  5. mount the disks of pools for the agents that run, and unmount those of which no agent is
//     left.
//
// A step begins when the one before has succeeded, and 3 and 5 wait until 2 is done. 2 and 3 are
// left out while a setting cannot be read for which the agents stay as they are.
func (r *Reconciler) applyAgents(ctx context.Context, cr *v1beta1.HostPathProvisioner) (l plan, a agents, err error) {
	if l.Layout, err = r.layouts.Read(ctx, r.installed(), cr); err != nil {
		return l, a, err
	}
	if err = l.Save(ctx, r.Client); err != nil {
		return l, a, err
	}
	if l.pullSecrets, err = r.installed().PullSecrets(ctx); err != nil {
		return l, a, err
	}
	if l.tokens, err = r.NeedsTokens(ctx, cr); err != nil {
		return l, a, err
	}
	var waiting string
	if !l.Withheld {
		found, err := r.former().Remove(ctx)
		if err != nil {
			return l, a, err
		}
		waiting, l.without = found.Waiting, found.Without
	}
	var written int64
	if waiting == "" && !l.Withheld {
		if written, err = r.applyLayout(ctx, cr, l); err != nil {
			return l, a, err
		}
	}
	if a, err = r.judgeAgents(ctx, cr, waiting, written); err != nil || waiting != "" {
		return l, a, err
	}
	return l, a, r.reconcileClaimPools(ctx, cr, &l, a.State)
}

// soonest returns the shortest of the times that are not 0, and 0 if all are.
func soonest(all ...time.Duration) time.Duration {
	all = slices.DeleteFunc(all, func(d time.Duration) bool { return d <= 0 })
	if len(all) == 0 {
		return 0
	}
	return slices.Min(all)
}

func (r *Reconciler) applyWebhook(ctx context.Context, cr *v1beta1.HostPathProvisioner) error {
	objects, err := r.webhook(cr)
	if err != nil {
		return err
	}
	service, configuration := objects[0], objects[1]
	metadata := metav1.ObjectMeta{Namespace: r.Namespace, Labels: service.GetLabels(),
		OwnerReferences: service.GetOwnerReferences()}
	authorities, err := admission.Ensure(ctx, r.Client, metadata, r.Now())
	if err != nil {
		return err
	}
	if err := admission.Trust(configuration, authorities); err != nil {
		return err
	}
	return r.Applier.Apply(ctx, cr, objects...)
}

func (r *Reconciler) addFinalizer(ctx context.Context, cr *v1beta1.HostPathProvisioner) error {
	before := cr.DeepCopy()
	if !controllerutil.AddFinalizer(cr, finalizer) {
		return nil
	}
	err := r.Client.Patch(ctx, cr, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("add the finalizer: %w", err)
	}
	return nil
}

// applyLayout applies the objects of the agents, and the account that reads their metrics. It returns
// the generation of their DaemonSet if it wrote that, and otherwise 0: there is none without a pool.
func (r *Reconciler) applyLayout(ctx context.Context, cr *v1beta1.HostPathProvisioner,
	l plan) (written int64, err error) {
	l.tlsVersion = r.Profile.Current().MinVersion
	objects, err := r.desired(cr, l)
	if err != nil {
		return 0, err
	}
	set := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "DaemonSet" })
	if set >= 0 {
		if err := r.former().Spare(ctx, objects[set]); err != nil {
			return 0, err
		}
	}
	if err := r.Applier.Apply(ctx, cr, objects...); err != nil {
		return 0, err
	}
	if err := r.Reader().Keep(ctx, cr, l.tokens); err != nil { // last: an error of it keeps no agent from an update
		return 0, err
	}
	if len(l.Pools) == 0 && len(l.Waiting) > 0 { // the agents have to end, and are installed again
		_, err := r.removeAll(ctx, cr, "DaemonSet")
		return 0, err
	}
	if set >= 0 {
		written = objects[set].GetGeneration()
	}
	return written, nil
}

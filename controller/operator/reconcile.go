package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/operator/admission"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools"
	"kubevirt.io/hostpath-provisioner/controller/operator/rollout"
	"kubevirt.io/hostpath-provisioner/controller/operator/tlsprofile"
)

// finalizer keeps a resource until the objects are removed in order.
const finalizer = "finalizer.delete.hostpath-provisioner"

// daemonSetName is the name of the agents' DaemonSet.
const daemonSetName = "hostpath-provisioner-csi"

// Reconciler keeps the objects of one resource as it describes them.
type Reconciler struct {
	Settings
	// Client reads from the cache.
	Client client.Client
	// Live reads from the API server: the pods of other namespaces, which are not cached, and PVs, which a decision needs.
	Live client.Reader
	// Events records events.
	Events events.EventRecorder
	// Profile has the TLS settings, of which the agents get the oldest version.
	Profile *tlsprofile.Source
	// Now is the time of conditions.
	Now func() time.Time

	// counted is what PVs used when they were counted last.
	counted counted
	// troubledSince is when steps began to fail for a reason that ends by itself, zero if the last one did not.
	troubledSince time.Time
	// contest delays writes of objects that others change back.
	contest *contest
	// missingSince is that of the agents when they were judged last.
	missingSince time.Time
}

// Reconcile does the next steps for the resource of that name. An error is shown in the resource's conditions, and the steps
// are tried again.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	cr := &v1beta1.HostPathProvisioner{}
	if err := r.Client.Get(ctx, request.NamespacedName, cr); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if namespace, err := r.other(ctx); namespace != "" || err != nil {
		return r.yieldTo(namespace, cr, err)
	}
	if cr.DeletionTimestamp != nil {
		return r.delete(ctx, cr)
	}
	served, err := served(ctx, r.Client)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case served.UID != cr.UID:
		return reconcile.Result{}, r.writeStatus(ctx, cr, r.refusedSecond(cr.Status, served.Name))
	}
	again, err := r.keep(ctx, cr)
	if apierrors.IsConflict(err) { // the cache is behind; what changed comes as an event
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	if r.passing(err) {
		klog.ErrorS(err, "The API server does not answer; trying again")
		return reconcile.Result{RequeueAfter: soonAgain}, nil
	}
	if err != nil {
		failed := r.failing(cr.Status, "ReconcileFailed", err.Error())
		return reconcile.Result{}, errors.Join(err, r.writeStatus(ctx, cr, failed))
	}
	if contested := r.contest.again(r.Now()); contested > 0 && (again == 0 || contested < again) {
		again = contested
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// served returns the resource that is served: the oldest one. One that is deleted counts until it is gone.
func served(ctx context.Context, from client.Reader) (*v1beta1.HostPathProvisioner, error) {
	var all v1beta1.HostPathProvisionerList
	if err := from.List(ctx, &all); err != nil || len(all.Items) == 0 {
		return &v1beta1.HostPathProvisioner{}, err
	}
	oldest := slices.MinFunc(all.Items, func(a, b v1beta1.HostPathProvisioner) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return &oldest, nil
}

// keep applies what differs, and writes the status. It returns the time after which to look again although nothing changed, 0
// for never.
func (r *Reconciler) keep(ctx context.Context, cr *v1beta1.HostPathProvisioner) (again time.Duration, err error) {
	if err := r.admit(ctx, cr); err != nil { // first: the webhook of an older operator refuses every change
		return 0, err
	}
	before := cr.DeepCopy()
	if controllerutil.AddFinalizer(cr, finalizer) {
		if err := r.Client.Patch(ctx, cr, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return 0, fmt.Errorf("add the finalizer: %w", err)
		}
	}
	waiting, without, err := r.clear(ctx)
	if err != nil {
		return 0, err
	}
	l, err := r.layout(ctx, cr)
	if err != nil {
		return 0, err
	}
	l.without = without
	var written int64
	if waiting == "" {
		if written, err = r.applyAll(ctx, cr, l); err != nil {
			return 0, err
		}
	}
	observed, err := r.observe(ctx)
	if err != nil {
		return 0, err
	}
	observed.Written, observed.Rolling, observed.MissingSince = written, progress(cr.Status).Reason == rolloutStarted, r.missingSince
	a := agents{rollout.Judge(observed), waiting}
	r.missingSince = a.MissingSince
	if waiting == "" {
		if err := r.keepClaims(ctx, cr, &l, a.State); err != nil {
			return 0, err
		}
	}
	again = l.claims.Again
	// Caches of several kinds do not agree at every moment: the change that ends a rollout may have been seen before this pass.
	waits := len(l.retained) > 0 || l.leaving() || waiting != "" || len(without) > 0 || a.Rolling || a.Counting
	if waits && again == 0 {
		again = recheck
	}
	if a.Left > 0 && (again == 0 || a.Left < again) {
		again = a.Left
	}
	if a.Counting {
		return again, nil
	}
	return again, r.writeStatus(ctx, cr, r.judge(cr, l, a))
}

// applyAll applies the objects of the agents. It returns the generation of their DaemonSet if it wrote that, and otherwise 0:
// there is none without a pool.
func (r *Reconciler) applyAll(ctx context.Context, cr *v1beta1.HostPathProvisioner, l layout) (written int64, err error) {
	l.tlsVersion = r.Profile.Current().MinVersion
	objects, err := r.desired(cr, l)
	if err != nil {
		return 0, err
	}
	if err := r.applyEach(ctx, cr, objects); err != nil {
		return 0, err
	}
	for _, o := range objects {
		if o.GetKind() == "DaemonSet" {
			written = o.GetGeneration()
		}
	}
	return written, nil
}

// admit applies the webhook's Service and configuration, with a certificate that is valid.
func (r *Reconciler) admit(ctx context.Context, cr *v1beta1.HostPathProvisioner) error {
	objects, err := r.webhook(cr)
	if err != nil {
		return err
	}
	metadata := metav1.ObjectMeta{Namespace: r.Namespace, Labels: objects[0].GetLabels(), OwnerReferences: objects[0].GetOwnerReferences()}
	authorities, err := admission.Ensure(ctx, r.Client, metadata, r.Now())
	if err != nil {
		return err
	}
	if err := trust(objects[1], authorities); err != nil {
		return err
	}
	return r.applyEach(ctx, cr, objects)
}

// applyEach applies the objects in order and records an event for each that it writes.
func (r *Reconciler) applyEach(ctx context.Context, cr *v1beta1.HostPathProvisioner, objects []*unstructured.Unstructured) error {
	for _, want := range objects {
		if err := seal(want); err != nil {
			return fmt.Errorf("encode %s: %w", want.GetKind(), err)
		}
		did, err := r.apply(ctx, cr, want)
		switch {
		case err != nil && !apierrors.IsConflict(err):
			r.Events.Eventf(cr, want, corev1.EventTypeWarning, cmp.Or(string(did), "Update")+"ResourceFailed", "Reconcile", "%v", err)
			return err
		case err != nil:
			return err
		case did == created, did == updated:
			r.Events.Eventf(cr, want, corev1.EventTypeNormal, string(did)+"ResourceSuccess", "Reconcile",
				"%sd %s %s", did, want.GetKind(), want.GetName())
		}
	}
	return nil
}

// agents is the state of the agents, and what has to be gone before they are installed, or "".
type agents struct {
	rollout.State
	waiting string
}

// installed returns the agents' DaemonSet, nil if there is none. It is read from the cache whose changes reconcile: a second one,
// of the typed objects, may lag behind it, and what it missed at the last change would be missed for hours.
func (r *Reconciler) installed(ctx context.Context) (*appsv1.DaemonSet, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("DaemonSet"))
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: daemonSetName}, o)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	ds := &appsv1.DaemonSet{}
	return ds, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, ds)
}

// observe reads what the agents are judged by.
func (r *Reconciler) observe(ctx context.Context) (o rollout.Observed, err error) {
	o.Now = r.Now()
	if o.DaemonSet, err = r.installed(ctx); err != nil || o.DaemonSet == nil {
		return o, err
	}
	var pods corev1.PodList
	err = r.Client.List(ctx, &pods, client.InNamespace(r.Namespace))
	o.Pods = pods.Items
	return o, err
}

// offering returns the nodes of the pods, and what their agents offer.
func offering(pods []corev1.Pod) (nodes []claimpools.Node) {
	for _, pod := range pods {
		node := claimpools.Node{Name: pod.Spec.NodeName}
		if contract.PodReady(&pod) {
			for _, p := range offeredBy(pod.Spec).pools {
				node.Offered = append(node.Offered, p.Name)
			}
		}
		nodes = append(nodes, node)
	}
	return nodes
}

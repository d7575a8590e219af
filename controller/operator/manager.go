package operator

import (
	"context"
	"errors"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	registry "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/operator/admission"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
	"kubevirt.io/hostpath-provisioner/controller/operator/diskpvs"
	"kubevirt.io/hostpath-provisioner/controller/operator/install"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
	"kubevirt.io/hostpath-provisioner/controller/operator/layout"
	"kubevirt.io/hostpath-provisioner/controller/operator/nodegone"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
	"kubevirt.io/hostpath-provisioner/controller/operator/templatenodes"
	"kubevirt.io/hostpath-provisioner/controller/operator/tlsprofile"
	"kubevirt.io/hostpath-provisioner/controller/operator/waiting"
)

// webhookName is the name of the webhook's configuration.
const webhookName = "hostpathprovisioner.kubevirt.io"

// lease is the name of the lease that the leader holds.
const lease = "hostpath-provisioner-operator-lock"

// Scheme returns the types that the operator reads and writes.
func Scheme() (*runtime.Scheme, error) {
	types := runtime.NewScheme()
	return types, errors.Join(scheme.AddToScheme(types), v1beta1.AddToScheme(types))
}

// Run reconciles until the context ends. Of several operators one does; another takes over from it.
func (s Settings) Run(ctx context.Context, config *rest.Config, a Addresses) error {
	config = rest.CopyConfig(config)
	// The client's own defaults, 5 requests a second, let the volumes of one node delay waiting claims for
	// minutes, and a pass over the record of a large cluster take seconds.
	config.QPS, config.Burst = 20, 40
	return s.RunIn(ctx, config, Outside{Listen: &a, Metrics: registry.Registry, Gatherer: registry.Registry})
}

// RunIn is Run for an operator that is not alone in its process. The config's limit of requests is the
// caller's.
func (s Settings) RunIn(ctx context.Context, config *rest.Config, outside Outside) error {
	live, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	profile := tlsprofile.New(s.TLS)
	mgr, err := s.manager(ctx, config, live, profile, outside)
	if err != nil {
		return err
	}
	direct := installed.Paged(mgr.GetAPIReader(), live)
	agents := install.New(s.agents(), mgr.GetClient(), direct, mgr.GetEventRecorder("operator-controller"),
		profile, time.Now)
	r := &wiring{Settings: s, Reconciler: agents,
		installed: installed.Reader{Namespace: s.Namespace, Cache: mgr.GetClient(), Live: direct},
		validator: &admission.Validator{Cache: mgr.GetClient(), Namespace: s.Namespace}}
	if err := errors.Join(r.watch(mgr), r.serve(mgr, outside), r.keepMonitoring(mgr, outside),
		r.keepConstraints(mgr), outside.serveMetrics(mgr, profile.Serve)); err != nil {
		return err
	}
	recorder := events.NewOf(live, corev1.EventSource{Component: "hostpath-provisioner-operator"})
	defer recorder.Close()
	claims := &waiting.Reconciler{Namespace: s.Namespace, Cache: mgr.GetClient(), Live: live, Events: recorder,
		Installed: r.installed}
	if err := errors.Join(claims.Register(mgr), (&waiting.Volumes{Reconciler: claims}).Register(mgr)); err != nil {
		return err
	}
	nodes := &nodegone.Reconciler{Namespace: s.Namespace, Cache: mgr.GetClient(), Live: live, Events: recorder,
		OnClaims: func(ctx context.Context) (func(pool, node string) bool, error) {
			record, err := poolrecord.Read(ctx, r.installed.Live, s.Namespace)
			if err != nil {
				return nil, err
			}
			return record.OnClaim, nil
		},
		Grace: func(ctx context.Context) (time.Duration, error) { return layout.NodeGoneGrace(ctx, r.installed) }}
	if err := errors.Join(nodes.Register(mgr), outside.register(nodes)); err != nil {
		return err
	}
	disks := &diskpvs.Reconciler{Namespace: s.Namespace, Cache: mgr.GetClient(), Live: live, Events: recorder,
		Grace: nodes.Grace}
	if err := disks.Register(mgr); err != nil {
		return err
	}
	templates := &templatenodes.Reconciler{Namespace: s.Namespace, Cache: mgr.GetClient(), Live: live, Events: r.Events,
		Owner: apply.Owner, Labels: s.installation().Labels(), Installed: r.installed}
	if err := templates.Register(mgr); err != nil {
		return err
	}
	// Before the agents are installed, so that they are not replaced at once.
	if _, err := profile.Read(ctx, direct); err != nil {
		klog.ErrorS(err, "Starting without the TLS profile of the cluster")
	}
	return mgr.Start(ctx)
}

// wiring is what the parts of an operator share.
type wiring struct {
	Settings
	*install.Reconciler
	installed installed.Reader
	validator *admission.Validator
}

// manager returns a manager without controllers.
func (s Settings) manager(ctx context.Context, config *rest.Config, live kubernetes.Interface,
	profile *tlsprofile.Source, outside Outside) (manager.Manager, error) {
	types, err := Scheme()
	if err != nil {
		return nil, err
	}
	pvs := installed.NewSlimPVs()
	options := manager.Options{
		Scheme: types, Cache: s.cached(pvs),
		Client:         client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		LeaderElection: true, LeaderElectionID: lease, LeaderElectionNamespace: s.Namespace,
		LeaderElectionReleaseOnCancel: true,
		LivenessEndpointName:          "/livez", ReadinessEndpointName: "/readyz",
		GracefulShutdownTimeout: new(5 * time.Second),
		NewCache: func(c *rest.Config, o cache.Options) (cache.Cache, error) {
			made, err := cache.New(c, o)
			return endingCache{made, ctx}, err
		},
	}
	options.Cache.NewInformer = s.informers(live, pvs)
	outside.manage(&options)
	mgr, err := manager.New(config, options)
	if err != nil {
		return nil, err
	}
	return mgr, errors.Join(mgr.AddHealthzCheck("process", healthz.Ping), mgr.AddReadyzCheck("process", healthz.Ping))
}

// endingCache reports that it is filled once the operator is stopped. A manager that is stopped
// before its caches are filled waits for that in a loop without a pause, and without an end.
type endingCache struct {
	cache.Cache
	running context.Context
}

// WaitForCacheSync implements cache.Cache.
func (c endingCache) WaitForCacheSync(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.running, cancel)()
	return c.Cache.WaitForCacheSync(ctx) || c.running.Err() != nil
}

// serve has the manager serve the admission of changes.
func (r *wiring) serve(mgr ctrl.Manager, outside Outside) error {
	if outside.Listen == nil {
		if outside.Admission != nil {
			outside.Admission(r.validator)
		}
		return nil
	}
	certificate := client.ObjectKey{Namespace: r.Settings.Namespace, Name: admission.Secret}
	s, err := admission.Server(outside.Listen.Webhook, mgr.GetClient(), certificate, r.Profile.Serve, r.validator)
	if err != nil {
		return err
	}
	return mgr.Add(s)
}

// cached is what the operator caches: its own namespace, and what has its label, but only one
// ConfigMap and one Secret.
func (s Settings) cached(pvs *installed.SlimPVs) cache.Options {
	own := map[string]cache.Config{s.Namespace: {}}
	marked := labels.SelectorFromSet(labels.Set{"k8s-app": "hostpath-provisioner"})
	cached := cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Pod{}: {Namespaces: own, Label: marked, Transform: cache.TransformStripManagedFields()},
	}}
	for _, o := range apply.Kinds() {
		by := cache.ByObject{}
		switch {
		case apply.Namespaced(o):
			by.Namespaces = own
		case o.GetKind() == "ValidatingWebhookConfiguration":
			by.Field = named(webhookName)
		case o.GetKind() != "CSIDriver":
			by.Label = marked
		}
		cached.ByObject[o] = by
	}
	cached.ByObject[&corev1.PersistentVolumeClaim{}] = cache.ByObject{Transform: s.slimClaim}
	cached.ByObject[&corev1.PersistentVolume{}] = cache.ByObject{Transform: slimPV(pvs)}
	cached.ByObject[&corev1.Node{}] = cache.ByObject{Transform: cache.TransformStripManagedFields()}
	cached.ByObject[&storagev1.CSIStorageCapacity{}] = cache.ByObject{Namespaces: own,
		Transform: cache.TransformStripManagedFields()}
	cached.ByObject[&batchv1.Job{}] = cache.ByObject{Namespaces: own, Label: marked}
	cached.ByObject[&corev1.ConfigMap{}] = cache.ByObject{Namespaces: own, Field: named(layout.ConfigMap)}
	cached.ByObject[&corev1.Secret{}] = cache.ByObject{Namespaces: own, Field: named(admission.Secret)}
	return cached
}

func named(name string) fields.Selector { return fields.OneTermEqualSelector("metadata.name", name) }

// watch has every change of a resource or of an object that is kept reconcile all resources.
func (r *wiring) watch(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(r.all)
	b := builder.ControllerManagedBy(mgr).Named("hostpathprovisioner").
		Watches(&v1beta1.HostPathProvisioner{}, all).
		Watches(&corev1.Pod{}, all).
		Watches(&corev1.ConfigMap{}, all).
		Watches(&corev1.Secret{}, all).
		Watches(&batchv1.Job{}, all).
		Watches(&storagev1.CSIStorageCapacity{}, all, builder.WithPredicates(predicate.NewPredicateFuncs(publishesPools))).
		Watches(&corev1.PersistentVolumeClaim{}, all, builder.WithPredicates(predicate.NewPredicateFuncs(r.isClaim)))
	for _, o := range apply.Kinds() {
		b = b.Watches(o, all)
	}
	changed, err := r.followProfile(mgr)
	if err != nil {
		return err
	}
	return b.WatchesRawSource(source.Channel(changed, all)).Complete(r.Reconciler)
}

// publishesPools reports whether an agent publishes with the object which pools are open.
func publishesPools(o client.Object) bool {
	c, ok := o.(*storagev1.CSIStorageCapacity)
	return ok && c.StorageClassName == contract.PoolsClass
}

// isClaim reports whether the object is a claim of a pool. Claims of all namespaces are cached, and
// tenants can set any label.
func (r *wiring) isClaim(o client.Object) bool {
	return o.GetNamespace() == r.Settings.Namespace && objects.IsClaim(o)
}

// all returns a request for every resource: which one is served depends on the others.
func (r *wiring) all(ctx context.Context, _ client.Object) (requests []reconcile.Request) {
	var list v1beta1.HostPathProvisionerList
	if err := r.Client.List(ctx, &list); err != nil {
		return nil
	}
	for _, cr := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: cr.Name}})
	}
	return requests
}

package localpath

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"kubevirt.io/hostpath-provisioner/controller/agent/informers"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
)

// deployment is the name of the local-path provisioner's Deployment, whose namespace
// differs: kube-system with k3s, local-path-storage elsewhere. Helm gives it other names.
const deployment = "local-path-provisioner"

// Original watches for the local-path provisioner itself: its Deployment, and the helper
// pods that it starts on this node. It and the agents would both serve each new claim of
// the class. The caller runs it.
//
// A name proves nothing: any tenant may create a Deployment of that name. It counts in the
// namespaces of the setting, which belong to administrators; elsewhere it is an event.
type Original struct {
	deployments cache.SharedIndexInformer
	pods        cache.SharedIndexInformer // of this node, those that have not ended
	recorder    *events.Recorder
	node        string
	namespaces  []string
	changed     func()
	unread      atomic.Pointer[error] // why they cannot be read; nil if they can
}

// NewOriginal returns an Original that is not run yet. namespaces are those in which the Deployment
// counts. changed is called when the provisioner has gone, or was never there; it must not block.
func NewOriginal(client kubernetes.Interface, recorder *events.Recorder, node string, namespaces []string,
	changed func()) *Original {
	// The ClusterRole names this object, so that agents can read no other Deployment.
	named := fields.OneTermEqualSelector(metav1.ObjectNameField, deployment)
	living := fields.AndSelectors(fields.OneTermEqualSelector("spec.nodeName", node),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)))
	return &Original{
		recorder: recorder, node: node, namespaces: namespaces, changed: changed,
		deployments: watched(client.AppsV1().RESTClient(), "deployments", &appsv1.Deployment{}, named,
			func(ctx context.Context) (runtime.Object, error) {
				var kept appsv1.DeploymentList
				version, err := live.ListDeployments(ctx, client, named, func(d *appsv1.Deployment) bool {
					kept.Items = append(kept.Items, *slimDeployment(d))
					return true
				})
				kept.ResourceVersion = version
				return &kept, err
			}),
		pods: watched(client.CoreV1().RESTClient(), "pods", &corev1.Pod{}, living,
			func(ctx context.Context) (runtime.Object, error) {
				var kept corev1.PodList
				version, err := live.ListPods(ctx, client, metav1.NamespaceAll, living, func(p *corev1.Pod) bool {
					kept.Items = append(kept.Items, *slimPod(p))
					return true
				})
				kept.ResourceVersion = version
				return &kept, err
			}),
	}
}

// watched returns an informer of the objects that a field selector selects, which lists them by list:
// tenants make them, as large as they like, so each is slimmed before the next page is read. A watch
// brings one at a time.
func watched(client cache.Getter, resource string, of runtime.Object, which fields.Selector,
	list func(context.Context) (runtime.Object, error)) cache.SharedIndexInformer {
	watches := cache.NewFilteredListWatchFromClient(client, resource, metav1.NamespaceAll, func(l *metav1.ListOptions) {
		l.FieldSelector = which.String()
	})
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) { return list(ctx) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return watches.WatchWithContext(ctx, o)
		},
	}, of, 0, cache.Indexers{})
}

// Run watches until the context ends, and records an event on the Node when it finds the
// provisioner, or a Deployment of its name in another namespace.
func (o *Original) Run(ctx context.Context) {
	failed := func(ctx context.Context, r *cache.Reflector, err error) {
		o.unread.Store(&err)
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}
	waits := true // new claims do, until the first check
	err := errors.Join(
		o.pods.SetTransform(slim),
		o.deployments.SetTransform(slim),
		o.deployments.SetWatchErrorHandlerWithContext(failed),
		o.pods.SetWatchErrorHandlerWithContext(failed))
	if err == nil {
		err = informers.Run(ctx, func() {
			o.warnElsewhere(ctx)
			found := o.Running()
			switch {
			case found != nil:
				o.recorder.Warn(ctx, *events.Node(o.node), "original", events.OriginalRunning, found.Error())
			case waits:
				o.changed()
			}
			waits = found != nil
		}, o.deployments, o.pods)
	}
	if err != nil { // only an informer that has run refuses these
		o.unread.Store(&err)
	}
}

// Known reports whether Running has an answer. It has none shortly after the start.
func (o *Original) Known() bool { return o.synced() || o.unread.Load() != nil }

func (o *Original) synced() bool { return o.deployments.HasSynced() && o.pods.HasSynced() }

// Running returns an error that names the Deployment or a helper pod while the
// provisioner runs, or why that is not known. New claims wait meanwhile.
func (o *Original) Running() error {
	const remedy = "scale it to 0 or delete it; with k3s, add local-storage to disable in its configuration"
	for _, namespace := range o.deployedIn() {
		if slices.Contains(o.namespaces, namespace) {
			return fmt.Errorf("the local-path provisioner runs too, as Deployment %s/%s, and both would serve new claims: %s",
				namespace, deployment, remedy)
		}
	}
	for _, object := range o.pods.GetStore().List() {
		if p := object.(*corev1.Pod); isHelper(p) {
			return fmt.Errorf("the local-path provisioner runs too, its helper pod %s/%s is on this node, and both would "+
				"serve new claims: find its Deployment and %s", p.Namespace, p.Name, remedy)
		}
	}
	if o.synced() {
		return nil
	}
	if err := o.unread.Load(); err != nil {
		return fmt.Errorf("it is not known whether the local-path provisioner runs too: %w", *err)
	}
	return errors.New("it is not known yet whether the local-path provisioner runs too")
}

// deployedIn returns the namespaces that have a Deployment of the provisioner's name which is
// not scaled to 0, sorted.
func (o *Original) deployedIn() (namespaces []string) {
	for _, object := range o.deployments.GetStore().List() {
		d := object.(*appsv1.Deployment)
		if d.Spec.Replicas == nil || *d.Spec.Replicas != 0 || d.Status.Replicas != 0 {
			namespaces = append(namespaces, d.Namespace)
		}
	}
	slices.Sort(namespaces)
	return namespaces
}

// warnElsewhere records an event about Deployments for which no claim waits. It has one
// topic: tenants choose how many there are.
func (o *Original) warnElsewhere(ctx context.Context) {
	others := slices.DeleteFunc(o.deployedIn(), func(name string) bool { return slices.Contains(o.namespaces, name) })
	if len(others) == 0 {
		return
	}
	o.recorder.Warn(ctx, *events.Node(o.node), "original elsewhere", events.OriginalElsewhere, fmt.Sprintf(
		"a Deployment %s runs in namespace %s, and new claims do not wait for it: if it is the local-path provisioner, "+
			"scale it to 0, or add the namespace to --local-path-namespaces (HPP_LOCAL_PATH_NAMESPACES), which is %s",
		deployment, events.FirstNames(others), strings.Join(o.namespaces, ",")))
}

// isHelper reports whether the local-path provisioner started the pod to create or remove
// a volume's directory: by its name, and by the volume with the directory's parent. A
// tenant whose pods cannot use host paths cannot keep the node's claims waiting.
func isHelper(p *corev1.Pod) bool {
	named := strings.HasPrefix(p.Name, "helper-pod-create-") || strings.HasPrefix(p.Name, "helper-pod-delete-")
	return named && slices.ContainsFunc(p.Spec.Volumes,
		func(v corev1.Volume) bool { return v.Name == "data" && v.HostPath != nil })
}

// slim removes from a pod or a Deployment what this package does not need, so that the
// memory of an agent does not grow with what tenants write into them.
func slim(object any) (any, error) {
	switch full := object.(type) {
	case *corev1.Pod:
		return slimPod(full), nil
	case *appsv1.Deployment:
		return slimDeployment(full), nil
	}
	return object, nil
}

func slimPod(full *corev1.Pod) *corev1.Pod {
	now := &corev1.Pod{ObjectMeta: slimMeta(full)}
	if isHelper(full) {
		now.Spec.Volumes = full.Spec.Volumes
	}
	return now
}

func slimDeployment(full *appsv1.Deployment) *appsv1.Deployment {
	now := &appsv1.Deployment{ObjectMeta: slimMeta(full)}
	now.Spec.Replicas, now.Status.Replicas = full.Spec.Replicas, full.Status.Replicas
	return now
}

func slimMeta(o metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(),
		ResourceVersion: o.GetResourceVersion()}
}

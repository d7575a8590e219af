package localpath

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"kubevirt.io/hostpath-provisioner/controller/events"
)

// deployment is the name of the local-path provisioner's Deployment, whose namespace
// differs: kube-system with k3s, local-path-storage elsewhere.
const deployment = "local-path-provisioner"

// Original watches for the local-path provisioner itself. It and the agents would both
// serve each new claim of the class. The caller runs it.
type Original struct {
	informer cache.SharedIndexInformer
	recorder *events.Recorder
	node     string
	changed  func()
	unread   atomic.Pointer[error] // why the Deployments cannot be read; nil if they can
}

// NewOriginal returns an Original that is not run yet. changed is called when the
// provisioner has gone, or was never there; it must not block.
func NewOriginal(client kubernetes.Interface, recorder *events.Recorder, node string, changed func()) *Original {
	o := &Original{recorder: recorder, node: node, changed: changed}
	lw := cache.NewFilteredListWatchFromClient(client.AppsV1().RESTClient(), "deployments", metav1.NamespaceAll, func(l *metav1.ListOptions) {
		// The ClusterRole names this object, so that agents can read no other Deployment.
		l.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, deployment).String()
	})
	o.informer = cache.NewSharedIndexInformer(lw, &appsv1.Deployment{}, 0, cache.Indexers{})
	return o
}

// Run watches until the context ends, and records an event on the Node when it finds the
// provisioner.
func (o *Original) Run(ctx context.Context) {
	check := func(any) {
		if !o.informer.HasSynced() {
			return // the check below runs when it has
		}
		if err := o.Running(); err != nil {
			o.recorder.Warn(ctx, *events.Node(o.node), "original", events.OriginalRunning, err.Error())
		} else {
			o.changed()
		}
	}
	_, err := o.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: check, UpdateFunc: func(_, now any) { check(now) }, DeleteFunc: check,
	})
	if err == nil {
		err = o.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
			o.unread.Store(&err)
			cache.DefaultWatchErrorHandler(ctx, r, err)
		})
	}
	if err != nil { // only an informer that has run refuses these
		o.unread.Store(&err)
	}
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), o.informer.HasSynced) {
			check(nil)
		}
	}()
	o.informer.RunWithContext(ctx)
}

// Known reports whether Running has an answer. It has none shortly after the start.
func (o *Original) Known() bool { return o.informer.HasSynced() || o.unread.Load() != nil }

// Running returns an error that names the Deployment while the provisioner runs, or why
// that is not known. New claims wait meanwhile.
func (o *Original) Running() error {
	if !o.informer.HasSynced() {
		if err := o.unread.Load(); err != nil {
			return fmt.Errorf("it is not known whether the local-path provisioner runs too: %w", *err)
		}
		return errors.New("it is not known yet whether the local-path provisioner runs too")
	}
	for _, object := range o.informer.GetStore().List() {
		d := object.(*appsv1.Deployment)
		if d.Spec.Replicas != nil && *d.Spec.Replicas == 0 && d.Status.Replicas == 0 {
			continue
		}
		return fmt.Errorf("the local-path provisioner runs too, as Deployment %s/%s, and both would serve new claims: "+
			"scale it to 0 or delete it; with k3s, add local-storage to disable in its configuration", d.Namespace, d.Name)
	}
	return nil
}

package nodegone

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed/installedtest"
)

// world is an API server whose objects change as Kubernetes changes them, also as a cache that is
// never behind. It can fail all writes after a number of them, as they fail for a process that is
// killed.
type world struct {
	t      *testing.T
	api    *kubefake.Clientset
	writes int // writes to PVs and claims that are still accepted, -1 for any number
	done   []string
}

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{t: t, api: kubefake.NewClientset(objects...), writes: -1}
	for _, verb := range []string{"patch", "delete"} {
		w.api.PrependReactor(verb, "*", w.write)
	}
	return w
}

// write fails the writes of a process that is killed, and keeps a deleted PV while it has
// finalizers.
func (w *world) write(a clienttesting.Action) (bool, runtime.Object, error) {
	if of := a.GetResource().Resource; of != "persistentvolumes" && of != "persistentvolumeclaims" {
		return false, nil, nil
	}
	if w.writes == 0 {
		return true, nil, apierrors.NewInternalError(fmt.Errorf("killed"))
	}
	w.writes--
	w.done = append(w.done, a.GetVerb()+" "+a.GetResource().Resource)
	d, ok := a.(clienttesting.DeleteAction)
	if !ok || a.GetResource().Resource != "persistentvolumes" {
		return false, nil, nil
	}
	o, err := w.api.Tracker().Get(a.GetResource(), "", d.GetName()) // the client is locked here
	if err != nil {
		return true, nil, err
	}
	pv := o.(*corev1.PersistentVolume)
	if !contract.HasFinalizer(pv) {
		return false, nil, nil
	}
	pv.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	return true, pv, w.api.Tracker().Update(a.GetResource(), pv, "")
}

// pv reads a PV, nil if it is gone.
func (w *world) pv(name string) *corev1.PersistentVolume {
	w.t.Helper()
	pv, err := w.api.CoreV1().PersistentVolumes().Get(context.Background(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return pv
}

// put replaces an object as another program does, or as a test does.
func (w *world) put(resource string, o runtime.Object) {
	w.t.Helper()
	gvr := corev1.SchemeGroupVersion.WithResource(resource)
	meta := o.(metav1.Object)
	err := w.api.Tracker().Update(gvr, o, meta.GetNamespace())
	if apierrors.IsNotFound(err) {
		err = w.api.Tracker().Create(gvr, o, meta.GetNamespace())
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// settle has Kubernetes release PVs whose claims are gone, and remove deleted PVs without the
// provisioner's finalizer.
func (w *world) settle() {
	w.t.Helper()
	all, err := w.api.CoreV1().PersistentVolumes().List(context.Background(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, pv := range all.Items {
		if ref := pv.Spec.ClaimRef; ref != nil && pv.Status.Phase == corev1.VolumeBound {
			if _, err := w.api.CoreV1().PersistentVolumeClaims(ref.Namespace).Get(context.Background(), ref.Name, metav1.GetOptions{}); err != nil {
				pv.Status.Phase = corev1.VolumeReleased
				w.put("persistentvolumes", &pv)
			}
		}
		if pv.DeletionTimestamp != nil && !contract.HasFinalizer(&pv) {
			if err := w.api.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("persistentvolumes"), "", pv.Name); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// operator returns an operator that started now.
func (w *world) operator() *Reconciler {
	recorder := events.NewOf(w.api, corev1.EventSource{Component: "test"})
	w.t.Cleanup(recorder.Close)
	return &Reconciler{Namespace: "agents", Cache: installedtest.Cached(w), Live: w.api, Events: recorder, since: map[string]silence{}, counts: map[string]tally{},
		Grace: func(context.Context) (time.Duration, error) { return grace, nil }}
}

// pass reconciles node-01, and then has Kubernetes act.
func (w *world) pass(r *Reconciler) error {
	_, err := r.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "node-01"}})
	w.settle()
	return err
}

// Get implements client.Reader.
func (w *world) Get(ctx context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) (err error) {
	switch o := o.(type) {
	case *corev1.PersistentVolumeClaim:
		err = into(o)(w.api.CoreV1().PersistentVolumeClaims(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{}))
	case *storagev1.StorageClass:
		err = into(o)(w.api.StorageV1().StorageClasses().Get(ctx, key.Name, metav1.GetOptions{}))
	case *metav1.PartialObjectMetadata:
		var node corev1.Node
		err = into(&node)(w.api.CoreV1().Nodes().Get(ctx, key.Name, metav1.GetOptions{}))
		o.ObjectMeta = node.ObjectMeta
	default:
		err = fmt.Errorf("a cache without %T", o)
	}
	return err
}

func into[T any](to *T) func(*T, error) error {
	return func(from *T, err error) error {
		if err == nil {
			*to = *from
		}
		return err
	}
}

// List implements client.Reader.
func (w *world) List(ctx context.Context, l client.ObjectList, _ ...client.ListOption) (err error) {
	switch l := l.(type) {
	case *corev1.PersistentVolumeList:
		if err = into(l)(w.api.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})); err == nil {
			l.Items = slices.DeleteFunc(l.Items, func(pv corev1.PersistentVolume) bool { return !slices.Contains(nodesOf(&pv), "node-01") })
		}
	case *storagev1.CSIStorageCapacityList:
		err = into(l)(w.api.StorageV1().CSIStorageCapacities("agents").List(ctx, metav1.ListOptions{}))
	default:
		err = fmt.Errorf("a cache without %T", l)
	}
	return err
}

package provision

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// refusing returns every claim to the scheduler and reports each in a channel.
type refusing chan string

func (r refusing) Provision(_ context.Context, o lib.ProvisionOptions) (*corev1.PersistentVolume, lib.ProvisioningState, error) {
	r <- o.PVC.Labels["turn"]
	return nil, lib.ProvisioningReschedule, errors.New("no space")
}

func (refusing) Delete(context.Context, *corev1.PersistentVolume) error { return nil }

// The second library is built while the client of the first one decodes.
func TestLibrarySeesWhatIsWatched(t *testing.T) {
	t.Run("next choice", libraryReturnsClaim(t))
	t.Run("release", libraryCreatesVolume(t))
}

// client-go's scheme has no lock: no part of the process may decode while the library registers.
func TestLibraryRegistersNoTypes(t *testing.T) {
	if n := testing.AllocsPerRun(1, func() { _ = corev1.AddToScheme(scheme.Scheme) }); n != 0 {
		t.Errorf("what the library calls makes %v allocations: it changes the scheme of a process that decodes", n)
	}
	if own := runtime.NewScheme(); corev1.AddToScheme(own) != nil || !own.IsGroupRegistered("") {
		t.Error("another scheme does not get the types of core/v1")
	}
}

// libraryReturnsClaim returns a test where the scheduler chooses the node again, and the
// watch reports it, before the write that returned the claim has ended.
func libraryReturnsClaim(t *testing.T) func(*testing.T) {
	chosen := func(turn string) *corev1.PersistentVolumeClaim {
		claim := classtest.Claim("a", "wait", "", contract.AnnSelectedNode, "node-01", contract.AnnStorageProvisioner, contract.HostPathProvisioner)
		claim.Namespace, claim.Labels = "default", map[string]string{"turn": turn}
		return claim
	}
	client := fake.NewClientset(classtest.Class("wait"), chosen("first"))
	all := informers.NewSharedInformerFactory(client, 0)
	informer := all.Core().V1().PersistentVolumeClaims().Informer()
	client.PrependReactor("update", "persistentvolumeclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
		written := a.(clienttesting.UpdateAction).GetObject().(*corev1.PersistentVolumeClaim)
		if written.Labels["turn"] != "first" {
			return false, nil, nil
		}
		again := chosen("second")
		if err := client.Tracker().Update(schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}, again, "default"); err != nil {
			return true, nil, err
		}
		for obj, ok := any(nil), false; !ok || obj.(*corev1.PersistentVolumeClaim).Labels["turn"] != "second"; time.Sleep(time.Millisecond) {
			obj, ok, _ = informer.GetStore().GetByKey("default/" + again.Name)
		}
		return true, written, nil
	})

	turns := make(refusing, 10)
	ctx := klog.NewContext(t.Context(), klog.TODO())
	library := lib.NewProvisionController(klog.TODO(), client, contract.HostPathProvisioner, turns, lib.LeaderElection(false),
		lib.NodesLister(thisNode{&corev1.Node{}}), lib.ClaimsInformer(watchedClaims{informer}))
	return func(t *testing.T) {
		go informer.Run(ctx.Done())
		go library.Run(ctx)
		for _, want := range []string{"first", "second"} {
			select {
			case got := <-turns:
				if got != want {
					t.Errorf("the %s choice, want the %s", got, want)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("the library did not see the %s choice", want)
			}
		}
	}
}

// deleting creates a volume for every claim. The first deletion of a PV fails, and each is
// reported.
type deleting chan error

func (deleting) Provision(_ context.Context, o lib.ProvisionOptions) (*corev1.PersistentVolume, lib.ProvisioningState, error) {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: o.PVName}}
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	return pv, lib.ProvisioningFinished, nil
}

func (d deleting) Delete(context.Context, *corev1.PersistentVolume) (err error) {
	if len(d) == 0 {
		err = errors.New("not yet")
	}
	d <- err
	return err
}

// libraryCreatesVolume returns a test where the claim is deleted, and the watch reports that
// the PV is released, before the write that saved the PV has ended.
func libraryCreatesVolume(t *testing.T) func(*testing.T) {
	claim := classtest.Claim("a", "wait", "", contract.AnnSelectedNode, "node-01", contract.AnnStorageProvisioner, contract.HostPathProvisioner)
	claim.Namespace = "default"
	client := fake.NewClientset(classtest.Class("wait"), claim)
	all := informers.NewSharedInformerFactory(client, 0)
	claims, pvs := all.Core().V1().PersistentVolumeClaims().Informer(), all.Core().V1().PersistentVolumes().Informer()
	deletions := make(deleting, 2)
	client.PrependReactor("create", "persistentvolumes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		saved := a.(clienttesting.CreateAction).GetObject().(*corev1.PersistentVolume).DeepCopy()
		saved.UID, saved.Status.Phase = "pv-uid", corev1.VolumeReleased
		if err := client.Tracker().Add(saved); err != nil {
			return true, nil, err
		}
		for len(deletions) == 0 {
			time.Sleep(time.Millisecond)
		}
		return true, saved, nil
	})

	watched, err := newWatchedPVs(pvs)
	if err != nil {
		t.Fatal(err)
	}
	ctx := klog.NewContext(t.Context(), klog.TODO())
	library := lib.NewProvisionController(klog.TODO(), client, contract.HostPathProvisioner, deletions, lib.LeaderElection(false),
		lib.RateLimiter(workqueue.NewTypedItemExponentialFailureRateLimiter[any](time.Second, time.Second)),
		lib.NodesLister(thisNode{&corev1.Node{}}), lib.ClaimsInformer(watchedClaims{claims}), lib.VolumesInformer(watched))
	return func(t *testing.T) {
		go claims.Run(ctx.Done())
		go pvs.Run(ctx.Done())
		go library.Run(ctx)
		for end := time.Now().Add(10 * time.Second); len(deletions) < 2; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("after the PV is saved, the library does not see that it is released")
			}
		}
	}
}

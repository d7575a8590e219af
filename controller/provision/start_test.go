package provision

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/classtest"
)

// refusing returns every claim to the scheduler and reports each in a channel.
type refusing chan string

func (r refusing) Provision(_ context.Context, o lib.ProvisionOptions) (*corev1.PersistentVolume, lib.ProvisioningState, error) {
	r <- o.PVC.Labels["turn"]
	return nil, lib.ProvisioningReschedule, errors.New("no space")
}

func (refusing) Delete(context.Context, *corev1.PersistentVolume) error { return nil }

// The scheduler chooses the node again, and the watch reports it, before the write that returned the claim has ended.
func TestLibrarySeesTheNextChoice(t *testing.T) {
	chosen := func(turn string) *corev1.PersistentVolumeClaim {
		claim := classtest.Claim("a", "wait", "", class.AnnSelectedNode, "node-01", class.AnnStorageProvisioner, class.HostPathProvisioner)
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
	library := lib.NewProvisionController(klog.TODO(), client, class.HostPathProvisioner, turns, lib.LeaderElection(false),
		lib.NodesLister(thisNode{&corev1.Node{}}), lib.ClaimsInformer(watchedClaims{informer}))
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

package resize

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"kubevirt.io/hostpath-provisioner/controller/agent/claims"
	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// The volume has grown, and a policy or a webhook refuses that the PV, or the status of the claim, says
// so, or that the claim says why it cannot grow: the claim gets an event, and the API server is not asked
// all the time. It is written once nothing refuses it.
func TestSizeThatIsRefused(t *testing.T) {
	for _, refused := range []string{"persistentvolumes", "persistentvolumeclaims"} {
		claim, pv := pair("10Mi", "5Mi", "5Mi")
		pool := classtest.Pools(t).Named("legacy")
		if _, err := pool.Create(volume.Spec{Name: pv.Name, Bytes: 5 << 20, PV: pv.Name,
			Owner: record.Owner{Namespace: "ns", Name: "data", UID: "1"}}); err != nil {
			t.Fatal(err)
		}
		client := fake.NewClientset(claim.DeepCopy(), pv.DeepCopy())
		writes, down := 0, true
		client.PrependReactor("patch", refused, func(a clienttesting.Action) (bool, runtime.Object, error) {
			writes++
			return down, nil, apierrors.NewBadRequest("admission webhook denied the request")
		})
		recorder := events.New(client, "node-01")
		defer recorder.Close()
		r, err := New(Config{Client: apitest.Listing(client), Node: "node-01", PVs: inPool{pool}, Events: recorder})
		if err != nil {
			t.Fatal(err)
		}
		defer r.queue.ShutDown()
		r.claims, r.pvs = cache.NewStore(cache.MetaNamespaceKeyFunc), cache.NewStore(cache.MetaNamespaceKeyFunc)
		if err := errors.Join(r.claims.Add(contract.Slim(claim)), r.pvs.Add(pv)); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if err := r.sync(t.Context(), "ns/data"); err != nil {
				t.Errorf("%s: %v", refused, err)
			}
		}
		list, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 || list.Items[0].Reason != events.VolumeResizeFailed || writes != 1 {
			t.Errorf("%s: %d writes, events %+v, %v", refused, writes, list.Items, err)
		}
		down = false
		r.failing.drop("ns/data") // its pause is over
		if err := r.sync(t.Context(), "ns/data"); err != nil {
			t.Error(err)
		}
		now, err := client.CoreV1().PersistentVolumeClaims("ns").Get(t.Context(), "data", metav1.GetOptions{})
		if err != nil || now.Status.Capacity.Storage().String() != "10Mi" {
			t.Errorf("%s: %v, %v", refused, now.Status, err)
		}
	}
}

// While the API server cannot write, the claim gets no event for two minutes, and none for a write that
// another program was faster with, or of an agent that ends.
func TestSizeThatIsNotWrittenYet(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for what, row := range map[string]struct {
		ctx  context.Context //nolint:containedctx // of one row
		err  error
		want []int // events after each minute
	}{
		"a webhook is down": {t.Context(), apierrors.NewInternalError(errors.New("failed calling webhook")), []int{0, 0, 1, 1}},
		"no answer":         {t.Context(), context.DeadlineExceeded, []int{0, 0, 1, 1}},
		"changed since":     {t.Context(), apierrors.NewConflict(corev1.Resource("persistentvolumes"), "pvc-1", nil), []int{0, 0, 0, 0}},
		"the agent ends":    {ended, context.Canceled, []int{0, 0, 0, 0}},
	} {
		synctest.Test(t, func(t *testing.T) {
			claim, pv := pair("10Mi", "5Mi", "5Mi")
			client := fake.NewClientset(claim, pv)
			recorder := events.New(client, "node-01")
			defer recorder.Close()
			r := &Resizer{Config: Config{Client: client, Node: "node-01", Events: recorder}, held: claims.NewPatience(), failing: newFailing()}
			for minute, want := range row.want {
				if err := r.unwritten(row.ctx, "ns/data", &target{claim: claim, pv: pv}, row.err); !errors.Is(err, row.err) {
					t.Errorf("%s: %v", what, err)
				}
				list, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
				if err != nil || len(list.Items) != want {
					t.Errorf("%s: %d events after %d minutes, want %d: %v", what, len(list.Items), minute, want, err)
				}
				time.Sleep(time.Minute)
			}
		})
	}
}

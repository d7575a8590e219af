package provision

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
)

// A PV that a webhook refuses is sent less and less often, down to every five minutes, and its claim is
// not provisioned meanwhile. One that the API server cannot save now is sent every half minute.
func TestPausesOfPVsThatAreNotSaved(t *testing.T) {
	for status, want := range map[int]struct {
		last  time.Duration
		waits bool
	}{
		http.StatusForbidden:           {5 * time.Minute, true},
		http.StatusUnprocessableEntity: {5 * time.Minute, true},
		http.StatusInternalServerError: {30 * time.Second, false},
		http.StatusServiceUnavailable:  {30 * time.Second, false},
	} {
		c := examiner(t)
		pv := goodPV(c, "now")
		reasons := map[int]metav1.StatusReason{http.StatusForbidden: metav1.StatusReasonForbidden,
			http.StatusUnprocessableEntity: metav1.StatusReasonInvalid, http.StatusInternalServerError: metav1.StatusReasonInternalError,
			http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable}
		code := status
		answers(t, c, func(*http.Request) (int, any) {
			if code == http.StatusCreated {
				return code, pv
			}
			return code, apitest.Failure(code, reasons[code])
		})
		pvs := libraryClient{c.Client, c}.CoreV1().PersistentVolumes()
		var pause time.Duration
		for range 20 {
			if _, err := pvs.Create(t.Context(), pv, metav1.CreateOptions{}); err == nil {
				t.Errorf("%d: it was saved", status)
			}
			pause = c.saving.When(pv.Name)
		}
		if pause != want.last || c.saving.waits(pv.Name) != want.waits {
			t.Errorf("%d: the last pause is %v, want %v; it waits: %v", status, pause, want.last, c.saving.waits(pv.Name))
		}
		code = http.StatusCreated
		if _, err := pvs.Create(t.Context(), pv, metav1.CreateOptions{}); err != nil || c.saving.waits(pv.Name) {
			t.Errorf("%d, then saved: %v", status, err)
		}
		if c.saving.Forget(pv.Name); c.saving.When(pv.Name) != retryFirst {
			t.Errorf("%d: the pause does not begin anew", status)
		}
	}
}

// A PV that cannot be saved for minutes, because a webhook is down for example, is an event on its claim.
// One that is saved soon after is none, nor is that of an agent that ends.
func TestPVThatIsNotSavedForMinutes(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for what, row := range map[string]struct {
		ctx  context.Context //nolint:containedctx // of one row
		err  error
		want []int // events after each minute
	}{
		"a webhook is down": {t.Context(), apierrors.NewInternalError(errors.New("failed calling webhook")), []int{0, 0, 1, 1}},
		"no answer":         {t.Context(), context.DeadlineExceeded, []int{0, 0, 1, 1}},
		"it is there, and cannot be read": {t.Context(), apierrors.NewAlreadyExists(corev1.Resource("persistentvolumes"), "pv"),
			[]int{0, 0, 1, 1}},
		"refused for good": {t.Context(), apierrors.NewBadRequest("denied"), []int{1, 1, 1, 1}},
		"the agent ends":   {ended, context.Canceled, []int{0, 0, 0, 0}},
	} {
		c := examiner(t)
		pv := goodPV(c, "now")
		synctest.Test(t, func(t *testing.T) {
			client := fake.NewClientset()
			fails := func(err error) clienttesting.ReactionFunc {
				return func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err }
			}
			client.PrependReactor("create", "persistentvolumes", fails(row.err))
			client.PrependReactor("get", "persistentvolumes", fails(apierrors.NewInternalError(errors.New("etcd is away"))))
			c.Events = events.New(client, "node-01")
			defer c.Events.Close()
			for minute, want := range row.want {
				if _, err := (libraryClient{client, c}).CoreV1().PersistentVolumes().Create(row.ctx, pv, metav1.CreateOptions{}); err == nil {
					t.Errorf("%s: it was saved", what)
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

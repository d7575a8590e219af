package nodeinfo

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// A permission that is missing for long costs few requests: each check is one for each permission.
func TestMissingPermissionsAreAskedForRarely(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-01", Labels: map[string]string{corev1.LabelHostname: "host-a"}}})
	reviews, granted := 0, false
	client.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		reviews++
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		review.Status.Allowed = granted || review.Spec.ResourceAttributes.Verb != "patch"
		return true, review, nil
	})
	synctest.Test(t, func(t *testing.T) {
		i := New(client, "node-01")
		if err := errors.Join(i.Read(t.Context()), i.CheckPermissions(t.Context())); err != nil || i.MayPatchPVs() {
			t.Fatal(err, i.MayPatchPVs())
		}
		each := reviews
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); i.Run(ctx, func() {}) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if checks := reviews/each - 1; checks < 5 || checks > 12 {
			t.Errorf("%d checks in an hour", checks)
		}
		granted = true
		time.Sleep(recheckLast + recheck)
		synctest.Wait()
		if !i.MayPatchPVs() {
			t.Error("not noticed that it was granted")
		}
		cancel()
		<-done
	})
}

package nodeinfo

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

func TestFormerOf(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, "new": nil, "new,old": {"old"}, " new , old,, older,old ": {"old", "older"}, ",old": {"old"},
	} {
		if got := formerOf(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A name that the administrator removes is no former hostname any more. A failed read changes
// nothing.
func TestReadFormer(t *testing.T) {
	client := fake.NewClientset(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: contract.HostnamesNamespace, Name: contract.HostnamesConfigMap},
		Data:       map[string]string{"node-01": "new,old", "node-02": "x,y"},
	})
	var err error
	client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return err != nil, nil, err
	})
	i := New(client, "node-01")
	is := func(what string, maxAge time.Duration, want ...string) {
		t.Helper()
		if i.ReadFormer(t.Context(), maxAge); !slices.Equal(i.Former(), want) {
			t.Errorf("%s: %q, want %q", what, i.Former(), want)
		}
	}
	if i.Former() != nil {
		t.Errorf("%q before it was read", i.Former())
	}
	is("listed", 0, "old")
	err = apierrors.NewInternalError(errors.New("x"))
	is("the API server is in trouble", 0, "old")
	err = apierrors.NewForbidden(corev1.Resource("configmaps"), "", errors.New("x"))
	is("read a moment ago", time.Hour, "old")
	is("forbidden", 0)
	err = nil
	is("permitted again", 0, "old")
	err = apierrors.NewNotFound(corev1.Resource("configmaps"), "")
	is("removed", 0)
}

// The label is changed while the agent runs.
func TestHostnameIsReadAgain(t *testing.T) {
	client := fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-01",
			Labels: map[string]string{corev1.LabelHostname: "host-a"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "c"}})
	i := New(client, "node-01")
	if err := i.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		label  string
		down   error
		maxAge time.Duration
		want   string
	}{
		{"host-b", nil, time.Hour, "host-a"},
		{"host-b", errors.New("down"), 0, "host-a"},
		{"", nil, 0, "host-a"},
		{"host-b", nil, 0, "host-b"},
	} {
		client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-01",
				Labels: map[string]string{corev1.LabelHostname: row.label}}}, row.down
		})
		if i.ReadAgain(t.Context(), row.maxAge); i.Hostname() != row.want {
			t.Errorf("%+v: %q", row, i.Hostname())
		}
	}
}

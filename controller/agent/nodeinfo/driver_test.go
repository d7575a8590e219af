package nodeinfo

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
)

// A tool removes a mark that the kubelet wrote when the driver registered. The driver registers
// again if that restores the mark, and is not ready until the scheduler finds it.
func TestDriverIsSeen(t *testing.T) {
	const driver = contract.CSIProvisioner
	node := func(label string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-01"}}
		if label != "" {
			n.Labels = map[string]string{contract.TopologyNode: label}
		}
		return n
	}
	csiNode := func(names ...string) *storagev1.CSINode {
		n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "node-01"}}
		for _, name := range names {
			n.Spec.Drivers = append(n.Spec.Drivers, storagev1.CSINodeDriver{Name: name, NodeID: "node-01",
				TopologyKeys: []string{contract.TopologyNode}})
		}
		return n
	}
	object := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}}
	for what, row := range map[string]struct {
		objects  []runtime.Object
		answer   func(*Driver, *fake.Clientset)
		want     string // part of the error, "" for none
		register bool
	}{
		"seen": {[]runtime.Object{node("node-01"), csiNode("x", driver)}, nil, "", false},
		"label removed": {[]runtime.Object{node(""), csiNode(driver)}, nil,
			"kubectl label node node-01 topology.hostpath.csi/node=node-01", true},
		"label of another node":  {[]runtime.Object{node("node-02"), csiNode(driver)}, nil, "--overwrite", false},
		"CSINode deleted":        {[]runtime.Object{node("node-01")}, nil, "CSINode node-01 is missing", true},
		"driver's entry removed": {[]runtime.Object{node("node-01"), csiNode("x")}, nil, "lacks the driver", true},
		"not registered yet": {[]runtime.Object{node("")},
			func(d *Driver, _ *fake.Clientset) { d.registration = &kubelet{err: errors.New("wait")} }, "", false},
		"sidecar, not registered yet": {[]runtime.Object{node("")},
			func(d *Driver, _ *fake.Clientset) { d.registration = nil }, "", false},
		"Node deleted": {[]runtime.Object{csiNode(driver)}, nil, "", false},
		"CSINodes may not be read": {[]runtime.Object{node("node-01")},
			refuse("csinodes", apierrors.NewForbidden(storagev1.Resource("csinodes"), "", errors.New("x"))), "", false},
		"label, no CSINode readable": {[]runtime.Object{node("")},
			refuse("csinodes", apierrors.NewForbidden(storagev1.Resource("csinodes"), "", errors.New("x"))), "has no label",
			true},
		"the API server is in trouble": {[]runtime.Object{node("")},
			refuse("nodes", apierrors.NewInternalError(errors.New("x"))), "", false},
		"CSIDriver deleted": {[]runtime.Object{node("node-01"), csiNode(driver)},
			refuse("csidrivers", apierrors.NewNotFound(storagev1.Resource("csidrivers"), driver)), "kubectl apply -k form", false},
		"CSIDriver deleted, not registered yet": {[]runtime.Object{node("")},
			refuse("csidrivers", apierrors.NewNotFound(storagev1.Resource("csidrivers"), driver)), "kubectl apply -k form", false},
		"an older role": {[]runtime.Object{node("node-01"), csiNode(driver)},
			refuse("csidrivers", apierrors.NewForbidden(storagev1.Resource("csidrivers"), "", errors.New("x"))), "", false},
		"a sidecar registers": {[]runtime.Object{node("")},
			func(d *Driver, _ *fake.Clientset) { d.registration, d.found = nil, true }, "has no label", false},
	} {
		k := &kubelet{}
		client := fake.NewClientset(append(row.objects, object)...)
		said := &warnings{}
		d := NewDriver(client, "node-01", driver, k, said, "kubectl apply -k form")
		if row.answer != nil {
			row.answer(d, client)
		}
		again := d.check(t.Context())
		err := d.Ready()
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", what, err, row.want)
		}
		if gone := strings.Contains(row.want, "apply -k"); gone != (said.n == 1) {
			t.Errorf("%s: %d events", what, said.n)
		}
		if again != row.register || (k.renewed == 1) != row.register {
			t.Errorf("%s: registered again %v, %d times", what, again, k.renewed)
		}
	}
}

// warnings counts the events of a missing CSIDriver.
type warnings struct{ n int }

func (w *warnings) Warn(_ context.Context, about corev1.ObjectReference, _, reason, _ string) {
	if about.Kind == "Node" && reason == events.DriverMissing {
		w.n++
	}
}

// kubelet has registered the driver, unless err is set.
type kubelet struct {
	err     error
	renewed int
}

func (k *kubelet) Ready() error { return k.err }
func (k *kubelet) Renew()       { k.renewed++ }

// refuse has requests for the resource fail with the error.
func refuse(resource string, err error) func(*Driver, *fake.Clientset) {
	return func(_ *Driver, client *fake.Clientset) {
		client.PrependReactor("get", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, err
		})
	}
}

// The driver is ready once the kubelet has written a removed mark again. A failed request changes
// nothing.
func TestDriverIsSeenAgain(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-01"}},
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: contract.CSIProvisioner}})
	d := NewDriver(client, "node-01", contract.CSIProvisioner, &kubelet{}, &warnings{}, "")
	d.check(t.Context())
	down := true
	client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return down, nil, apierrors.NewInternalError(errors.New("x"))
	})
	if d.check(t.Context()); d.Ready() == nil {
		t.Error("ready because the API server does not answer")
	}
	down = false
	labelled := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-01",
		Labels: map[string]string{contract.TopologyNode: "node-01"}}}
	if err := client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), labelled, ""); err != nil {
		t.Fatal(err)
	}
	client.PrependReactor("get", "csinodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(storagev1.Resource("csinodes"), "", errors.New("x"))
	})
	if d.check(t.Context()); d.Ready() != nil {
		t.Error(d.Ready())
	}
}

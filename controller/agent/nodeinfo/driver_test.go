package nodeinfo

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/permissions"
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
	object := csiDriver(new(false))
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
		"CSIDriver with an attacher": {[]runtime.Object{node("node-01"), csiNode(driver)},
			answer("csidrivers", csiDriver(new(true))), "has not attachRequired: false", false},
		"CSIDriver that another tool made": {[]runtime.Object{node("node-01"), csiNode(driver)},
			answer("csidrivers", csiDriver(nil)), "kubectl replace --force): kubectl apply -k form", false},
		"an older role": {[]runtime.Object{node("node-01"), csiNode(driver)},
			refuse("csidrivers", apierrors.NewForbidden(storagev1.Resource("csidrivers"), "", errors.New("x"))), "", false},
		"a sidecar registers": {[]runtime.Object{node("")},
			func(d *Driver, _ *fake.Clientset) { d.registration, d.found = nil, true }, "has no label", false},
	} {
		k := &kubelet{}
		client := fake.NewClientset(append(row.objects, object)...)
		said := &warnings{}
		d := NewDriver(client, was(t, client), driver, k, said, "kubectl apply -k form")
		if row.answer != nil {
			row.answer(d, client)
		}
		again := d.check(t.Context())
		err := d.Ready()
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", what, err, row.want)
		}
		if told := strings.Contains(row.want, "apply -k") || strings.Contains(row.want, "attach"); told != (said.n == 1) {
			t.Errorf("%s: %d events", what, said.n)
		}
		if again != row.register || (k.renewed == 1) != row.register {
			t.Errorf("%s: registered again %v, %d times", what, again, k.renewed)
		}
	}
}

// csiDriver returns the driver's object.
func csiDriver(attach *bool) *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: contract.CSIProvisioner},
		Spec: storagev1.CSIDriverSpec{AttachRequired: attach}}
}

// was returns an Info of node-01, which was read an hour ago, when the label was there.
func was(t *testing.T, client *fake.Clientset) *Info {
	t.Helper()
	i := New(client, "node-01")
	i.last.Store(&registration{labels: map[string]string{contract.TopologyNode: "node-01"}, at: time.Now().Add(-time.Hour)})
	return i
}

// answer has requests for the resource answered with the object.
func answer(resource string, object runtime.Object) func(*Driver, *fake.Clientset) {
	return func(_ *Driver, client *fake.Clientset) {
		client.PrependReactor("get", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, object, nil
		})
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
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-01"}}, csiDriver(new(false)))
	d := NewDriver(client, was(t, client), contract.CSIProvisioner, &kubelet{}, &warnings{}, "")
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

// An agent reads its Node once a minute, whatever number of its parts need it, and the CSIDriver, which
// is the same for all agents, more rarely. A label that was removed is found in a minute all the same.
func TestNodeIsReadOnceAMinute(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-01",
		Labels: map[string]string{corev1.LabelHostname: "host-a", contract.TopologyNode: "node-01"}}}
	registered := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "node-01"}, Spec: storagev1.CSINodeSpec{
		Drivers: []storagev1.CSINodeDriver{{Name: contract.CSIProvisioner, TopologyKeys: []string{contract.TopologyNode}}}}}
	asked := map[string]int{}
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(csiDriver(new(false)), registered)
		client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, node.DeepCopy(), nil
		})
		client.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
			asked[a.GetResource().Resource]++
			return false, nil, nil
		})
		i := New(client, "node-01")
		if err := i.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		i.lacking.Store(&[]permissions.Permission{})
		k := &kubelet{}
		d := NewDriver(client, i, contract.CSIProvisioner, k, &warnings{}, "")
		ctx, cancel := context.WithCancel(t.Context())
		var parts sync.WaitGroup
		parts.Go(func() { i.Run(ctx, func() {}) })
		time.Sleep(recheck / 2) // the parts of an agent begin at different times
		parts.Go(func() { d.Run(ctx) })
		clear(asked)
		time.Sleep(time.Hour)
		synctest.Wait()
		for resource, most := range map[string]int{"nodes": 61, "csinodes": 61, "csidrivers": 13} {
			if asked[resource] > most || asked[resource] == 0 {
				t.Errorf("%d reads of %s in an hour, want at most %d", asked[resource], resource, most)
			}
		}
		delete(node.Labels, contract.TopologyNode)
		time.Sleep(recheck + driverAgain)
		synctest.Wait()
		if k.renewed == 0 || d.Ready() == nil {
			t.Errorf("a minute later the removed label was not found: %v", d.Ready())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if k.renewed < 10 || k.renewed > 20 {
			t.Errorf("registered again %d times in an hour in which that did not help", k.renewed)
		}
		node.Labels[contract.TopologyNode] = "node-01"
		time.Sleep(recheck)
		synctest.Wait()
		if d.Ready() != nil {
			t.Error(d.Ready())
		}
		cancel()
		parts.Wait()
	})
}

// A Node that was deleted after it was read takes its CSINode with it: the kubelet registers both by
// itself, and the driver does not register again.
func TestNodeThatWasDeletedSince(t *testing.T) {
	client := fake.NewClientset(csiDriver(new(false)))
	i := was(t, client)
	i.last.Load().at = time.Now()
	k := &kubelet{}
	d := NewDriver(client, i, contract.CSIProvisioner, k, &warnings{}, "")
	if d.check(t.Context()) || k.renewed > 0 || d.Ready() != nil {
		t.Errorf("registered again %d times: %v", k.renewed, d.Ready())
	}
}

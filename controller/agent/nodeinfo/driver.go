package nodeinfo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
)

var (
	// driverEvery is the pause between two checks of the driver.
	driverEvery = timing.Scaled(time.Minute)
	// driverAgain is the pause before the check after a registration.
	driverAgain = timing.Scaled(10 * time.Second)
)

// Driver checks that the scheduler finds the CSI driver on this node. The kubelet writes the
// driver's topology label on the Node and the driver's entry in the CSINode when the driver
// registers, and never again. Without one of them no pod with a volume of the node is scheduled.
// Without the CSIDriver object such pods wait for an attacher; it is reported by an event, too.
//
// Make it with NewDriver.
type Driver struct {
	client       kubernetes.Interface
	node, driver string
	// registration is nil if a sidecar registers the driver.
	registration Registration
	events       Events
	apply        string // the command that makes the driver's objects again
	found        bool   // at an earlier check

	mu  sync.Mutex
	err error // guarded by mu
}

// Registration is the driver's registration with the kubelet.
type Registration interface {
	Ready() error // nil if the kubelet has registered the driver
	Renew()       // makes the kubelet register the driver again
}

// Events records Warnings, once for each topic.
type Events interface {
	Warn(ctx context.Context, about corev1.ObjectReference, topic, reason, message string)
}

// NewDriver returns the check of the driver of that name on the node. registration is nil if a
// sidecar registers the driver. apply is the command that makes the driver's objects again.
func NewDriver(client kubernetes.Interface, node, driver string, registration Registration, recorder Events,
	apply string) *Driver {
	return &Driver{client: client, node: node, driver: driver, registration: registration, events: recorder, apply: apply}
}

// Run checks until the context ends. It waits before the first check, because the kubelet registers
// the driver when the agent starts.
func (d *Driver) Run(ctx context.Context) {
	pause := driverEvery
	for sleep.For(ctx, pause) {
		if pause = driverEvery; d.check(ctx) {
			pause = driverAgain
		}
	}
}

// Ready returns nil if the last check found the driver, or before it, and an error that names the
// missing mark otherwise.
func (d *Driver) Ready() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// check reads Node and CSINode. It reports whether it had the kubelet register the driver again.
func (d *Driver) check(ctx context.Context) (again bool) {
	missing, err := d.missing(ctx)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Cannot check whether the scheduler sees the driver", "err", err)
		return false // the previous result stays
	}
	// Before the first registration no mark is lost, and Registration.Ready has the reason.
	if errors.As(missing, new(unregistered)) && !d.found && (d.registration == nil || d.registration.Ready() != nil) {
		return false
	}
	d.found = d.found || missing == nil
	d.mu.Lock()
	was := d.err
	d.err = missing
	d.mu.Unlock()
	log := klog.FromContext(ctx)
	if errors.As(missing, new(objectGone)) {
		d.events.Warn(ctx, *events.Node(d.node), "CSIDriver", events.DriverMissing, missing.Error())
	}
	switch again = errors.As(missing, new(unregistered)) && d.registration != nil; {
	case missing == nil && was != nil:
		log.Info("The scheduler sees the driver again", "driver", d.driver)
	case again:
		log.Error(missing, "Pods with volumes of this node cannot be scheduled; the driver registers again")
		d.registration.Renew()
	case missing != nil && was == nil:
		log.Error(missing, "Pods with volumes of this node cannot be scheduled")
	}
	return again
}

// unregistered is the error of a missing mark, which the kubelet writes when the driver registers.
type unregistered struct{ error }

// objectGone is the error of a CSIDriver that does not exist.
type objectGone struct{ error }

// missing returns an error that names the missing mark or object, nil if none is missing. It checks
// neither CSIDriver nor CSINode if the agent may not read it. err is the error of a failed request.
func (d *Driver) missing(ctx context.Context) (missing, err error) {
	switch _, err := d.client.StorageV1().CSIDrivers().Get(ctx, d.driver, metav1.GetOptions{}); {
	case apierrors.IsNotFound(err):
		return objectGone{fmt.Errorf("the CSIDriver %s is gone, so pods with its volumes wait for an attacher, and the "+
			"scheduler ignores what nodes have available; make it again: %s", d.driver, d.apply)}, nil
	case err != nil && !apierrors.IsForbidden(err):
		return nil, err
	}
	node, err := live.Node(ctx, d.client, d.node)
	if node == nil || err != nil {
		return nil, err // without a Node the kubelet registers both
	}
	switch at := node.Labels[contract.TopologyNode]; at {
	case d.node:
	case "":
		return unregistered{fmt.Errorf("node %s has no label %s=%s, so no pod with a volume of this node can be scheduled; "+
			"if the kubelet does not write it, kubectl label node %s %s=%s",
			d.node, contract.TopologyNode, d.node, d.node, contract.TopologyNode, d.node)}, nil
	default: // the kubelet refuses to register the driver then
		return fmt.Errorf("node %s has the label %s=%s, and volumes of this node require %s: "+
			"kubectl label --overwrite node %s %s=%s",
			d.node, contract.TopologyNode, at, d.node, d.node, contract.TopologyNode, d.node), nil
	}
	registered, err := d.client.StorageV1().CSINodes().Get(ctx, d.node, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil
	case apierrors.IsNotFound(err):
		return unregistered{fmt.Errorf("CSINode %s is missing, so no pod with a volume of this node can be scheduled; "+
			"restart the kubelet", d.node)}, nil
	case err != nil:
		return nil, err
	}
	if !slices.ContainsFunc(registered.Spec.Drivers, func(r storagev1.CSINodeDriver) bool {
		return r.Name == d.driver && slices.Contains(r.TopologyKeys, contract.TopologyNode)
	}) {
		return unregistered{fmt.Errorf("CSINode %s lacks the driver %s with the topology key %s, "+
			"so no pod with a volume of this node can be scheduled",
			d.node, d.driver, contract.TopologyNode)}, nil
	}
	return nil, nil
}

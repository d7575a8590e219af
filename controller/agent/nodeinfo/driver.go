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
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
)

var (
	// driverEvery is the pause between two checks of the driver.
	driverEvery = timing.Scaled(time.Minute)
	// driverAgain is the pause before the check after a registration. It doubles as long as registrations
	// do not help, up to driverLast: the kubelet forgets the driver for a moment at each.
	driverAgain = timing.Scaled(10 * time.Second)
	driverLast  = timing.Scaled(5 * time.Minute)
	// objectFor is for how long it counts that the CSIDriver is as it should be: all agents ask for the
	// same object, and only tell when it is gone.
	objectFor = timing.Scaled(5 * time.Minute)
)

// Driver checks that the scheduler finds the CSI driver on this node. The kubelet writes the
// driver's topology label on the Node and the driver's entry in the CSINode when the driver
// registers, and never again. Without one of them no pod with a volume of the node is scheduled.
// Without the CSIDriver object, or with one that asks for an attacher, such pods wait for an attacher;
// that is reported by an event, too.
//
// Make it with NewDriver.
type Driver struct {
	client kubernetes.Interface
	node   *Info
	driver string
	// registration is nil if a sidecar registers the driver.
	registration Registration
	events       Events
	apply        string    // the command that makes the driver's objects again
	found        bool      // at an earlier check
	objectAt     time.Time // when the CSIDriver was last found to be right

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

// NewDriver returns the check of the driver of that name on the node, which is read before Run.
// registration is nil if a sidecar registers the driver. apply is the command that makes the driver's
// objects again.
func NewDriver(client kubernetes.Interface, node *Info, driver string, registration Registration, recorder Events,
	apply string) *Driver {
	return &Driver{client: client, node: node, driver: driver, registration: registration, events: recorder, apply: apply}
}

// Run checks until the context ends, each minute and when another part found another label of the
// driver on the Node. It waits before the first check, because the kubelet registers the driver when
// the agent starts.
func (d *Driver) Run(ctx context.Context) {
	var again time.Duration
	for pause := driverEvery; sleep.OrWoken(ctx, pause, d.node.relabelled); {
		if d.check(ctx) {
			again = sleep.Doubled(again, driverAgain, driverLast)
			pause = again
		} else {
			again, pause = 0, driverEvery
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

// check compares CSIDriver, Node and CSINode with what the scheduler needs. It reports whether it had
// the kubelet register the driver again.
func (d *Driver) check(ctx context.Context) (again bool) {
	missing, err := d.missing(ctx, readFor)
	if errors.As(missing, new(unregistered)) { // the Node may be gone since it was read, and the mark be back
		missing, err = d.missing(ctx, 0)
	}
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
	if errors.As(missing, new(objectWrong)) {
		d.events.Warn(ctx, *events.Node(d.node.Name()), "CSIDriver", events.DriverMissing, missing.Error())
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

// objectWrong is the error of a CSIDriver that does not exist, or with which pods wait for an attacher.
type objectWrong struct{ error }

// object returns an objectWrong, or nil if the CSIDriver is right, or the agent may not read it. err is
// the error of a failed request.
func (d *Driver) object(ctx context.Context) (wrong, err error) {
	if time.Since(d.objectAt) < objectFor {
		return nil, nil
	}
	object, err := d.client.StorageV1().CSIDrivers().Get(ctx, d.driver, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return objectWrong{fmt.Errorf("the CSIDriver %s is gone, so pods with its volumes wait for an attacher, and the "+
			"scheduler ignores what nodes have available; make it again: %s", d.driver, d.apply)}, nil
	case err != nil && !apierrors.IsForbidden(err):
		return nil, err
	case err == nil && contract.WaitsForAttacher(object):
		return objectWrong{fmt.Errorf("the CSIDriver %s has not attachRequired: false, so pods with its volumes wait for an "+
			"attacher, and that field cannot be changed; replace the object (kubectl replace --force): %s", d.driver,
			d.apply)}, nil
	}
	d.objectAt = time.Now()
	return nil, nil
}

// missing returns an error that names the missing mark or the wrong object, nil if all is right. It
// reads the Node unless that was read within maxAge. It checks neither CSIDriver nor CSINode if the
// agent may not read it. err is the error of a failed request.
func (d *Driver) missing(ctx context.Context, maxAge time.Duration) (missing, err error) {
	if wrong, err := d.object(ctx); wrong != nil || err != nil {
		return wrong, err
	}
	if exists, err := d.node.readAgain(ctx, maxAge); !exists || err != nil {
		return nil, err // without a Node the kubelet registers both
	}
	node := d.node.Name()
	switch at := d.node.Labels()[contract.TopologyNode]; at {
	case node:
	case "":
		return unregistered{fmt.Errorf("node %s has no label %s=%s, so no pod with a volume of this node can be scheduled; "+
			"if the kubelet does not write it, kubectl label node %s %s=%s",
			node, contract.TopologyNode, node, node, contract.TopologyNode, node)}, nil
	default: // the kubelet refuses to register the driver then
		return fmt.Errorf("node %s has the label %s=%s, and volumes of this node require %s: "+
			"kubectl label --overwrite node %s %s=%s",
			node, contract.TopologyNode, at, node, node, contract.TopologyNode, node), nil
	}
	registered, err := d.client.StorageV1().CSINodes().Get(ctx, node, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil
	case apierrors.IsNotFound(err):
		return unregistered{fmt.Errorf("CSINode %s is missing, so no pod with a volume of this node can be scheduled; "+
			"restart the kubelet", node)}, nil
	case err != nil:
		return nil, err
	}
	if !slices.ContainsFunc(registered.Spec.Drivers, func(r storagev1.CSINodeDriver) bool {
		return r.Name == d.driver && slices.Contains(r.TopologyKeys, contract.TopologyNode)
	}) {
		return unregistered{fmt.Errorf("CSINode %s lacks the driver %s with the topology key %s, "+
			"so no pod with a volume of this node can be scheduled", node, d.driver, contract.TopologyNode)}, nil
	}
	return nil, nil
}

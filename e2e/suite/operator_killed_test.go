package suite

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// operatorKilled has the operator killed at random writes while a resource is created and deleted,
// while it takes over from an older operator, and while it repairs all of its objects. There is no
// resource before.
func operatorKilled(t *testing.T, o *operated) {
	gate := newGate(o.Scene, o.operator, "/")
	until := func(done func() error) {
		o.Helper()
		left := 2 // before a write and after one; each start takes seconds
		kills := gate.killedUntil(done, func() int {
			if left--; left < 0 {
				return math.MaxInt
			}
			return rand.IntN(8)
		})
		if len(kills) == 0 {
			t.Error("never killed")
		}
	}
	settled := func() error {
		return errors.Join(o.is(serving, "TFF", "Complete", "Application Available"), o.observed("unknown"), o.allThere())
	}
	o.create(serving, pools("local=/srv/local"))
	until(settled)

	if err := resources(o.Scene).Delete(o.Context(), serving, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(o.removed)
	o.nothingLeft()

	o.create(serving, map[string]any{"pathConfig": map[string]any{"path": "/srv/legacy"}})
	o.report("v0.25.0")
	o.apply("testdata/older-operator.yaml")
	driver, ds := o.get(driversKind, harness.Driver).GetUID(), o.get(daemonsKind, daemons).GetUID()
	until(settled)
	wantOnlyOurs(t, o.agentPod(), 7, 1)
	wantOurWebhook(o)
	if o.get(driversKind, harness.Driver).GetUID() != driver || o.get(daemonsKind, daemons).GetUID() != ds {
		t.Error("after the upgrade, the CSIDriver or the DaemonSet is another object")
	}

	for kind, name := range managed {
		if err := o.kind(kind).Delete(o.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatalf("delete %s %s: %v", kind, name, err)
		}
	}
	until(settled)
	gate.opens()
	o.healthy()
}

// The kinds of objects that more than one part names.
const (
	daemonsKind = "apps/v1/daemonsets"
	driversKind = "storage.k8s.io/v1/csidrivers"
)

// managed are objects of the resource, by kind.
var managed = map[string]string{
	webhookKind: webhookName, daemonsKind: daemons, "/v1/serviceaccounts": agents, driversKind: harness.Driver, constraintsKind: daemons,
	"rbac.authorization.k8s.io/v1/clusterroles": agents, "rbac.authorization.k8s.io/v1/clusterrolebindings": agents,
	"rbac.authorization.k8s.io/v1/roles": agents, "rbac.authorization.k8s.io/v1/rolebindings": agents,
}

// allThere returns nil if all of them are there.
func (o *operated) allThere() (err error) {
	o.Helper()
	for kind, name := range managed {
		_, e := o.kind(kind).Get(o.Context(), name, metav1.GetOptions{})
		err = errors.Join(err, e)
	}
	return err
}

// nothingLeft checks that none of them is there.
func (o *operated) nothingLeft() {
	o.Helper()
	for kind, name := range managed {
		if _, err := o.kind(kind).Get(o.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			o.Errorf("%s %s: %v, want it gone", kind, name, err)
		}
	}
}

// removed returns nil if the resource is gone.
func (o *operated) removed() error {
	_, err := resources(o.Scene).Get(o.Context(), serving, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return errors.Join(errors.New("it is there"), err, o.is(serving, "", "", ""))
}

// observed returns nil if the resource's status has that version.
func (o *operated) observed(version string) error {
	cr := o.get("hostpathprovisioner.kubevirt.io/v1beta1/hostpathprovisioners", serving)
	if v, _, _ := unstructured.NestedString(cr.Object, "status", "observedVersion"); v != version {
		return fmt.Errorf("observed version %q", v)
	}
	return nil
}

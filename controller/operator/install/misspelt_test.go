package install

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/layout"
)

func settingsOf(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: layout.ConfigMap}, Data: data}
}

// set changes the settings and reconciles.
func (o operated) set(data map[string]string) {
	o.Helper()
	if err := o.client.Update(o.Context(), settingsOf(data)); err != nil {
		o.Fatal(err)
	}
	o.pass("hpp")
}

// variable returns the value of a variable of the agents, "" if it is not set.
func (o operated) variable(name string) string {
	o.Helper()
	for _, v := range o.agents().Spec.Template.Spec.Containers[0].Env {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

// The policy Retain that is misspelt does not become Delete, also not at the first start.
func TestMisspeltPolicy(t *testing.T) {
	o := operate(t, resource("hpp", time.Hour, poolA), settingsOf(map[string]string{"PV_RECLAIM_POLICY": "Retain"}))
	o.pass("hpp")
	for _, data := range []map[string]string{{"PV_RECLAIM_POLICY": "retain"}, {"PV_RECLAIM_POLCY": "Retain"}} {
		if o.set(data); o.variable("PV_RECLAIM_POLICY") != "Retain" {
			t.Errorf("%v: the agents have %q", data, o.variable("PV_RECLAIM_POLICY"))
		}
	}
	if o.set(map[string]string{}); o.variable("PV_RECLAIM_POLICY") != "" {
		t.Errorf("it is removed, and the agents have %q", o.variable("PV_RECLAIM_POLICY"))
	}
	first := operate(t, resource("hpp", time.Hour, poolA), settingsOf(map[string]string{"PV_RECLAIM_POLICY": "retain"}))
	if first.pass("hpp"); first.variable("PV_RECLAIM_POLICY") != "Retain" {
		t.Errorf("at the first start the agents have %q", first.variable("PV_RECLAIM_POLICY"))
	}
}

// While the grace period cannot be read, it is the last that was valid, and without one nothing is
// given up. So it is while a key may be this one misspelt.
func TestMisspeltGrace(t *testing.T) {
	o := operate(t, resource("hpp", time.Hour, poolA), settingsOf(map[string]string{"nodeGoneGrace": "1d"}))
	grace := func(want time.Duration) {
		t.Helper()
		got, err := layout.NodeGoneGrace(t.Context(), o.Reconciler.installed())
		if got != want || (err != nil) != (want == 0) {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
	grace(0)
	o.set(map[string]string{"nodeGoneGrace": "24h"})
	grace(24 * time.Hour)
	for _, value := range []string{"1d", "24 h", "24hours", "86400"} {
		o.set(map[string]string{"nodeGoneGrace": value})
		grace(24 * time.Hour)
	}
	o.set(map[string]string{"nodeGoneGrac": "48h"})
	grace(0)
	o.set(nil)
	grace(5 * time.Minute)
}

// A misspelt setting whose default could lose something leaves the agents as they are, and says so.
func TestWithheld(t *testing.T) {
	o := operate(t, resource("hpp", time.Hour, poolA), settingsOf(map[string]string{"HPP_KUBELET_DIR": "kubelet"}))
	o.pass("hpp")
	o.wantOffered("")
	var cr v1beta1.HostPathProvisioner
	if err := o.client.Get(t.Context(), client.ObjectKey{Name: "hpp"}, &cr); err != nil {
		t.Fatal(err)
	}
	if c := progress(cr.Status); c.Reason != "SettingInvalid" || !strings.Contains(c.Message, "until then the agents are not changed") {
		t.Errorf("%+v", c)
	}
	o.set(map[string]string{"HPP_KUBELET_DIR": "/kubelet"})
	o.wantOffered("a=/a/csi")
	o.set(map[string]string{"HPP_KUBELET_DIR": "kubelet"})
	if args := strings.Join(o.agents().Spec.Template.Spec.Containers[0].Args, " "); !strings.Contains(args, "--kubelet-dir=/kubelet") {
		t.Errorf("the agents have %s", args)
	}
}

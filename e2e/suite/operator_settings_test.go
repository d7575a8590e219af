package suite

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// settingsMap is the name of the ConfigMap with settings of the agents.
const settingsMap = "hostpath-provisioner-settings"

// tunes has settings of the agents that are good and bad, changed, repaired, and removed. The
// resource has pathConfig.
func tunes(_ *testing.T, o *operated) {
	maps := o.Client.CoreV1().ConfigMaps(harness.Namespace)
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: settingsMap}, Data: map[string]string{
		"HPP_RESERVE": "1Gi", "MIGRATE_TO_CSI": "plan", "HPP_OVERCOMMIT": "twice", "HPP_KUBELET_DIR": "/data/kubelet"}}
	if _, err := maps.Create(o.Context(), settings, metav1.CreateOptions{}); err != nil {
		o.Fatal(err)
	}
	o.await("TTT", "SettingInvalid", `HPP_OVERCOMMIT is "twice"; set it to a number above zero`)
	if err := o.hasVariables("HPP_RESERVE=1Gi", "MIGRATE_TO_CSI=plan"); err != nil {
		o.Error(err)
	}
	if pod := o.agentPod(); pod.Volumes[0].HostPath.Path != "/data/kubelet/plugins/csi-hostpath" {
		o.Errorf("volumes %+v", pod.Volumes)
	}
	o.Eventually("rules of the migration", func() error { return o.hasRules(13) })
	o.tune(`{"data":{"HPP_OVERCOMMIT":null,"HPP_RESERV":"1Gi"}}`)
	o.await("TTT", "SettingInvalid", `HPP_RESERV is "1Gi"; there is no such setting`)
	o.Eventually("both events", func() error {
		if n, err := o.events("SettingInvalid"); err != nil || n != 2 {
			return errors.Join(err, fmt.Errorf("%d events", n))
		}
		return nil
	})
	o.tune(`{"data":{"HPP_RESERV":null,"HPP_PURGE_RATE":"7"}}`)
	o.healthy()
	o.edited("apps/v1/daemonsets", daemons, "spec", func(object *unstructured.Unstructured) {
		containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		containers[0].(map[string]any)["env"] = nil
		_ = unstructured.SetNestedSlice(object.Object, containers, "spec", "template", "spec", "containers") // it was one
	})
	if err := o.hasVariables("HPP_RESERVE=1Gi", "HPP_PURGE_RATE=7"); err != nil {
		o.Error(err)
	}
	if err := maps.Delete(o.Context(), settingsMap, metav1.DeleteOptions{}); err != nil {
		o.Fatal(err)
	}
	o.Eventually("without settings", func() error {
		if o.hasVariables("HPP_RESERVE=1Gi") == nil || o.agentPod().Volumes[0].HostPath.Path != "/var/lib/kubelet/plugins/csi-hostpath" {
			return errors.New("they are there")
		}
		return o.hasRules(9)
	})
	o.healthy()
}

// tune merges a change into the settings.
func (o *operated) tune(patch string) {
	o.Helper()
	_, err := o.Client.CoreV1().ConfigMaps(harness.Namespace).Patch(o.Context(), settingsMap, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		o.Fatal(err)
	}
}

// hasRules returns nil if the agents' ClusterRole has that many rules.
func (o *operated) hasRules(want int) error {
	o.Helper()
	if rules, _, _ := unstructured.NestedSlice(o.get("rbac.authorization.k8s.io/v1/clusterroles", agents).Object, "rules"); len(rules) != want {
		return fmt.Errorf("%d rules, want %d", len(rules), want)
	}
	return nil
}

package explain

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	scene "kubevirt.io/hostpath-provisioner/controller/plugin/plugintest"
)

// copyData makes shop/new a copy of the claim of that name, after the change.
func copyData(source string, change func(c *scene.Cluster)) func(c *scene.Cluster) {
	return func(c *scene.Cluster) {
		c.Claim("new").Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: source}
		c.Claim("data").Status.Phase = corev1.ClaimBound
		change(c)
	}
}

func TestCopiesAreExplained(t *testing.T) {
	immediate := storagev1.VolumeBindingImmediate
	made := "the volume is made as a copy of that of claim data, on node node-01, which has it"
	for name, row := range map[string]situation{
		"source gone":      {change: copyData("nothing", func(*scene.Cluster) {}), causes: []string{"claim nothing, whose volume is to be copied, does not exist"}, do: "create claim nothing"},
		"source not bound": {change: copyData("data", func(c *scene.Cluster) { c.Claim("data").Status.Phase = corev1.ClaimPending }), causes: []string{"claim data, whose volume is to be copied, is not bound"}, do: "kubectl hpp explain data -n shop"},
		"source lost":      {change: copyData("data", func(c *scene.Cluster) { c.Claim("data").Status.Phase = corev1.ClaimLost }), causes: []string{"claim data, whose volume is to be copied, is Lost"}, do: "another dataSource"},
		"another driver":   {change: copyData("data", func(c *scene.Cluster) { c.PV("pvc-1").Spec.CSI.Driver = "example.com" }), causes: []string{"is not of provisioner"}},
		"another node chosen": {change: copyData("data", func(c *scene.Cluster) {
			c.Claim("new").Annotations["volume.kubernetes.io/selected-node"] = "node-02"
		}), also: made},
		"chosen node gone": {change: copyData("data", func(c *scene.Cluster) {
			c.Claim("new").Annotations["volume.kubernetes.io/selected-node"] = "node-09"
		}), also: made, not: "node-09"},
		"Immediate": {change: copyData("data", func(c *scene.Cluster) { wait(c); c.Class("local").VolumeBindingMode = &immediate }), also: made, not: "no node will be chosen"},
		"no pod":    {change: copyData("data", noPod), causes: []string{noConsumer}, also: made},
		"pod elsewhere": {change: copyData("data", func(c *scene.Cluster) {
			c.Pod("web-0").Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "node-02"}
		}), causes: []string{"pod web-0 may not run on node node-01, where the copy is made"}, do: "let the pod run on node node-01"},
		"node gone": {change: copyData("data", func(c *scene.Cluster) { scene.Drop[corev1.Node](c, "node-01") }), causes: []string{"node node-01, which has the volume of claim data, does not exist any more"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := scene.Healthy()
			row.change(c)
			answer := Explain(read(t, c, "new"))
			agree(t, &row, &answer)
		})
	}
}

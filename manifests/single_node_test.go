package manifests_test

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
)

const singleNode = "single-node"

// The form for one machine has the names of the older provisioner: its class, its directory and its
// setting.
func TestSingleNodeIsADropIn(t *testing.T) {
	c := one[*storagev1.StorageClass](t, singleNode)
	if c.Name != "hostpath" || c.Provisioner != "hostpath" || *c.VolumeBindingMode != storagev1.VolumeBindingImmediate ||
		c.Annotations["storageclass.kubernetes.io/is-default-class"] != "true" || !*c.AllowVolumeExpansion {
		t.Errorf("class %+v", c)
	}
	pod, agent := agent(t, singleNode)
	want := map[string]string{
		"NODE_NAME": "spec.nodeName", "POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "PV_DIR": "/var/kubernetes",
		"USE_NAMING_PREFIX": "false", "COMPAT": "hostpath", "PV_RECLAIM_POLICY": "",
	}
	if got := environment(agent); !maps.Equal(got, want) {
		t.Errorf("environment %v, want %v", got, want)
	}
	if hostOf(pod, agent, "/var/kubernetes") != "/var/kubernetes" || len(pod.Volumes)+len(agent.VolumeMounts) != 2 {
		t.Errorf("volumes %v, mounts %v", pod.Volumes, agent.VolumeMounts)
	}
	claim := one[*corev1.PersistentVolumeClaim](t, singleNode+"/test-claim.yaml")
	if size := claim.Spec.Resources.Requests.Storage(); size.String() != "1Mi" || claim.Spec.StorageClassName != nil ||
		!slices.Equal(claim.Spec.AccessModes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}) {
		t.Errorf("claim %+v", claim.Spec)
	}
	test := one[*corev1.Pod](t, singleNode+"/test-pod.yaml")
	if got := test.Spec.Volumes[0].PersistentVolumeClaim.ClaimName; got != claim.Name {
		t.Errorf("the pod uses claim %s, want %s", got, claim.Name)
	}
}

// Its agent may also see the nodes of the cluster, and nothing else that other agents may not.
func TestSingleNodeSeesNodes(t *testing.T) {
	roles := all[*rbacv1.ClusterRole](t, singleNode)
	if len(roles) != 2 || len(roles[1].Rules) != 1 {
		t.Fatalf("roles %v", roles)
	}
	rule := roles[1].Rules[0]
	if !slices.Equal(rule.Resources, []string{"nodes"}) || !slices.Equal(rule.Verbs, []string{"list", "watch"}) {
		t.Errorf("rule %+v", rule)
	}
}

// Kubernetes 1.37 keeps pods from nodes whose driver has not registered, if the driver requests it.
func TestDriverFirst(t *testing.T) {
	with, without := one[*storagev1.CSIDriver](t, "examples/driver-first"), one[*storagev1.CSIDriver](t, "csi")
	if p := with.Spec.PreventPodSchedulingIfMissing; p == nil || !*p || without.Spec.PreventPodSchedulingIfMissing != nil {
		t.Errorf("with %v, without %v", p, without.Spec.PreventPodSchedulingIfMissing)
	}
}

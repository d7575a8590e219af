package manifests_test

import (
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
)

const blankDisks = "examples/blank-disks"

// What is blank becomes a PV with quotas; what carries data, and what no link names, is left alone.
func TestBlankDisksAreOffered(t *testing.T) {
	cm := one[*corev1.ConfigMap](t, blankDisks+"/configmap.yaml")
	want := map[string]string{"storageClassName": "blank-disk", "volumeMode": "Filesystem", "fsType": "xfs", "mountOptions": "prjquota",
		"deviceDir": "/dev/disk/by-local-pv", "deviceNameFilter": ".*"}
	if !maps.Equal(cm.Data, want) || cm.Namespace != name {
		t.Errorf("ConfigMap %s/%s: %v, want %v", cm.Namespace, cm.Name, cm.Data, want)
	}
	ds := one[*appsv1.DaemonSet](t, blankDisks+"/daemonset.yaml")
	if got := environment(ds.Spec.Template.Spec.Containers[0]); ds.Name != disksName || got["LP_DEFAULT_PV_SPEC_CONFIGMAP"] != cm.Name {
		t.Errorf("DaemonSet %s has the environment %v, want the ConfigMap %s", ds.Name, got, cm.Name)
	}
}

// Each pool is on a claim that the disks satisfy, and has a class that is not served without quotas.
func TestBlankDisksHavePools(t *testing.T) {
	disks := one[*corev1.ConfigMap](t, blankDisks+"/configmap.yaml").Data["storageClassName"]
	served := []string{}
	for _, c := range all[*storagev1.StorageClass](t, blankDisks+"/storageclasses.yaml") {
		switch {
		case *c.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
			t.Errorf("class %s does not wait for the pod", c.Name)
		case c.Name == disks:
			if c.Provisioner != "kubernetes.io/no-provisioner" {
				t.Errorf("class %s of the disks has the provisioner %s", c.Name, c.Provisioner)
			}
		case c.Provisioner != csiDriver || c.Parameters["quota"] != "required" || !*c.AllowVolumeExpansion:
			t.Errorf("class %+v", c)
		default:
			served = append(served, c.Parameters["storagePool"])
		}
	}
	pools := []string{}
	for _, p := range one[*v1beta1.HostPathProvisioner](t, blankDisks+"/pools.yaml").Spec.StoragePools {
		pools = append(pools, p.Name)
		least := p.PVCTemplate.Resources.Requests[corev1.ResourceStorage]
		if *p.PVCTemplate.StorageClassName != disks || least.Cmp(resource.MustParse("300Mi")) > 0 {
			t.Errorf("pool %s: %+v", p.Name, p.PVCTemplate)
		}
	}
	if !slices.Equal(pools, served) || len(pools) == 0 {
		t.Errorf("pools %q, and classes of the pools %q", pools, served)
	}
}

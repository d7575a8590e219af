package manifests_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const onNode = "kubevirt.io/provisionOnNode"

// exampleClaims are all claims of the examples, as claims and as templates of them, by file and
// name.
func exampleClaims(t *testing.T) map[string]corev1.PersistentVolumeClaim {
	t.Helper()
	claims := map[string]corev1.PersistentVolumeClaim{}
	for _, file := range exampleFiles(t) {
		for _, object := range decode(t, file) {
			switch o := object.(type) {
			case *corev1.PersistentVolumeClaim:
				claims[file+" "+o.Name] = *o
			case *appsv1.StatefulSet:
				for _, c := range o.Spec.VolumeClaimTemplates {
					claims[file+" "+c.Name] = c
				}
			case *corev1.Pod:
				for _, v := range o.Spec.Volumes {
					if v.Ephemeral != nil {
						claims[file+" "+v.Name] = corev1.PersistentVolumeClaim{Spec: v.Ephemeral.VolumeClaimTemplate.Spec}
					}
				}
			}
		}
	}
	return claims
}

// exampleFiles are the examples that are no overlays.
func exampleFiles(t *testing.T) (found []string) {
	t.Helper()
	for _, file := range files(t) {
		if rest, ok := strings.CutPrefix(file, "examples/"); ok && !strings.Contains(rest, "/") {
			found = append(found, file)
		}
	}
	return found
}

func TestExampleClaimsCanBind(t *testing.T) {
	classes := map[string]*storagev1.StorageClass{}
	for _, c := range slices.Concat(all[*storagev1.StorageClass](t, "legacy"), all[*storagev1.StorageClass](t, "csi")) {
		classes[c.Name] = c
	}
	claims := exampleClaims(t)
	want := map[string]string{
		"examples/claim-on-node.yaml on-node-01":   name + "-immediate",
		"examples/claim-and-pod.yaml diary":        name,
		"examples/statefulset.yaml data":           csiClass,
		"examples/csi-claim-and-pod.yaml journal":  csiClass,
		"examples/csi-generic-volume.yaml scratch": csiClass,
	}
	got := map[string]string{}
	for at, c := range claims {
		if c.Spec.StorageClassName == nil || classes[*c.Spec.StorageClassName] == nil {
			t.Errorf("%s: its class %v is in no base", at, c.Spec.StorageClassName)
			continue
		}
		class := classes[*c.Spec.StorageClassName]
		got[at] = class.Name
		immediate := *class.VolumeBindingMode == storagev1.VolumeBindingImmediate
		if node := c.Annotations[onNode]; immediate != (node != "") {
			t.Errorf("%s: class %s with %s %q", at, class.Name, onNode, node)
		}
		modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		if class.Provisioner == csiDriver {
			modes = append(modes, corev1.ReadWriteOncePod)
		}
		if len(c.Spec.AccessModes) != 1 || !slices.Contains(modes, c.Spec.AccessModes[0]) {
			t.Errorf("%s: access modes %v, want one of %v", at, c.Spec.AccessModes, modes)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("classes %v, want %v", got, want)
	}
}

// A pod's claims are in its file, and its containers mount volumes that it has.
func TestExamplePodsHaveTheirVolumes(t *testing.T) {
	claims := exampleClaims(t)
	pods := 0
	for _, file := range exampleFiles(t) {
		for _, object := range decode(t, file) {
			pod, ok := object.(*corev1.Pod)
			if !ok {
				continue
			}
			pods++
			mounted := pod.Spec.Containers[0].VolumeMounts
			if len(pod.Spec.Volumes) != 1 || len(mounted) != 1 || mounted[0].Name != pod.Spec.Volumes[0].Name {
				t.Errorf("%s: mounts %v of %v", file, mounted, pod.Spec.Volumes)
				continue
			}
			if c := pod.Spec.Volumes[0].PersistentVolumeClaim; c != nil {
				if _, ok := claims[file+" "+c.ClaimName]; !ok {
					t.Errorf("%s: claim %q is not in the file", file, c.ClaimName)
				}
			}
		}
	}
	if pods != 4 {
		t.Errorf("%d pods, want 4", pods)
	}
}

// The attributes are those that the driver knows, and the pool one that it has.
func TestExampleInlineVolume(t *testing.T) {
	v := one[*corev1.Pod](t, "examples/csi-inline-volume.yaml").Spec.Volumes[0].CSI
	if v == nil || v.Driver != csiDriver {
		t.Fatalf("volume %+v, want one of %s", v, csiDriver)
	}
	for key, value := range v.VolumeAttributes {
		switch key {
		case "size":
			if _, err := resource.ParseQuantity(value); err != nil {
				t.Errorf("size %q: %v", value, err)
			}
		case "storagePool":
			if _, ok := pools(t, "csi")[value]; !ok {
				t.Errorf("pool %q, the driver has %v", value, pools(t, "csi"))
			}
		default:
			t.Errorf("attribute %q is refused", key)
		}
	}
}

package contract_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// Whatever a user writes in a claim, the copy of it is small, also after a second time: a claim is
// compared with its copy.
func TestSlimIsSmall(t *testing.T) {
	const large = 200 << 10
	long := strings.Repeat("x", large)
	many := map[string]string{}
	claim := classtest.Claim("a", long, long, contract.AnnProvisionOnNode, long, contract.AnnSelectedNode, long, contract.AnnStorageProvisioner, long,
		contract.AnnMigrated, long, "volumeType", long, corev1.BetaStorageClassAnnotation, long, "tenant", long)
	for i := range 5000 {
		many[strings.Repeat("k", i%50)+string(rune('a'+i%26))] = long[:60]
		claim.Spec.AccessModes = append(claim.Spec.AccessModes, corev1.ReadWriteOnce, corev1.PersistentVolumeAccessMode(long[:i]))
		claim.Finalizers = append(claim.Finalizers, long[:i])
		claim.Status.Conditions = append(claim.Status.Conditions, corev1.PersistentVolumeClaimCondition{Type: corev1.PersistentVolumeClaimResizing, Message: long})
	}
	claim.Labels, claim.OwnerReferences = many, make([]metav1.OwnerReference, 1000)
	claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: many}
	claim.Spec.VolumeAttributesClassName, claim.Spec.VolumeMode = &long, ptr.To(corev1.PersistentVolumeMode(long))
	claim.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: &long, Kind: long, Name: long}
	claim.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: &long, Kind: long, Name: long, Namespace: &long}
	list := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	for key := range many {
		list[corev1.ResourceName(key)] = resource.MustParse("1")
	}
	claim.Spec.Resources = corev1.VolumeResourceRequirements{Requests: list, Limits: list}
	claim.Status.Capacity, claim.Status.AllocatedResources = list, list
	claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: corev1.ClaimResourceStatus(long)}

	slim := contract.Slim(claim)
	if size := slim.Size(); size > 8<<10 {
		t.Errorf("of a claim of %d KiB %d bytes are kept", claim.Size()>>10, size)
	}
	if again := contract.Slim(slim); !apiequality.Semantic.DeepEqual(slim, again) {
		t.Errorf("a copy of a copy differs: %v, %v", slim, again)
	}
	if size := claim.Spec.Resources.Requests.Storage(); slim.Spec.Resources.Requests.Storage().Cmp(*size) != 0 {
		t.Errorf("requests %v, want %v", slim.Spec.Resources.Requests.Storage(), size)
	}
}

// What decides over a claim is the same for its copy.
func TestSlimDecidesTheSame(t *testing.T) {
	group, none := "example.com", ""
	for name, edit := range map[string]func(*corev1.PersistentVolumeClaim){
		"plain": func(*corev1.PersistentVolumeClaim) {},
		"block": func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) },
		"mode": func(c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes = append(c.Spec.AccessModes, corev1.ReadWriteMany)
		},
		"attributes":  func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = ptr.To("gold") },
		"selector":    func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} },
		"volume type": func(c *corev1.PersistentVolumeClaim) { c.Annotations = map[string]string{"volumeType": "nfs"} },
		"beta class": func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "csi"}
		},
		"clone": func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: &none, Kind: "PersistentVolumeClaim", Name: "from"}
		},
		"populated": func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: &group, Kind: "VolumeImportSource", Name: "from"}
		},
	} {
		claim := classtest.Claim("a", "now", "")
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteOnce}
		edit(claim)
		slim := contract.Slim(claim)
		text := func(err error) string {
			if err == nil {
				return ""
			}
			return err.Error()
		}
		before, after := text(contract.CheckSupported(claim, contract.CSIModes)), text(contract.CheckSupported(slim, contract.CSIModes))
		if before != after || contract.Of(claim) != contract.Of(slim) || contract.Populated(claim) != contract.Populated(slim) || contract.Bytes(claim) != contract.Bytes(slim) {
			t.Errorf("%s: refused with %q, its copy with %q", name, before, after)
		}
		if claim.Annotations["volumeType"] != slim.Annotations["volumeType"] {
			t.Errorf("%s: annotations %v, want %v", name, slim.Annotations, claim.Annotations)
		}
	}
}

package explain

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// The agents ignore kubevirt.io/provisionOnNode for classes of local-path (contract.NodeOf), so
// explain must not follow it, nor advise it.
func TestAnnotationOfLocalPathHasNoEffect(t *testing.T) {
	local := func() *Facts {
		f := scene()
		mode := storagev1.VolumeBindingWaitForFirstConsumer
		f.Class.It.Provisioner, f.Class.It.VolumeBindingMode, f.Class.It.Parameters = contract.LocalPathProvisioner, &mode, nil
		for i := range f.Agents.Items {
			f.Agents.Items[i].Provisioners = []string{contract.LocalPathProvisioner}
		}
		return f
	}
	f := local() // the scheduler chose node-01
	f.Claim.Annotations[contract.AnnProvisionOnNode] = "node-09"
	f.asked(nil)
	if got := f.node(); got != "node-01" {
		t.Errorf("the claim's node is %q; its agent serves it on node-01", got)
	}
	if a := Explain(f); strings.Contains(text(a), "node-09") {
		t.Errorf("explain blames an annotation that has no effect:\n%s", text(a))
	}
	f = local()
	f.Claim.Annotations, f.Users.Items = nil, []corev1.Pod(nil)
	if a := Explain(f); strings.Contains(text(a), "annotate the claim with") {
		t.Errorf("explain advises an annotation that has no effect:\n%s", text(a))
	}
}

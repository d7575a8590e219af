package pvs

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

func TestValidateHostPath(t *testing.T) {
	c := newPVs(t)
	good := validPV(c, "wait")
	if name, err := validate(c, good); err != nil || name != good.Name {
		t.Fatalf("the agent's PV: %q, %v", name, err)
	}
	annotate := func(key, value string) func(*corev1.PersistentVolume) {
		return func(pv *corev1.PersistentVolume) { pv.Annotations[key] = value }
	}
	path := func(p string) func(*corev1.PersistentVolume) {
		return func(pv *corev1.PersistentVolume) { pv.Spec.HostPath.Path = p }
	}
	base := c.Pools.All()[0].Path()
	for name, row := range map[string]struct {
		spoil func(*corev1.PersistentVolume)
		want  string // in the error
	}{
		"no hostPath":         {func(pv *corev1.PersistentVolume) { pv.Spec.HostPath = nil }, "no hostPath"},
		"another identity":    {annotate(contract.AnnIdentity, "example.com"), "example.com"},
		"no identity":         {func(pv *corev1.PersistentVolume) { delete(pv.Annotations, contract.AnnIdentity) }, "hostPathProvisionerIdentity"},
		"another provisioner": {annotate(contract.AnnProvisionedBy, "example.com/x"), "provisioned-by"},
		"another node":        {annotate(contract.AnnProvisionOnNode, "node-02"), "node-02"},
		"another pool":        {annotate(contract.AnnPool, "6e0c"), "6e0c"},
		"no affinity":         {func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = nil }, "affinity"},
		"another's affinity": {func(pv *corev1.PersistentVolume) {
			pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{"host-b"}
		}, "host-a"},
		"two hosts": {func(pv *corev1.PersistentVolume) {
			pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{"host-a", "host-b"}
		}, "affinity"},
		"outside":            {path("/etc/passwd"), "/etc/passwd"},
		"the pool itself":    {path(base), "right below"},
		"below a volume":     {path(base + "/pvc-x/data"), "right below"},
		"dots":               {path(base + "/../../etc"), "right below"},
		"dots in disguise":   {path(base + "/x/../pvc-x"), "right below"},
		"a slash too many":   {path(base + "//pvc-x"), "right below"},
		"a slash at its end": {path(base + "/pvc-x/"), "right below"},
		"private directory":  {path(base + "/.hostpath-provisioner"), "dot"},
		"a sibling":          {path(base + "2/pvc-x"), "right below"},
		"nothing":            {path(""), "right below"},
	} {
		t.Run(name, func(t *testing.T) {
			pv := validPV(c, "wait")
			row.spoil(pv)
			name, err := validate(c, pv)
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %q, %v; want an error with %q", name, err, row.want)
			}
		})
	}
}

// TestValidateOlderAffinity accepts the affinity of an older provisioner, which wrote the node's
// name.
func TestValidateOlderAffinity(t *testing.T) {
	c := newPVs(t)
	pv := validPV(c, "wait")
	delete(pv.Annotations, contract.AnnPool)
	pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{"node-01"}
	if _, err := validate(c, pv); err != nil {
		t.Error(err)
	}
}

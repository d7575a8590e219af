package claims

import (
	"testing"
	"testing/synctest"
	"time"

	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// The user of a CSI claim that names a node waits for a volume, which comes with a pod only: one
// agent records it, once, while the claim waits. Whether a node has the space is another question.
func TestIgnoredAnnotationIsSaidWhileTheClaimWaits(t *testing.T) {
	for what, row := range map[string]struct {
		annotations []string
		want        []string
	}{
		"names a node":  {[]string{contract.AnnProvisionOnNode, "node-0"}, []string{"Normal AnnotationIgnored", contract.AnnProvisionOnNode, "spec.nodeSelector"}},
		"names none":    {nil, nil},
		"has its place": {[]string{contract.AnnProvisionOnNode, "node-0", contract.AnnSelectedNode, "node-1"}, nil},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fits := func(int, *storagev1.StorageClass, int64) Fit { return Fit{Pool: "legacy"} }
				a := startAgents(t, 3, fits, publishes("node-0", "csi", 1<<30), node("node-1"))
				a.seen(pending("u", "csi", 1<<20, row.annotations...))
				time.Sleep(10 * time.Minute)
				a.wantEvents(row.want...)
			})
		})
	}
}

package suite

import (
	"fmt"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// claimsWait has claims for which no agent is there, as agents cannot say.
func claimsWait(t *testing.T, o *operated) {
	bare := o.Node("bare") // its taint keeps the agent off
	taint := []byte(`{"spec":{"taints":[{"key":"only","value":"others","effect":"NoExecute"}]}}`)
	if _, err := o.Client.CoreV1().Nodes().Patch(o.Context(), bare.Name, types.MergePatchType, taint, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	o.Eventually("no agent", func() error { return noAgent(o, bare.Name) })
	o.healthy() // no agent is being replaced
	broken, gone := o.nodes[1].Name, o.Name+"-node-99"
	o.breaks(broken)
	rows := map[string]func(*testing.T){}
	for _, row := range []struct {
		name  string
		claim harness.Claim
		want  string
	}{
		{"no node", harness.Claim{}, "no node is named for this claim"},
		{"node that does not exist", harness.Claim{Node: gone}, gone + `", which does not exist`},
		{"node without an agent", harness.Claim{Node: bare.Name}, "no agent runs on node " + bare.Name},
		{"chosen node without an agent", harness.Claim{Class: harness.ClassCSI, Selected: bare.Name}, "no agent runs on node " + bare.Name},
		{"chosen node whose agent is not ready", harness.Claim{Class: harness.ClassCSI, Selected: broken}, "the agent on node " + broken + " is not ready"},
	} {
		rows[row.name] = func(t *testing.T) {
			s := o.in(t)
			claim := s.Create(row.claim)
			s.Eventually(row.want, func() error { return s.Warned(claim.UID, harness.ReasonFailed, row.want) })
			if on := s.Read(claim).Annotations[harness.AnnSelectedNode]; on != row.claim.Selected {
				t.Errorf("selected node %q, was %q", on, row.claim.Selected)
			}
			s.Delete(claim)
		}
	}
	rows["class comes later"] = func(t *testing.T) {
		s := o.in(t)
		later := s.ClassName("later")
		claim := s.Create(harness.Claim{Class: later, Node: gone})
		awaitEvent(s.Scene, claim.UID, "ProvisioningFailed", later) // Kubernetes' own: it does not exist
		s.Class("later", func(c *storagev1.StorageClass) {
			mode := storagev1.VolumeBindingWaitForFirstConsumer
			c.VolumeBindingMode = &mode
		})
		s.Eventually("warned", func() error { return s.Warned(claim.UID, harness.ReasonFailed, gone) })
		s.Delete(claim)
	}
	rows["given back"] = func(t *testing.T) {
		s := o.in(t)
		claim := s.Create(harness.Claim{Class: harness.ClassDelayed, Selected: gone})
		s.Eventually("given back", func() error {
			if on := s.Read(claim).Annotations[harness.AnnSelectedNode]; on != "" {
				return s.NotYet(claim.UID, "it is for %s", on)
			}
			return nil
		})
		awaitEvent(s.Scene, claim.UID, "NodeGone", gone)
		s.Delete(claim)
	}
	atOnce(t, rows)
	o.breaks("")
	o.healthy()
}

// noAgent returns nil if the node has no pod of the agents.
func noAgent(o *operated, node string) error {
	pods, err := o.Client.CoreV1().Pods(harness.Namespace).List(o.Context(), onNode(node))
	if err == nil && len(pods.Items) > 0 {
		err = fmt.Errorf("%s is there", pods.Items[0].Name)
	}
	return err
}

// onNode selects the pods of the node.
func onNode(node string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: "spec.nodeName=" + node}
}

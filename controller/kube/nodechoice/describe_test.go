package nodechoice

import (
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

func TestDescribe(t *testing.T) {
	seen := map[string]bool{}
	for want, describe := range map[string]func() (topic, message string){
		"annotate it with " + contract.AnnProvisionOnNode:                                      Unassigned,
		`node "node-09", which does not exist`:                                                 func() (string, string) { return NodeMissing("node-09") },
		`class "fast" has no volumeBindingMode WaitForFirstConsumer; a class cannot be edited`: func() (string, string) { return Unscheduled("fast") },
	} {
		topic, message := describe()
		if !strings.Contains(message, want) || seen[topic] {
			t.Errorf("%s: %s, want %s", topic, message, want)
		}
		seen[topic] = true
	}
}

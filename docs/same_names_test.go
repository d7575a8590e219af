package docs

import (
	"os"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// The page about the project with the same names has those that both have, and the marks by which a
// reader finds out whose a pod, a PV and a pool is.
func TestSameNames(t *testing.T) {
	page, err := os.ReadFile("same-names.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{contract.HostPathProvisioner, contract.CSIProvisioner, "hostpathprovisioners." + v1beta1.GroupVersion().Group,
		contract.LabelNode, "kubevirt_hpp_build_info"} {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("the page lacks %s", name)
		}
	}
	if column := ".metadata.annotations." + strings.ReplaceAll(contract.AnnAgent, ".", `\.`) + "'"; !strings.Contains(string(page), column) {
		t.Errorf("the page's command does not print %s", column)
	}
}

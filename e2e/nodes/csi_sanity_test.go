package nodes

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

var sanitySummary = regexp.MustCompile(`(?m)^(Ran \d+ of|.*\d+ Passed.*).*$`)

// csi-sanity as a neighbour of the kubelet: it speaks to the driver's own socket, and the driver
// mounts below the directory of a pod, as it does for the kubelet.
func csiSanity(t *testing.T, s *harness.Scene) {
	program := filepath.Join(t.TempDir(), "sanity.test")
	build := exec.Command("go", "test", "-c", "-o", program, "./sanity")
	build.Dir = filepath.Join(root, "e2e")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build csi-sanity: %v\n%s", err, out)
	}
	claim, p, volume := csiWriter(s, one) // a neighbour, and a directory that the kubelet leaves alone
	before := s.Children(csiPath(one, ""))
	out, err := onNode(one, program, "-test.v", "-test.run=^TestSanity$", "-ginkgo.no-color", "-socket="+csiSocket, "-pool=local",
		"-dir=/var/lib/kubelet/pods/"+string(p.UID))
	if err != nil {
		t.Errorf("%v", err)
	}
	t.Logf("%q", sanitySummary.FindAllString(out, -1))
	if after := s.Children(csiPath(one, "")); !slices.Equal(before, after) {
		t.Errorf("the pool has %q, it had %q", after, before)
	}
	csiWrites(s, one, volume)
	end(s, p)
	s.Delete(claim)
}

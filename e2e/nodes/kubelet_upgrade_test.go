package nodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// formerKubelet is the version that TestKubeletUpgrade upgrades from: the minor version before
// cluster.DefaultVersion.
const formerKubelet = "v1.33.13"

// A node's kubelet is upgraded under a pod that writes, as Kubernetes upgrades nodes: the control
// plane has the new version already. The pod goes on with its volume, and the new kubelet unmounts
// what the old one mounted. Without -short only, as a second kubelet takes minutes to build.
func TestKubeletUpgrade(t *testing.T) {
	if v := local.ControlPlane().Version(); v != cluster.DefaultVersion {
		t.Skipf("the control plane has %s, and no kubelet may be newer", v)
	}
	former, err := cluster.BuildKubelet(t.Context(), formerKubelet, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		undeployCSI(t)
		redeploy(t)
	})
	csiAlone.deploy(t)
	s := newScene(t)
	change := func(b cluster.Binaries) error {
		ctx := context.Background() // also after the test
		return errors.Join(other.StopKubelet(), other.SetKubelet(b), other.StartKubelet(), other.AwaitReady(ctx))
	}
	t.Cleanup(func() {
		if err := change(cluster.Binaries{}); err != nil {
			t.Error(err)
		}
	})
	must(s, "the former kubelet", change(former))
	runs(s, formerKubelet)
	claim := csiClaim(s)
	p := pod{claim: claim.Name, hostname: other.Hostname,
		script: "(i=0; while echo $i >>/data/lines && sync /data/lines; do i=$((i+1)); sleep 0.1; done) & until [ -s /data/lines ]; do sleep 1; done"}.run(s)
	pv := s.Bound(claim)
	before := lines(s, pv.Name)

	must(s, "the present kubelet", change(cluster.Binaries{}))
	runs(s, local.ControlPlane().Version())
	s.Eventually("more lines", func() error {
		if now := lines(s, pv.Name); now < before+20 {
			return fmt.Errorf("%d lines, and %d before the upgrade", now, before)
		}
		return nil
	})
	now := awaitReady(s, p.Name)
	if n := now.Status.ContainerStatuses[0].RestartCount; n != 0 || now.UID != p.UID {
		t.Errorf("the pod has UID %s and %d restarts; it had %s", now.UID, n, p.UID)
	}
	awaitDriver(s, other)
	next := csiClaim(s)
	end(s, pod{claim: next.Name, hostname: other.Hostname, script: "echo new >/data/file"}.run(s))
	endSoon(s, p)
	s.Delete(claim)
	s.Gone(pv.Name)
	csiGone(s, pv.Name)
}

// runs waits until the other node's kubelet says that it has the version.
func runs(s *harness.Scene, version string) {
	s.Helper()
	s.Eventually("kubelet "+version, func() error {
		node, err := s.Client.CoreV1().Nodes().Get(s.Context(), other.Name, metav1.GetOptions{})
		if err == nil && node.Status.NodeInfo.KubeletVersion != version {
			err = fmt.Errorf("it has %s", node.Status.NodeInfo.KubeletVersion)
		}
		return err
	})
}

// lines returns how many lines the pod has written, which are the numbers from 0.
func lines(s *harness.Scene, volume string) int {
	s.Helper()
	text, err := os.ReadFile(csiPath(other, volume, "lines"))
	must(s, "read", err)
	all := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for i, line := range all {
		if line != fmt.Sprint(i) && i < len(all)-1 { // the last one may be half written
			s.Fatalf("line %d is %q", i, line)
		}
	}
	return len(all)
}

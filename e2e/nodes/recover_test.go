package nodes

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// sumOf returns the checksum of a volume's file on a node.
func sumOf(s *harness.Scene, n *cluster.Node, volume string) string {
	s.Helper()
	data, err := os.ReadFile(hostPath(n, volume, "data"))
	if err != nil {
		s.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// A cluster loses the PVs and claims of two nodes, as when etcd is restored from an older backup. One
// command of the plugin makes them again, Bound and with their policy, on the data where it is. One more
// run changes nothing, and the volumes go with their claims.
func TestRecover(t *testing.T) {
	withAgents(t)
	s := newScene(t)
	claims := map[*cluster.Node]*corev1.PersistentVolumeClaim{}
	volumes, sums := map[*cluster.Node]string{}, map[*cluster.Node]string{}
	for _, n := range []*cluster.Node{one, other} {
		claims[n] = s.Create(harness.Claim{Node: n.Name, Edit: func(c *corev1.PersistentVolumeClaim) { c.Labels = map[string]string{"app": "db"} }})
		volumes[n] = s.Bound(claims[n]).Name
		s.Write(hostPath(n, volumes[n]), "data", []byte("precious on "+n.Name))
		sums[n] = sumOf(s, n, volumes[n])
		s.Eventually("the claim recorded on the disk", func() error {
			data, err := os.ReadFile(hostPath(n, ".hostpath-provisioner", "records", volumes[n]))
			if err == nil && !strings.Contains(string(data), `"app": "db"`) {
				err = fmt.Errorf("the record is\n%s", data)
			}
			return err
		})
	}
	lost := map[*cluster.Node]types.UID{}
	for n, claim := range claims {
		lost[n] = claim.UID
		s.ForcePVAway(volumes[n]) // first, or the agent deletes both
		s.Delete(claim)
		s.ClaimGone(claim)
	}

	out, printed, code := hpp(s, "recover", "--all", "-n", s.Namespace, "--dry-run")
	if code != 0 || strings.Count(out, "made") != 2 {
		t.Errorf("the plan: code %d\n%s%s", code, out, printed)
	}
	if _, printed, code := hpp(s, "recover", "--all", "-n", s.Namespace); code == 0 || !strings.Contains(printed, "--yes") {
		t.Errorf("without a person: code %d: %s", code, printed)
	}
	out, printed, code = hpp(s, "recover", "--all", "-n", s.Namespace, "--yes")
	if code != 0 || strings.Count(out, "bound") != 2 {
		t.Fatalf("code %d\n%s%s", code, out, printed)
	}
	for n, claim := range claims {
		back := s.Read(claim)
		pv := s.PV(back.Spec.VolumeName) // its name is that of the former claim's UID
		if back.UID == lost[n] || pv.Name != volumes[n] || back.Labels["app"] != "db" || back.Annotations["kubevirt.io/provisionOnNode"] != n.Name {
			t.Errorf("claim %+v, PV %s, want %s", back.ObjectMeta, pv.Name, volumes[n])
		}
		if pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
			t.Errorf("PV %s has policy %s", pv.Name, pv.Spec.PersistentVolumeReclaimPolicy)
		}
		if sum := sumOf(s, n, volumes[n]); sum != sums[n] {
			t.Errorf("the data of %s has the sum %s, want %s", pv.Name, sum, sums[n])
		}
		claims[n] = back
	}
	before := s.PV(volumes[one]).ResourceVersion
	out, printed, code = hpp(s, "recover", "--all", "-n", s.Namespace, "--yes")
	if code != 0 || strings.Count(out, "already there") != 2 || s.PV(volumes[one]).ResourceVersion != before {
		t.Errorf("once more: code %d\n%s%s", code, out, printed)
	}
	for n, claim := range claims {
		s.Delete(claim)
		s.Gone(volumes[n])
		if err := harness.Missing(hostPath(n, volumes[n])); err != nil {
			t.Error(err)
		}
	}
}

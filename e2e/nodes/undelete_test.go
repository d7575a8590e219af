package nodes

import (
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// A claim is deleted by mistake. One command of the plugin brings its volume back, Bound and with its
// policy, on the data where it is: also for a claim of the name that a StatefulSet made meanwhile. A
// claim of the name that has a volume of its own keeps it away, and of two deleted volumes of one name
// the command asks for one.
func TestUndelete(t *testing.T) {
	withAgents(t)
	s := newScene(t)
	harness.RoomToKeep(t, cluster.DefaultStateDir()) // the nodes' pools are below it
	kept := s.Class("kept", func(c *storagev1.StorageClass) { c.Parameters = map[string]string{"trashRetention": "1h"} })
	pod, err := podOf(s, one, agentSet)
	must(s, "agent", err)
	t.Cleanup(func() {
		if _, err := kubectl("", "-n", pod.Namespace, "exec", pod.Name, "--", "/hostpath-provisioner", "trash", "remove", "--namespace="+s.Namespace); err != nil {
			t.Error(err)
		}
	})
	// made makes a claim of a name with data.
	made := func(name, data string) (claim *corev1.PersistentVolumeClaim, volume string) {
		claim = s.Create(harness.Claim{Name: name, Node: one.Name, Class: kept, Edit: func(c *corev1.PersistentVolumeClaim) { c.Labels = map[string]string{"app": "db"} }})
		volume = s.Bound(claim).Name
		s.Write(hostPath(one, volume), "data", []byte(data))
		s.Eventually("the claim recorded on the disk", func() error {
			data, err := os.ReadFile(hostPath(one, ".hostpath-provisioner", "records", volume))
			if err == nil && !strings.Contains(string(data), `"app": "db"`) {
				err = fmt.Errorf("the record is\n%s", data)
			}
			return err
		})
		return claim, volume
	}
	end := func(claim *corev1.PersistentVolumeClaim, volume string) {
		s.Delete(claim)
		s.Gone(volume)
		s.ClaimGone(claim)
	}
	claim, volume := made("orders", "precious")
	sum := sumOf(s, one, volume)
	end(claim, volume)

	out, printed, code := hpp(s, "undelete", "orders", "-n", s.Namespace, "--dry-run")
	if code != 0 || strings.Count(out, "made") != 1 {
		t.Errorf("the plan: code %d\n%s%s", code, out, printed)
	}
	if _, printed, code := hpp(s, "undelete", "orders", "-n", s.Namespace); code == 0 || !strings.Contains(printed, "--yes") {
		t.Errorf("without a person: code %d: %s", code, printed)
	}
	if _, printed, _ := hpp(s, "explain", "orders", "-n", s.Namespace); !strings.Contains(printed, "kubectl hpp undelete "+one.Name+"/") {
		t.Errorf("explain of a claim that is gone: %s", printed)
	}
	back := func(what string) *corev1.PersistentVolumeClaim {
		t.Helper()
		out, printed, code := hpp(s, "undelete", "orders", "-n", s.Namespace, "--yes")
		if code != 0 || strings.Count(out, "bound") != 1 {
			t.Fatalf("%s: code %d\n%s%s", what, code, out, printed)
		}
		now := s.Read(claim)
		if pv := s.PV(volume); now.Spec.VolumeName != volume || pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || sumOf(s, one, volume) != sum {
			t.Errorf("%s: claim %+v, PV %+v, sum %s", what, now.Spec, pv.Spec, sumOf(s, one, volume))
		}
		return now
	}
	if claim = back("its claim"); claim.Labels["app"] != "db" {
		t.Errorf("claim %+v", claim.ObjectMeta)
	}
	if _, printed, code := hpp(s, "undelete", "orders", "-n", s.Namespace, "--yes"); code == 0 || strings.Contains(printed, "failed") {
		t.Errorf("once more: code %d: %s", code, printed)
	}

	// A name made again.
	end(claim, volume)
	again, other := made("orders", "later")
	if out, printed, code := hpp(s, "undelete", volume, "-n", s.Namespace, "--yes"); code == 0 || !strings.Contains(out+printed, "has another volume, PV "+other) ||
		!strings.Contains(out+printed, "scale the workload down") {
		t.Errorf("a claim with a volume: code %d\n%s%s", code, out, printed)
	}
	end(again, other)
	if out, printed, code := hpp(s, "undelete", "orders", "-n", s.Namespace, "--yes"); code == 0 || !strings.Contains(printed, "2 deleted volumes have that name") || strings.Count(out, one.Name+"/") != 2 {
		t.Errorf("two of one name: code %d\n%s%s", code, out, printed)
	}

	// A claim of the name that waits, as a StatefulSet makes it again.
	s.Create(harness.Claim{Name: "orders", Class: kept})
	if out, printed, code := hpp(s, "undelete", volume, "-n", s.Namespace, "--yes"); code != 0 || strings.Count(out, "bound") != 1 {
		t.Fatalf("a claim that waits: code %d\n%s%s", code, out, printed)
	}
	claim = s.Read(claim)
	if claim.Spec.VolumeName != volume || sumOf(s, one, volume) != sum {
		t.Errorf("a claim that waits: %+v", claim.Spec)
	}
	end(claim, volume)
}

package nodes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// A node that registers again under its name is the same node with the same disk: no claim of a
// running pod, and no volume, is given up, although the policy is release and the grace period long
// over.
func TestNodeRegistersAgain(t *testing.T) {
	t.Cleanup(func() { operatorAway(t, "operator") })
	s := newScene(t)
	goneInstall(s)
	t.Cleanup(func() { goneBack(s) })
	claim := s.Create(harness.Claim{Class: "nodegone"})
	p := pod{claim: claim.Name, hostname: other.Hostname, script: "echo first >/data/file"}.run(s)
	pv := s.Bound(claim)
	goneRecorded(s, pv.Name)
	kept := func(what string) {
		s.Helper()
		againGraceOver(s)
		s.Once(what, func() error { return againIntact(s, claim, pv) })
	}

	for _, row := range []struct {
		name string
		then func()
	}{
		{"the agent is updated", func() { againReplaceAgent(s) }},
		{"it is not ready meanwhile", func() {
			must(s, "stop the kubelet", other.StopKubelet())
			s.Eventually("not ready", func() error { return goneNotReady(s) })
			kept("not ready")
			must(s, "start the kubelet", other.StartKubelet())
			must(s, "node", other.AwaitReady(s.Context()))
		}},
		{"its pods were ended, as by a reboot", func() {
			againReplaceAgent(s)
			endSoon(s, p)
			p = pod{claim: claim.Name, hostname: other.Hostname, script: "grep first /data/file"}.run(s)
		}},
	} {
		before := againNode(s)
		must(s, "stop the kubelet", other.StopKubelet())
		must(s, "delete the node", goneKubectl("delete", "node", other.Name))
		must(s, "start the kubelet", other.StartKubelet())
		must(s, "node", other.AwaitReady(s.Context()))
		after := againNode(s)
		if after.UID == before.UID {
			t.Fatalf("%s: the Node has its UID %s again", row.name, after.UID)
		}
		s.Eventually(row.name+": the PV names the Node that there is", func() error {
			if got := s.PV(pv.Name).Annotations["hostpath-provisioner.kubevirt.io/node-uid"]; got != string(after.UID) {
				return fmt.Errorf("it names %s, want %s", got, after.UID)
			}
			return nil
		})
		row.then()
		awaitDriver(s, other)
		kept(row.name)
	}
	endSoon(s, p)
	s.Delete(claim)
	s.Gone(pv.Name)
}

// againGraceOver waits for the grace period of a node that there never was: the operator removes its
// capacity object. One worker handles nodes in the order of their changes, and again when the grace
// period of each is over. So that of whatever the operator took for lost before is over, too.
func againGraceOver(s *harness.Scene) {
	s.Helper()
	node := "nobody-" + string(uuid.NewUUID())
	made, err := s.Client.StorageV1().CSIStorageCapacities(harness.Namespace).Create(s.Context(), &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "nobody-"}, StorageClassName: "nodegone",
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{harness.TopologyNode: node}},
	}, metav1.CreateOptions{})
	must(s, "create a capacity object", err)
	s.Eventually("capacity object of no node removed", func() error {
		_, err := s.Client.StorageV1().CSIStorageCapacities(harness.Namespace).Get(s.Context(), made.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
}

func againNode(s *harness.Scene) *corev1.Node {
	s.Helper()
	node, err := s.Client.CoreV1().Nodes().Get(s.Context(), other.Name, metav1.GetOptions{})
	must(s, "read the node", err)
	return node
}

// againReplaceAgent deletes the agent of the other node, and waits for the next one.
func againReplaceAgent(s *harness.Scene) {
	s.Helper()
	a := awaitDriver(s, other)
	must(s, "delete the agent", goneKubectl("-n", harness.Namespace, "delete", "pod", a.Name))
}

// againIntact returns nil if claim, PV and data are as they were.
func againIntact(s *harness.Scene, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) error {
	s.Helper()
	now, v := s.Read(claim), s.PV(pv.Name)
	switch {
	case now.UID != claim.UID || now.DeletionTimestamp != nil:
		return fmt.Errorf("the claim is deleted: %v", now.DeletionTimestamp)
	case v.UID != pv.UID || v.DeletionTimestamp != nil || v.Status.Phase != corev1.VolumeBound:
		return fmt.Errorf("the PV is %s, deleted: %v", v.Status.Phase, v.DeletionTimestamp)
	case v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete:
		return errors.New("its policy is changed")
	}
	text, err := os.ReadFile(hostPath(other, filepath.Join("csi", pv.Name), "file"))
	if err == nil && string(text) != "first\n" {
		err = fmt.Errorf("the file has %q", text)
	}
	return err
}

package suite

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// smallCSI is a node whose pool is a small disk, and its agent of CSI claims.
func smallCSI(s *harness.Scene, suffix string, flags ...string) *harness.Agent {
	s.Helper()
	node := s.Node(suffix)
	s.Disk("ext4", diskSize).Mount(node.Pool)
	return s.Agent(node, local(node, flags...))
}

// The scheduler is told what a node has available, and sends nothing there that does not fit.
func TestCSINoSpaceKnown(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	full, node := smallCSI(s, "01"), s.Node("02")
	roomy := s.Agent(node, local(node))
	size := half(s, full)
	s.Bound(s.Create(harness.Claim{Class: harness.ClassCSI, Selected: full.Node.Name, Size: bytes(size)}))
	s.Eventually("published", func() error {
		return firstError(
			s.CapacityIs(harness.ClassCSI, full.Node, func(b int64) bool { return b < size }),
			s.CapacityIs(harness.ClassCSI, roomy.Node, func(b int64) bool { return b > 4*size }))
	})
	for range 4 { // two nodes that look the same to the scheduler would each get some
		claim := s.Create(harness.Claim{Class: harness.ClassCSI, Size: bytes(size)})
		if got := s.Scheduled(s.Pod(claim.Name, full.Node.Hostname, roomy.Node.Hostname)); got != roomy.Node.Name {
			t.Errorf("pod on %s, want %s", got, roomy.Node.Name)
		}
		s.Bound(claim)
		if err := s.Unwarned(claim.UID); err != nil {
			t.Error(err)
		}
	}
	if got := len(s.Children(full.Pool)); got != 1 {
		t.Errorf("the full pool holds %d volumes, want 1", got)
	}
}

// Where the scheduler knows too little it chooses wrongly: the claim is given back with words, at
// the scheduler's pace, until another node has room.
func TestCSINoSpaceGivenBack(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	full, node := smallCSI(s, "01", "--publish-capacity=false"), s.Node("02")
	roomy := s.Agent(node, local(node))
	class := s.CSIClass("wrong", nil)
	overstate(s, class, full.Node)
	s.Cordon(roomy.Node, true) // the scheduler has no other choice
	size := metric(s, full, "kubevirt_hpp_pool_total_bytes") + 1

	claim := s.Create(harness.Claim{Class: class, Size: bytes(size)})
	pod := s.Pod(claim.Name, full.Node.Hostname, roomy.Node.Hostname)
	s.Eventually("refusal", func() error { return refusedForSpace(s, claim, size) })
	s.Eventually("scheduler asked again", func() error {
		if on := s.Read(claim).Annotations[harness.AnnSelectedNode]; on != "" {
			return fmt.Errorf("the claim is still for %s", on)
		}
		return nil
	})
	// The scheduler comes after one second, two, four, eight, and every ten.
	writes, said := claimWrites(s, claim, 10*time.Second), 0
	for _, e := range s.Events(claim.UID) {
		if e.Ours() && e.Type == corev1.EventTypeWarning {
			said += e.Count
		}
	}
	if writes > 30 || said > 12 {
		t.Errorf("the claim was written %d times in ten seconds and warned about %d times in all: want few", writes, said)
	}
	wantTree(s, full.Pool)
	s.Cordon(full.Node, true)
	s.Cordon(roomy.Node, false)
	if got := s.Scheduled(pod); got != roomy.Node.Name {
		t.Errorf("pod on %s, want %s", got, roomy.Node.Name)
	}
	s.Bound(claim)
	wantTree(s, roomy.Pool, harness.PVName(claim))
}

// overstate tells the scheduler that there is more on the node than any disk has.
func overstate(s *harness.Scene, class string, node harness.Node) {
	s.Helper()
	much := resource.MustParse("1Pi")
	o := &storagev1.CSIStorageCapacity{
		ObjectMeta:       metav1.ObjectMeta{GenerateName: "wrong-", Namespace: harness.Namespace},
		StorageClassName: class, Capacity: &much, MaximumVolumeSize: &much,
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{harness.TopologyNode: node.Name}},
	}
	if _, err := env.Client.StorageV1().CSIStorageCapacities(harness.Namespace).Create(s.Context(), o, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// claimWrites counts how often anybody writes the claim within the time.
func claimWrites(s *harness.Scene, claim *corev1.PersistentVolumeClaim, span time.Duration) (writes int) {
	s.Helper()
	w, err := s.Client.CoreV1().PersistentVolumeClaims(s.Namespace).Watch(s.Context(), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", claim.Name).String(), ResourceVersion: s.Read(claim).ResourceVersion,
	})
	if err != nil {
		s.Fatal(err)
	}
	defer w.Stop()
	for end := time.After(span); ; {
		select {
		case _, open := <-w.ResultChan():
			if !open {
				s.Fatal("the watch ended")
			}
			writes++
		case <-end:
			return writes
		}
	}
}

// A pool that this node lacks is no obstacle to the claim, only to this node.
func TestCSIPoolOfAnotherNode(t *testing.T) {
	t.Parallel()
	s, without := csiNode(t)
	node := s.Node("02")
	with := s.Agent(node, harness.Options{CSI: "csi", DataDir: harness.Datadir("fast", node.Pool)})
	class := s.CSIClass("fast", func(c *storagev1.StorageClass) { c.Parameters[harness.StoragePool] = "fast" })
	claim := s.Create(harness.Claim{Class: class, Selected: without.Node.Name})
	s.Eventually("refusal", func() error {
		return s.WarnedAgain(claim.UID, harness.ReasonFailed, without.Node.Name, `no pool "fast"`, `\["local"\]`) // giving it back may meet another write
	})
	s.Eventually("given back", func() error {
		if on := s.Read(claim).Annotations[harness.AnnSelectedNode]; on != "" {
			return fmt.Errorf("the claim is still for %s", on)
		}
		return nil
	})
	if got := s.Scheduled(s.Pod(claim.Name, without.Node.Hostname, with.Node.Hostname)); got != with.Node.Name {
		t.Errorf("pod on %s, want %s", got, with.Node.Name)
	}
	s.Bound(claim)
	wantTree(s, with.Pool, harness.PVName(claim))
	wantTree(s, without.Pool)
}

package suite

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// twoNodes is a scene with two nodes and their agents.
func twoNodes(t *testing.T) (s *harness.Scene, first, second *harness.Agent) {
	t.Helper()
	s = env.Scene(t)
	o := harness.Options{Flags: []string{logChecks}}
	first, second = s.Start(s.Node("01"), o), s.Start(s.Node("02"), o)
	first.AwaitReady()
	second.AwaitReady()
	return s, first, second
}

// oneNode is a scene with one node and its agent.
func oneNode(t *testing.T) (*harness.Scene, *harness.Agent) {
	t.Helper()
	s := env.Scene(t)
	return s, s.Agent(s.Node("01"), harness.Options{})
}

// wantTree checks which volumes a pool has on disk.
func wantTree(s *harness.Scene, pool string, want ...string) {
	s.Helper()
	if got := s.Children(pool); !slices.Equal(got, want) {
		s.Errorf("pool %s holds %q, want %q", pool, got, want)
	}
}

func TestImmediateWithAnnotation(t *testing.T) {
	t.Parallel()
	s, a, other := twoNodes(t)
	claim := s.Create(harness.Claim{Node: a.Node.Name, Size: "12345678"})
	pv := s.Bound(claim)

	name := harness.PVName(claim)
	wantTree(s, a.Pool, name)
	wantTree(s, other.Pool)
	path := filepath.Join(a.Pool, name)
	if info, err := os.Stat(path); err != nil || info.Mode() != os.ModeDir|0o777 {
		t.Errorf("directory: %v, %v; want mode drwxrwxrwx", info.Mode(), err)
	}
	wantMeta(s, a, pv)
	wantSpec(s, a, pv, claim)

	s.CatchUp(a) // the agent sends events some time after what they tell
	sources := map[string]bool{}
	for _, e := range s.Events(claim.UID) {
		// An agent's first claim gets the event about a pool without quotas, and not from the
		// library.
		if e.Ours() && e.Reason != "QuotaNotEnforced" {
			sources[e.From+" "+e.Host] = true
		}
	}
	if len(sources) != 1 {
		t.Errorf("events about the claim come from %v, want one agent", slices.Collect(maps.Keys(sources)))
	}
	if err := other.NeverMentions(claim.Name, string(claim.UID)); err != nil {
		t.Error(err)
	}
}

func wantMeta(s *harness.Scene, a *harness.Agent, pv *corev1.PersistentVolume) {
	s.Helper()
	wantMetaWith(s, a, pv, map[string]string{
		harness.AnnIdentity:        harness.Provisioner,
		harness.AnnProvisionOnNode: a.Node.Name,
		harness.AnnProvisionedBy:   harness.Provisioner,
		harness.AnnPool:            a.Inspect().Pool.ID,
	})
}

// wantMetaWith checks what the PVs of both shapes have, and the annotations, which differ.
func wantMetaWith(s *harness.Scene, a *harness.Agent, pv *corev1.PersistentVolume, annotations map[string]string) {
	s.Helper()
	node, err := s.Client.CoreV1().Nodes().Get(s.Context(), a.Node.Name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	system, err := s.Client.CoreV1().Namespaces().Get(s.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	annotations[harness.AnnNodeUID], annotations[harness.AnnCluster] = string(node.UID), string(system.UID)
	if !maps.Equal(pv.Annotations, annotations) {
		s.Errorf("annotations %v, want %v", pv.Annotations, annotations)
	}
	if want := map[string]string{harness.LabelNode: a.Node.Name}; !maps.Equal(pv.Labels, want) {
		s.Errorf("labels %v, want %v", pv.Labels, want)
	}
	finalizers := []string{"external-provisioner.volume.kubernetes.io/finalizer", "kubernetes.io/pv-protection"}
	if got := slices.Sorted(slices.Values(pv.Finalizers)); !slices.Equal(got, finalizers) {
		s.Errorf("finalizers %q, want %q", got, finalizers)
	}
}

func wantSpec(s *harness.Scene, a *harness.Agent, pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) {
	s.Helper()
	directory, filesystem := corev1.HostPathDirectory, corev1.PersistentVolumeFilesystem
	want := corev1.PersistentVolumeSpec{
		Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("12345678")},
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
			Path: filepath.Join(a.Pool, harness.PVName(claim)), Type: &directory,
		}},
		ClaimRef: &corev1.ObjectReference{
			Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: s.Namespace, Name: claim.Name, UID: claim.UID,
			ResourceVersion: pv.Spec.ClaimRef.ResourceVersion,
		},
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		StorageClassName:              harness.ClassImmediate,
		VolumeMode:                    &filesystem,
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{a.Node.Hostname},
			}},
		}}}},
	}
	if !equality.Semantic.DeepEqual(pv.Spec, want) {
		s.Errorf("spec of PV\n%v, want\n%v", pv.Spec, want)
	}
}

func TestImmediateWithoutAnnotation(t *testing.T) {
	t.Parallel()
	s, a, b := twoNodes(t)
	claim := s.Create(harness.Claim{})
	warned := func() error {
		return s.Warned(claim.UID, harness.ReasonFailed, "kubevirt.io/provisionOnNode", "WaitForFirstConsumer")
	}
	s.Eventually("warning", warned)
	awaitChecks(s, claim, a, b)
	s.Once("one warning", warned)
	if err := s.IsPending(claim); err != nil {
		t.Error(err)
	}
	wantTree(s, a.Pool)
	wantTree(s, b.Pool)
}

func TestAnnotationOfAbsentNode(t *testing.T) {
	t.Parallel()
	s, a, b := twoNodes(t)
	idle := s.Node("03") // has no agent
	nowhere := s.Create(harness.Claim{Node: s.Name + "-node-99"})
	unserved := s.Create(harness.Claim{Node: idle.Name})
	s.Eventually("warning", func() error {
		return s.Warned(nowhere.UID, harness.ReasonFailed, s.Name+"-node-99", "does not exist")
	})
	// Another node may serve it in the first twenty seconds. Times of objects have no fractions.
	if waited := warnedAfter(s, nowhere); waited < s.Scaled(20*time.Second)-time.Second {
		t.Errorf("the warning came %s after the claim", waited)
	}
	for _, claim := range []*corev1.PersistentVolumeClaim{nowhere, unserved} {
		awaitChecks(s, claim, a, b)
	}
	s.Once("no more warnings", func() error {
		if err := s.Unwarned(unserved.UID); err != nil {
			return err
		}
		return s.Warned(nowhere.UID, harness.ReasonFailed)
	})
	for _, c := range []*corev1.PersistentVolumeClaim{nowhere, unserved} {
		if err := s.IsPending(c); err != nil {
			t.Error(err)
		}
	}
}

// warnedAfter returns how long after the claim was created the Warning about it was recorded.
func warnedAfter(s *harness.Scene, claim *corev1.PersistentVolumeClaim) time.Duration {
	s.Helper()
	events, err := env.Client.CoreV1().Events(claim.Namespace).List(s.Context(), metav1.ListOptions{
		FieldSelector: "type=Warning,involvedObject.uid=" + string(claim.UID),
	})
	if err != nil || len(events.Items) != 1 {
		s.Fatalf("warnings %+v, %v", events, err)
	}
	return events.Items[0].FirstTimestamp.Sub(claim.CreationTimestamp.Time)
}

func TestDelayedWithPod(t *testing.T) {
	t.Parallel()
	s, first, second := twoNodes(t)
	claim := s.Create(harness.Claim{Class: harness.ClassDelayed})
	s.CatchUp(second)
	s.Holds(first, "claim without a pod", func() error { return s.IsPending(claim) })
	pod := s.Pod(claim.Name, second.Node.Hostname)
	if node := s.Scheduled(pod); node != second.Node.Name {
		t.Errorf("pod on %s, want %s", node, second.Node.Name)
	}
	s.Bound(claim)
	wantTree(s, first.Pool)
	wantTree(s, second.Pool, harness.PVName(claim))
}

// An annotation places a claim of a delayed class at once. What the library wants to see is shown
// to it alone: on the claim itself the scheduler's and the binder's annotations stay theirs.
func TestDelayedWithAnnotation(t *testing.T) {
	t.Parallel()
	s, first, second := twoNodes(t)
	claim := s.Create(harness.Claim{Class: harness.ClassDelayed, Node: second.Node.Name})
	s.Bound(claim)
	wantTree(s, first.Pool)
	wantTree(s, second.Pool, harness.PVName(claim))
	c := s.Read(claim)
	for _, key := range []string{harness.AnnSelectedNode, harness.AnnStorageProvisioner, "volume.beta.kubernetes.io/storage-provisioner"} {
		if v, ok := c.Annotations[key]; ok {
			t.Errorf("annotation %s is %q, want none", key, v)
		}
	}
	wantUnwritten(s, c)
}

// wantUnwritten checks that no agent ever wrote the claim.
func wantUnwritten(s *harness.Scene, claim *corev1.PersistentVolumeClaim) {
	s.Helper()
	for _, f := range s.Read(claim).ManagedFields {
		if f.Manager == "hostpath-provisioner" {
			s.Errorf("an agent wrote the claim: %v", f)
		}
	}
}

func TestAnotherProvisionersClaim(t *testing.T) {
	t.Parallel()
	s, a, b := twoNodes(t)
	class := s.Class("other", func(c *storagev1.StorageClass) { c.Provisioner = "example.com/other" })
	claim, unplaced := s.Create(harness.Claim{Class: class, Node: a.Node.Name}), s.Create(harness.Claim{Class: class})
	s.CatchUp(a)
	s.CatchUp(b)
	// An agent checks claims that no agent may serve at times that it draws for each, so that of a
	// later claim proves it of these only nearly.
	awaitChecks(s, s.Create(harness.Claim{}), a, b)
	s.Once("another provisioner's claims", func() error {
		for _, e := range append(s.Events(claim.UID), s.Events(unplaced.UID)...) {
			if e.Ours() {
				return fmt.Errorf("said: %+v", e)
			}
		}
		return s.IsPending(claim)
	})
	for _, agent := range []*harness.Agent{a, b} {
		if err := agent.NeverMentions(claim.Name, string(claim.UID), unplaced.Name); err != nil {
			t.Error(err)
		}
		wantTree(s, agent.Pool)
	}
}

func TestAnyOrder(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"claim class", "claim class pod", "pod claim class", "class pod claim", "pod class claim"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			s, a := oneNode(t)
			mode, node := storagev1.VolumeBindingWaitForFirstConsumer, ""
			if !strings.Contains(order, "pod") {
				mode, node = storagev1.VolumeBindingImmediate, a.Node.Name
			}
			var claim *corev1.PersistentVolumeClaim
			for i, what := range strings.Fields(order) {
				if i > 0 {
					time.Sleep(2 * time.Second)
				}
				switch what {
				case "class":
					s.Class("late", func(c *storagev1.StorageClass) { c.VolumeBindingMode = &mode })
				case "claim":
					claim = s.Create(harness.Claim{Name: "data", Class: s.ClassName("late"), Node: node})
				case "pod":
					s.Pod("data", a.Node.Hostname)
				}
			}
			s.Bound(claim)
			wantTree(s, a.Pool, harness.PVName(claim))
		})
	}
}

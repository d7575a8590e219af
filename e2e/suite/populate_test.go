package suite

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// A populated is a claim that a populator fills, as KubeVirt's importer does: r.first is the
// populator's own claim, with the same class. A pod waits for the target.
type populated struct {
	*reused
	target   *corev1.PersistentVolumeClaim
	waiting  *corev1.Pod
	importer *corev1.Pod
}

// newPopulated returns the scene in which the populator's pod writes.
func newPopulated(s *harness.Scene, a *harness.Agent, class string) *populated {
	s.Helper()
	p := &populated{reused: &reused{Scene: s, a: a}}
	p.target = s.Create(harness.Claim{Name: "disk", Class: class, Edit: func(c *corev1.PersistentVolumeClaim) {
		group := "cdi.kubevirt.io"
		c.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: &group, Kind: "VolumeImportSource", Name: "image"}
	}})
	p.waiting = s.Pod(p.target.Name, a.Node.Hostname)
	p.fill(class)
	return p
}

// fill is what a populator does until its pod writes.
func (p *populated) fill(class string) {
	p.Helper()
	p.Eventually("node chosen", func() error {
		if got := p.Read(p.target).Annotations[harness.AnnSelectedNode]; got != p.a.Node.Name {
			return fmt.Errorf("the target is for node %q", got)
		}
		return nil
	})
	p.first = p.Create(harness.Claim{Name: "prime", Class: class, Selected: p.a.Node.Name})
	p.pv = p.Bound(p.first)
	pod := harness.NewPod(p.first.Name, p.a.Node.Hostname)
	pod.Spec.NodeName = p.a.Node.Name
	made, err := p.Client.CoreV1().Pods(p.Namespace).Create(p.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		p.Fatal(err)
	}
	p.importer = made
	p.Write(p.directory(), "data", []byte("precious"))
	recorded(p.Scene, p.a.Pool, p.first)
	p.Holds(p.a, "the agent leaves the target alone", func() error {
		if children := p.Children(p.a.Pool); len(children) != 1 {
			return fmt.Errorf("directories %q", children)
		}
		return firstError(p.IsPending(p.target), p.quiet(p.target, p.first))
	})
}

// ended is what the kubelet writes once the pod of the populator has ended.
func (p *populated) ended() {
	p.Helper()
	pods := p.Client.CoreV1().Pods(p.Namespace)
	pod, err := pods.Get(p.Context(), p.importer.Name, metav1.GetOptions{})
	if err == nil {
		pod.Status.Phase = corev1.PodSucceeded
		_, err = pods.UpdateStatus(p.Context(), pod, metav1.UpdateOptions{})
	}
	if err != nil {
		p.Fatal(err)
	}
}

// finish deletes what the populator made for itself.
func (p *populated) finish() {
	p.Helper()
	p.DeletePod(p.importer)
	p.Delete(p.first)
	p.ClaimGone(p.first)
}

// rebind moves the PV to the target, and waits until Kubernetes has bound it.
func (p *populated) rebind() {
	p.Helper()
	p.PatchPV(p.pv.Name, fmt.Sprintf(`{"spec":{"claimRef":{"namespace":%q,"name":%q,"uid":%q,"resourceVersion":null}}}`,
		p.target.Namespace, p.target.Name, p.target.UID))
	p.Eventually("bound", func() error { return p.IsBound(p.target) })
}

// The volume is the target's as soon as no pod uses the populator's claim, which may still be
// there. The agent may list pods, as with manifests/examples/populators.
func TestPopulate(t *testing.T) {
	t.Parallel()
	for _, class := range []string{harness.ClassDelayed, harness.ClassCSI} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			s := env.Scene(t)
			node := s.Node("01")
			s.KnowsDriver(node)
			o := bothModes("off")
			o.DataDir = harness.Datadir(harness.LocalPool, node.Pool)
			p := newPopulated(s, s.Agent(node, o), class)
			binding := p.Queue(p.a, harness.QueuePVs)
			p.rebind()
			p.Until("the populator's pod keeps it", binding.TriedAgain, func() error {
				return firstError(p.isOf(p.first), p.quiet(p.target, p.first))
			})
			p.ended()
			p.Eventually("the target has it", func() error { return p.isOf(p.target) })
			if got := p.Scheduled(p.waiting); got != node.Name {
				t.Errorf("the pod is on node %q", got)
			}
			p.finish()
			p.Holds(p.a, "it stays", func() error { return firstError(p.isOf(p.target), p.quiet(p.target, p.first)) })
			p.DeletePod(p.waiting)
			p.Delete(p.target)
			p.goes(p.target, p.first)
		})
	}
}

// With the permissions of manifests/legacy alone the agent waits until the populator's claim is
// gone.
func TestPopulateWithoutPods(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	node := s.Node("01")
	a := s.Agent(node, harness.Options{Kubeconfig: s.PodKubeconfig(s.AgentPod(node, harness.Account))})
	p := newPopulated(s, a, harness.ClassDelayed)
	p.ended()
	binding := p.Queue(a, harness.QueuePVs)
	p.rebind()
	p.Until("the populator's claim keeps it", binding.TriedAgain, func() error {
		return firstError(p.isOf(p.first), p.quiet(p.target, p.first))
	})
	p.finish()
	p.Eventually("the target has it", func() error { return p.isOf(p.target) })
	p.DeletePod(p.waiting)
	p.Delete(p.target)
	p.goes(p.target, p.first)
}

package suite

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// immediate has the importer of KubeVirt fill a claim that no pod uses yet.
const immediate = "cdi.kubevirt.io/storage.bind.immediate.requested"

// An imported is a claim that a stand-in of KubeVirt's importer (CDI) fills, in the steps of its
// source: a claim prime of the same class, which is for the target's node if the target has one; a
// pod; a claim for scratch space, which the pod owns and which is made after it; and the PV of prime
// for the target.
type imported struct {
	*populated
	agents  map[string]*harness.Agent // by node
	scratch *corev1.PersistentVolumeClaim
}

// newImported returns the scene with two nodes, and a target that waits for its pod, or asks to be
// filled at once.
func newImported(s *harness.Scene, class string, atOnce bool) *imported {
	s.Helper()
	i := &imported{populated: &populated{reused: &reused{Scene: s}}, agents: map[string]*harness.Agent{}}
	for _, suffix := range []string{"01", "02"} {
		node := s.Node(suffix)
		s.KnowsDriver(node)
		o := bothModes("off")
		o.DataDir = harness.Datadir(harness.LocalPool, node.Pool)
		i.agents[node.Name] = s.Agent(node, o)
	}
	i.target = s.Create(harness.Claim{Name: "disk", Class: class, Edit: func(c *corev1.PersistentVolumeClaim) {
		group := "cdi.kubevirt.io"
		c.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: &group, Kind: "VolumeImportSource", Name: "image"}
		if atOnce {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, immediate, "")
		}
	}})
	if !atOnce {
		i.waiting = s.Pod(i.target.Name, i.hostnames()...)
	}
	return i
}

func (i *imported) hostnames() (all []string) {
	for _, a := range i.agents {
		all = append(all, a.Node.Hostname)
	}
	return all
}

// fills is what the importer does until its pod writes.
func (i *imported) fills(class string) {
	i.Helper()
	var node string
	if i.waiting != nil {
		i.Eventually("node chosen", func() error {
			if node = i.Read(i.target).Annotations[harness.AnnSelectedNode]; node == "" {
				return fmt.Errorf("the target has no node")
			}
			return nil
		})
	}
	i.first = i.Create(harness.Claim{Name: "prime-" + string(i.target.UID), Class: class, Selected: node, Edit: func(c *corev1.PersistentVolumeClaim) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, immediate, "")
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, "cdi.kubevirt.io/storage.populator.kind", "VolumeImportSource")
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "PersistentVolumeClaim", Name: i.target.Name, UID: i.target.UID, Controller: new(true)}}
	}})
	pod := harness.NewPod(i.first.Name, i.hostnames()...)
	scratch := i.first.Name + "-scratch"
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: scratch}}})
	made, err := i.Client.CoreV1().Pods(i.Namespace).Create(i.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		i.Fatal(err)
	}
	i.importer = made
	i.scratch = i.Create(harness.Claim{Name: scratch, Class: class, Selected: node, Edit: func(c *corev1.PersistentVolumeClaim) {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: made.Name, UID: made.UID}}
	}})
	i.pv = i.Bound(i.first)
	i.Bound(i.scratch)
	i.a = i.agents[i.Scheduled(i.importer)]
	if node != "" && i.a.Node.Name != node {
		i.Errorf("the importer is on node %s, and the target is for node %s", i.a.Node.Name, node)
	}
	i.Write(i.directory(), "data", []byte("precious"))
	i.Holds(i.a, "both volumes are on the importer's node, and the target is left alone", func() error {
		for name, a := range i.agents {
			want := 0
			if a == i.a {
				want = 2
			}
			if children := i.Children(a.Pool); len(children) != want {
				return fmt.Errorf("node %s has the directories %q", name, children)
			}
		}
		return firstError(i.IsPending(i.target), i.quiet(i.target, i.first, i.scratch))
	})
}

// An import as KubeVirt does it, with scratch space, of a disk that waits for its VM and of one that
// is filled at once: for the second the scheduler chooses the importer's node.
func TestPopulateAsCDI(t *testing.T) {
	t.Parallel()
	for _, class := range []string{harness.ClassDelayed, harness.ClassCSI} {
		for what, atOnce := range map[string]bool{"waits for its pod": false, "filled at once": true} {
			t.Run(class+" "+what, func(t *testing.T) {
				t.Parallel()
				i := newImported(env.Scene(t), class, atOnce)
				i.fills(class)
				i.ended()
				i.rebind()
				i.Eventually("the target has it", func() error { return i.isOf(i.target) })
				i.finish()
				i.ClaimGone(i.scratch) // with the pod that owns it
				i.Eventually("the scratch space is gone", func() error {
					if children := i.Children(i.a.Pool); len(children) != 1 {
						return fmt.Errorf("directories %q", children)
					}
					return nil
				})
				if i.waiting == nil {
					i.waiting = i.Pod(i.target.Name, i.hostnames()...)
				}
				if got := i.Scheduled(i.waiting); got != i.a.Node.Name {
					t.Errorf("the pod is on node %q, and the volume on %q", got, i.a.Node.Name)
				}
				i.Holds(i.a, "it stays", func() error { return firstError(i.isOf(i.target), i.quiet(i.target, i.first)) })
				i.DeletePod(i.waiting)
				i.Delete(i.target)
				i.goes(i.target, i.first, i.scratch)
			})
		}
	}
}

package suite

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// ofTemplates lists the objects of a class that are for nodes which an autoscaler may add.
func (o *operated) ofTemplates(class string) (found []storagev1.CSIStorageCapacity) {
	o.Helper()
	list, err := o.Client.StorageV1().CSIStorageCapacities(harness.Namespace).List(o.Context(),
		metav1.ListOptions{LabelSelector: "hostpath-provisioner.kubevirt.io/template-node"})
	if err != nil {
		o.Fatal(err)
	}
	for _, c := range list.Items {
		if c.StorageClassName == class {
			found = append(found, c)
		}
	}
	return found
}

// templatesAre waits until the objects of a class have those sizes.
func (o *operated) templatesAre(class string, sizes ...string) {
	o.Helper()
	o.Within(repaired, strings.Join(sizes, " ")+" published", func() error {
		got := o.ofTemplates(class)
		if len(got) != len(sizes) {
			return fmt.Errorf("%d objects", len(got))
		}
		for i, want := range sizes {
			if size := resource.MustParse(want); got[i].Capacity == nil || got[i].Capacity.Cmp(size) != 0 || got[i].MaximumVolumeSize.Cmp(size) != 0 {
				return fmt.Errorf("object %s has %v and %v, want %s", got[i].Name, got[i].Capacity, got[i].MaximumVolumeSize, want)
			}
		}
		return nil
	})
}

// templateNodes has the capacity of nodes that an autoscaler may add published, changed by others
// and by the user, used by the scheduler for such a node alone, and removed.
func templateNodes(_ *testing.T, o *operated) {
	class := o.CSIClass("template", nil)
	o.change(`{"spec":{"templateNodes":[{"name":"big","pool":"local","capacity":"100Gi","nodeSelector":{"group":"big"}}]}}`)
	o.templatesAre(class, "100Gi")
	objects, name := o.Client.StorageV1().CSIStorageCapacities(harness.Namespace), o.ofTemplates(class)[0].Name
	if err := objects.Delete(o.Context(), name, metav1.DeleteOptions{}); err != nil {
		o.Fatal(err)
	}
	o.templatesAre(class, "100Gi")
	_, err := objects.Patch(o.Context(), name, types.MergePatchType, []byte(`{"capacity":"1Pi","maximumVolumeSize":"1Pi"}`), metav1.PatchOptions{})
	if err != nil {
		o.Fatal(err)
	}
	o.templatesAre(class, "100Gi")

	o.simulate(class)

	o.change(`{"spec":{"templateNodes":[{"name":"big","pool":"local","capacity":"200Gi","nodeSelector":{"group":"huge"}}]}}`)
	o.templatesAre(class, "200Gi")
	if err := o.Client.StorageV1().StorageClasses().Delete(o.Context(), class, metav1.DeleteOptions{}); err != nil {
		o.Fatal(err)
	}
	o.templatesAre(class)
	another := o.CSIClass("template-2", nil)
	o.templatesAre(another, "200Gi")
	o.change(`{"spec":{"templateNodes":null}}`)
	o.templatesAre(another)
	o.healthy()
}

// simulate has the scheduler choose among nodes as the cluster-autoscaler's simulation does: of the
// group, of another one, and a node that exists, which has the group's label but not the
// template's.
func (o *operated) simulate(class string) {
	o.Helper()
	create := func(suffix string, labels map[string]string) *corev1.Node {
		node, err := o.Plane.CreateNode(o.Context(), o.Name+"-"+suffix, "", labels)
		if err != nil {
			o.Fatal(err)
		}
		return node
	}
	real := create("real", map[string]string{"group": "big"})
	other := create("other", map[string]string{"group": "small", harness.LabelTemplateNode: "true"})
	defer func() {
		for _, n := range []string{real.Name, other.Name, o.Name + "-fits"} {
			if err := o.Client.CoreV1().Nodes().Delete(o.Context(), n, metav1.DeleteOptions{}); err != nil {
				o.Error(err)
			}
		}
	}()
	claim := o.Create(harness.Claim{Class: class, Size: "60Gi"})
	large := o.Create(harness.Claim{Class: class, Size: "101Gi"})
	hosts := []string{real.Name, other.Name, o.Name + "-fits"}
	pod, tooLarge := o.Pod(claim.Name, hosts...), o.Pod(large.Name, hosts...)
	pods := []*corev1.Pod{pod, tooLarge}
	defer func() {
		for _, p := range pods {
			if err := o.Client.CoreV1().Pods(o.Namespace).Delete(o.Context(), p.Name, metav1.DeleteOptions{}); err != nil {
				o.Error(err)
			}
		}
		o.Delete(claim)
		o.Delete(large)
	}()
	o.Eventually("no node has space", func() error { return errors.Join(unfit(o.Scene, pod), unfit(o.Scene, tooLarge)) })
	fits := create("fits", map[string]string{"group": "big", harness.LabelTemplateNode: "true"})
	o.Eventually("template chosen", func() error {
		if on := o.Read(claim).Annotations[harness.AnnSelectedNode]; on != fits.Name {
			return fmt.Errorf("the scheduler chose %q, want %q", on, fits.Name)
		}
		return nil
	})
	again := o.Pod(large.Name, hosts...) // for which the scheduler knows the node
	pods = append(pods, again)
	o.Eventually("no node has space", func() error { return unfit(o.Scene, again) })
	o.Once("too large", func() error {
		if on := o.Read(large).Annotations[harness.AnnSelectedNode]; on != "" {
			return fmt.Errorf("the scheduler chose %q", on)
		}
		return nil
	})
}

// unfit returns nil if the scheduler found no node with enough space for the pod's claim.
func unfit(s *harness.Scene, pod *corev1.Pod) error {
	now, err := s.Client.CoreV1().Pods(s.Namespace).Get(s.Context(), pod.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range now.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, "enough free storage") {
			return nil
		}
	}
	return fmt.Errorf("pod %s on %q: %v", pod.Name, now.Spec.NodeName, now.Status.Conditions)
}

package capacity

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// findOwner learns who shall own the objects: what controls our pod, so that
// they stay while pods come and go and vanish with what brings the pods. A pod
// that nothing controls owns them itself: nobody will start it again, and what
// it promised must not outlive it. It asks once a pass.
func (p *Publisher) findOwner(ctx context.Context) error {
	if p.config.Pod == "" || p.asked {
		return nil
	}
	pod, err := p.config.Client.CoreV1().Pods(p.config.Namespace).Get(ctx, p.config.Pod, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read our own pod %s/%s, whose controller owns the capacity objects: %w",
			p.config.Namespace, p.config.Pod, err)
	}
	p.asked = true
	p.owner = &metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	if c := metav1.GetControllerOf(pod); c != nil {
		p.owner = &metav1.OwnerReference{APIVersion: c.APIVersion, Kind: c.Kind, Name: c.Name, UID: c.UID}
	}
	// Not blockOwnerDeletion: who sets it must be allowed to change the
	// owner's finalizers, where the API server looks at that.
	return nil
}

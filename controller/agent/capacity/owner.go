package capacity

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// findOwner reads the owner of the objects, once a pass: the controller of the agent's
// pod, so that they stay while pods are replaced and are deleted with the controller. A
// pod without a controller owns them itself, because it will not be started again.
func (p *Publisher) findOwner(ctx context.Context) error {
	if p.config.Pod == "" || p.ownerRead {
		return nil
	}
	pod, err := p.config.Client.CoreV1().Pods(p.config.Namespace).Get(ctx, p.config.Pod, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the agent's own pod %s/%s, whose controller owns the capacity objects: %w",
			p.config.Namespace, p.config.Pod, err)
	}
	p.ownerRead = true
	p.owner = &metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	if c := metav1.GetControllerOf(pod); c != nil {
		p.owner = &metav1.OwnerReference{APIVersion: c.APIVersion, Kind: c.Kind, Name: c.Name, UID: c.UID}
	}
	// blockOwnerDeletion stays unset: an API server with the admission plugin
	// OwnerReferencesPermissionEnforcement requires a permission to set it.
	return nil
}

package capacity

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// sweep deletes the objects that a provisioner sidecar left for this driver and node. They
// would not be updated any more, and the scheduler uses the largest of all sizes. own are
// the names of this agent's objects. Objects with the label of agents are not read, and those for
// nodes that an autoscaler may add stay.
func (p *Publisher) sweep(ctx context.Context, own map[string]bool) error {
	found, err := p.api().List(ctx, metav1.ListOptions{
		LabelSelector:   labelDriver + "=" + p.config.Driver + ",!" + contract.LabelNode,
		ResourceVersion: "0", // the API server's cache is recent enough
	})
	if err != nil {
		return fmt.Errorf("list capacity objects of sidecars: %w", err)
	}
	for i := range found.Items {
		o := &found.Items[i]
		if contract.CapacityNode(o) != p.config.Node || own[o.Name] {
			continue
		}
		if err := p.remove(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

package capacity

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/class"
)

// sweep removes what others published of this driver for this node: a
// provisioner sidecar that ran here before. Nobody would correct it any more,
// and the scheduler takes the highest number that it finds.
//
// Agents' objects are not read. Those of our own that are not due are in the
// watch.
func (p *Publisher) sweep(ctx context.Context, ours map[string]bool) error {
	found, err := p.api().List(ctx, metav1.ListOptions{
		LabelSelector:   labelDriver + "=" + p.config.Driver + ",!" + class.LabelNode,
		ResourceVersion: "0", // what the API server has in memory will do
	})
	if err != nil {
		return fmt.Errorf("look for capacity objects that others left: %w", err)
	}
	for i := range found.Items {
		o := &found.Items[i]
		if o.NodeTopology == nil || o.NodeTopology.MatchLabels[class.TopologyNode] != p.config.Node || ours[o.Name] {
			continue
		}
		if err := p.remove(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

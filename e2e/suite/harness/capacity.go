package harness

import (
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Capacities lists the capacity objects of a class for a node, of any publisher.
func (s *Scene) Capacities(class string, node Node) []storagev1.CSIStorageCapacity {
	s.Helper()
	list, err := s.Client.StorageV1().CSIStorageCapacities(Namespace).List(s.Context(), metav1.ListOptions{})
	s.must("list capacity objects", err)
	var found []storagev1.CSIStorageCapacity
	for _, o := range list.Items {
		if o.StorageClassName == class && o.NodeTopology != nil && o.NodeTopology.MatchLabels[TopologyNode] == node.Name {
			found = append(found, o)
		}
	}
	return found
}

// Capacity returns the one capacity object of a class and a node, or an error if there is none or
// several.
func (s *Scene) Capacity(class string, node Node) (*storagev1.CSIStorageCapacity, error) {
	s.Helper()
	found := s.Capacities(class, node)
	if len(found) != 1 {
		return nil, fmt.Errorf("%d capacity objects of class %s for node %s, want 1", len(found), class, node.Name)
	}
	return &found[0], nil
}

// CapacityIs returns nil if ok returns true for both sizes of the one object.
func (s *Scene) CapacityIs(class string, node Node, ok func(bytes int64) bool) error {
	s.Helper()
	o, err := s.Capacity(class, node)
	if err != nil {
		return err
	}
	if o.Capacity == nil || o.MaximumVolumeSize == nil || o.Capacity.Cmp(*o.MaximumVolumeSize) != 0 ||
		!ok(o.Capacity.Value()) {
		return fmt.Errorf("capacity object %s says %v, at most %v", o.Name, o.Capacity, o.MaximumVolumeSize)
	}
	return nil
}

package provision

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"kubevirt.io/hostpath-provisioner/controller/agent/pvs"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
)

// backend is how the claims of one provisioner are served.
type backend struct {
	volumes
	provisioner string           // its name in classes and on PVs
	dialect     contract.Dialect // the zero Dialect if it is the CSI driver
	// byHostname is set if new PVs require the node's hostname.
	byHostname bool
}

// volumes are how a backend makes volumes and PVs of them.
type volumes interface {
	// check returns nil if claim and class request what is supported. The error is for
	// the claim's user; no retry changes it.
	check(*corev1.PersistentVolumeClaim, *storagev1.StorageClass) error
	// pools returns the pools that may hold volumes of the class, none if this node
	// lacks the pool that the class names.
	pools(*storagev1.StorageClass) []*volume.Pool
	// all returns the pools that may hold volumes of any class.
	all() []*volume.Pool
	// missing describes the pool that the class names and this node lacks.
	missing(*storagev1.StorageClass) string
	// directory returns the name of the directory of a claim's new volume.
	directory(*corev1.PersistentVolumeClaim, *storagev1.StorageClass) string
	// newPV describes the PV of a volume. The library adds the claimRef.
	newPV(served) *corev1.PersistentVolume
	// givesBack reports whether a claim with that refusal goes back to the
	// scheduler, which may find another node.
	givesBack(*corev1.PersistentVolumeClaim, *storagev1.StorageClass, *refusal) bool
}

// served is a claim whose volume is made, and what its PV is made of.
type served struct {
	name   string
	claim  *corev1.PersistentVolumeClaim
	class  *storagev1.StorageClass
	pool   *volume.Pool
	volume volume.Volume
	at     contract.Place
	policy corev1.PersistentVolumeReclaimPolicy
}

// BackendsConfig says which backends a node serves.
type BackendsConfig struct {
	Node  string // the Node's name
	Pools *volume.Pools
	// Dialects are those whose claims are served. Their pools are among Pools.
	Dialects []pvs.Served
	// CSIDriver is the provisioner and driver name whose claims get CSI PVs. If it is
	// "", they are not served.
	CSIDriver string
}

// Backends are the backends that a node serves.
type Backends struct {
	node  string
	pools *volume.Pools
	all   []*backend
}

// NewBackends checks the config.
func NewBackends(c BackendsConfig) (*Backends, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	s := &Backends{node: c.Node, pools: c.Pools}
	for _, d := range c.Dialects {
		s.all = append(s.all, newHostPathBackend(d))
	}
	if c.CSIDriver != "" {
		s.all = append(s.all, newCSIBackend(c.CSIDriver, c.Pools))
	}
	return s, nil
}

func (c *BackendsConfig) validate() error {
	switch {
	case c.Node == "":
		return errors.New("the node's name is required: set NODE_NAME")
	case c.Pools == nil:
		return errors.New("the pools of the node are required")
	case len(c.Dialects) == 0 && c.CSIDriver == "":
		return errors.New("there is nothing to serve: name a pool for hostPath claims, a CSI driver, or both")
	}
	for _, d := range c.Dialects {
		if len(d.Pools) == 0 {
			return fmt.Errorf("the claims of provisioner %s have no pool", d.Provisioner)
		}
		for _, pool := range d.Pools {
			if !slices.Contains(c.Pools.All(), pool) {
				return fmt.Errorf("a pool of the claims of provisioner %s, %s, is none of the node's pools %q", d.Provisioner, pool.Path(), c.Pools.Names())
			}
		}
	}
	if why := validation.IsValidLabelValue(c.Node); c.CSIDriver != "" && len(why) > 0 {
		return fmt.Errorf("the node's name %q cannot be the value of the topology label %s, so no CSI volume could be on it: %s; "+
			"give the node a shorter name, or serve hostPath claims only", c.Node, contract.TopologyNode, why[0])
	}
	return nil
}

// Dialects returns those of the provisioners that are served, by the name of the provisioner. The
// CSI driver has the zero Dialect.
func (s *Backends) Dialects() map[string]contract.Dialect {
	all := map[string]contract.Dialect{}
	for _, b := range s.all {
		all[b.provisioner] = b.dialect
	}
	return all
}

// Refusal returns why claims of the class are never served from its pools here, ""
// if they are. A class without a pool on this node is another node's.
func (s *Backends) Refusal(sc *storagev1.StorageClass) (why string) {
	b := s.named(sc.Provisioner)
	if b == nil {
		return ""
	}
	for _, pool := range b.pools(sc) {
		if pool.NotOffered() == "" {
			return ""
		}
		why = s.notOffered(pool)
	}
	return why
}

// notOffered is the refusal of a claim whose pool is configured here, but not
// served.
func (s *Backends) notOffered(pool *volume.Pool) string {
	return fmt.Sprintf("node %s does not serve this claim from pool %s in %s: %s; or use a class with another pool",
		s.node, pool.Name(), pool.Path(), pool.NotOffered())
}

// named returns the backend of that provisioner, nil if it is not served.
func (s *Backends) named(provisioner string) *backend {
	for _, b := range s.all {
		if b.provisioner == provisioner {
			return b
		}
	}
	return nil
}

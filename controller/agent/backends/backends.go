// Package backends has what depends on the provisioner of a claim or a PV: which claims it serves,
// the PVs that it creates, and how PVs name their volumes. One type is for the dialects, whose PVs
// are hostPath or local PVs, and one for the CSI driver.
//
//	backends.go  the backends that a node serves
//	backend.go   what each of them can do
//	hostpath.go  a dialect
//	csi.go       the CSI driver
//	fit.go       what the node has for a class of the CSI driver
//
// Nothing here asks the API server, and nothing is written.
package backends

import (
	"errors"
	"fmt"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
)

// Config defines which backends a node serves.
type Config struct {
	Node  Node
	Pools *volume.Pools
	// Dialects are those whose claims are served. Their pools are among Pools.
	Dialects []Served
	// CSIDriver is the provisioner and driver name whose claims get CSI PVs; "" serves none.
	CSIDriver string
}

// Backends are the backends that a node serves.
type Backends struct {
	All   []*Backend
	node  string
	pools *volume.Pools
}

// New validates the config.
func New(c Config) (*Backends, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	s := &Backends{node: c.Node.Name(), pools: c.Pools}
	for _, d := range c.Dialects {
		s.All = append(s.All, HostPath(c.Node, d))
	}
	if c.CSIDriver != "" {
		s.All = append(s.All, CSI(c.Node, c.CSIDriver, c.Pools))
	}
	return s, nil
}

func (c *Config) validate() error {
	switch {
	case c.Node.Name() == "":
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
				return fmt.Errorf("a pool of the claims of provisioner %s, %s, is none of the node's pools %q", d.Provisioner,
					pool.Path(), c.Pools.Names())
			}
		}
	}
	if why := validation.IsValidLabelValue(c.Node.Name()); c.CSIDriver != "" && len(why) > 0 {
		return fmt.Errorf("the node's name %q cannot be the value of the topology label %s, so no CSI volume could be on "+
			"it: %s; give the node a shorter name, or serve hostPath claims only", c.Node.Name(), contract.TopologyNode, why[0])
	}
	return nil
}

// Dialects returns those of the provisioners that are served, by the name of the provisioner. The
// CSI driver has the zero Dialect.
func (s *Backends) Dialects() map[string]contract.Dialect {
	all := map[string]contract.Dialect{}
	for _, b := range s.All {
		all[b.Provisioner] = b.Dialect
	}
	return all
}

// Refusal returns why claims of the class are never served from its pools here, ""
// if they are. A class without a pool on this node is another node's.
func (s *Backends) Refusal(sc *storagev1.StorageClass) (why string) {
	b := s.Named(sc.Provisioner)
	if b == nil {
		return ""
	}
	for _, pool := range b.PoolsFor(sc) {
		if pool.NotSelected() != "" { // other nodes have it
			return ""
		}
		if pool.NotOffered() == "" {
			return ""
		}
		why = s.NotOffered(pool)
	}
	return why
}

// NotOffered returns the refusal of a claim whose pool is configured here, but not served.
func (s *Backends) NotOffered(pool *volume.Pool) string {
	return fmt.Sprintf("node %s does not serve this claim from pool %s in %s: %s; or use a class with another pool",
		s.node, pool.Name(), pool.Path(), pool.NotOffered())
}

// Named returns the backend of that provisioner, nil if it is not served.
func (s *Backends) Named(provisioner string) *Backend {
	for _, b := range s.All {
		if b.Provisioner == provisioner {
			return b
		}
	}
	return nil
}

package backends

import (
	"fmt"
	"slices"

	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/agent/claims"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// HasPool reports whether this node has a pool of the class.
func (s *Backends) HasPool(sc *storagev1.StorageClass) bool {
	b := s.Named(sc.Provisioner)
	return b != nil && slices.ContainsFunc(b.PoolsFor(sc), func(p *volume.Pool) bool { return p.NotSelected() == "" })
}

// Fit returns what this node has for claims of a class of the CSI driver that request the
// bytes. Its Lack is the message if no node publishes space for the class: none has the
// pool, or none enforces the quotas that the class requires.
func (s *Backends) Fit(sc *storagev1.StorageClass, bytes int64) claims.Fit {
	fit := claims.Fit{Pool: contract.PoolName(sc.Parameters)}
	p, err := contract.ParametersOf(sc)
	if err != nil {
		return fit // space is published for such a class, and the agent that is chosen refuses the claim
	}
	pool := s.pools.Named(fit.Pool)
	if pool == nil || pool.NotSelected() != "" {
		fit.Lack = s.noPool(sc, p.Spec.Quota == record.QuotaRequired)
		return fit
	}
	space, err := pool.Space()
	if err != nil {
		return fit // nothing is known of its filesystem
	}
	if err := pool.CheckQuota(p.Spec); err != nil {
		fit.Lack = fmt.Sprintf("no node can hold a volume in pool %s to its size, which class %q requires (parameters "+
			"%s and %s): on node %s %v; enable quotas on a node, or use a class that does not require them",
			fit.Pool, sc.Name, contract.QuotaParameter, contract.InodesParameter, s.node, err)
		return fit
	}
	fit.Fits = bytes <= space.Obtainable()
	return fit
}

// names returns the names of the pools that get new volumes on this node.
func (s *Backends) names() (names []string) {
	for _, pool := range s.pools.All() {
		if pool.NotSelected() == "" {
			names = append(names, pool.Name())
		}
	}
	return names
}

func (s *Backends) noPool(sc *storagev1.StorageClass, quotas bool) string {
	pool, why := contract.PoolName(sc.Parameters), fmt.Sprintf("which class %q names", sc.Name)
	if sc.Parameters[contract.StoragePool] == "" {
		why = fmt.Sprintf("the pool of class %q, which has no parameter %s", sc.Name, contract.StoragePool)
	}
	none := ""
	if quotas {
		none = " that enforces the quotas which the class requires"
	}
	return fmt.Sprintf("no node has a pool %q%s, %s; node %s has %q: use a class of one of these, or add the pool to a "+
		"node; a class cannot be edited: delete it and create it again with another %s",
		pool, none, why, s.node, s.names(), contract.StoragePool)
}

package agent

import (
	"context"
	"fmt"
	"slices"

	"kubevirt.io/hostpath-provisioner/controller/agent/backends"
	"kubevirt.io/hostpath-provisioner/controller/agent/onlynode"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// newOnlyNode makes the guard of a served dialect that is for clusters of one node.
func (a *Agent) newOnlyNode() {
	for _, d := range a.provision.dialects {
		if d.OnlyNode {
			a.onlyNode = onlynode.New(a.client, a.nodeName, a.recorder, a.poolChanged)
			a.holds[d.Provisioner] = a.onlyNode.Err
		}
	}
}

// readNodes reads what admit and hold need.
func (a *Agent) readNodes(ctx context.Context) error {
	if a.onlyNode == nil {
		return nil
	}
	return a.onlyNode.Read(ctx)
}

// admit returns an error if the cluster has several nodes and the agent has no volume: nothing is
// left for it to do. The agent of a node that has volumes stays, and deletes and grows them.
func (a *Agent) admit() error {
	if a.onlyNode == nil || a.onlyNode.Err() == nil {
		return nil
	}
	for _, s := range a.served() {
		if !s.OnlyNode || !a.isEmpty(s) {
			return nil
		}
	}
	return fmt.Errorf("%w; this node has no volume of that provisioner", a.onlyNode.Err())
}

// isEmpty reports whether the pools of a dialect have no volume, and no PV names one. A pool that
// is not ready may have some.
func (a *Agent) isEmpty(s backends.Served) bool {
	for _, pool := range s.Pools {
		if volumes, err := pool.List(); err != nil || len(volumes) > 0 {
			return false
		}
	}
	for _, pv := range a.pvs.All() {
		if pool, _ := a.pvs.Names(pv); slices.Contains(s.Pools, pool) {
			return false
		}
	}
	return true
}

// hold returns why new claims of a provisioner wait, nil if they do not.
func (a *Agent) hold(provisioner string) error {
	if hold := a.holds[provisioner]; hold != nil {
		return hold()
	}
	return nil
}

// served returns the dialects that the agent serves, with their pools.
func (a *Agent) served() (all []backends.Served) {
	for _, d := range a.provision.dialects {
		s := backends.Served{Dialect: d}
		if d.Provisioner == contract.LocalPathProvisioner && a.localPath.file != nil {
			s.Paths = a.pathsOf
		}
		for _, name := range a.layout.hostPath[d.Provisioner] {
			s.Pools = append(s.Pools, a.pools.Named(name))
		}
		all = append(all, s)
	}
	return all
}

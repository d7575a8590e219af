package agent

import (
	"time"

	"kubevirt.io/hostpath-provisioner/controller/agent/orphans"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
)

type orphanOptions struct {
	remove bool
	grace  time.Duration
}

func (a *agent) newOrphans() (err error) {
	if a.driverOnly() {
		return nil
	}
	a.orphans, err = orphans.New(orphans.Config{
		Client: a.client, Pools: a.pools, PVs: a.pvs, Events: a.recorder, Node: events.Node(a.nodeName),
		Delete: a.options.orphans.remove, Grace: a.options.orphans.grace, Changed: a.changed,
	})
	return err
}

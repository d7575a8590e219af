package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"kubevirt.io/hostpath-provisioner/controller/agent/orphans"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
)

// orphanOptions are the flags about volumes whose PV is gone.
type orphanOptions struct {
	what  string
	grace time.Duration
}

const (
	orphansReport = "report"
	orphansDelete = "delete"
)

func (p *orphanOptions) register(f *pflag.FlagSet) {
	f.StringVar(&p.what, "orphans", orphansReport,
		"what happens to volumes whose PV is gone: report (metric, event, inspect), or delete those whose PV had policy Delete, whose claim is gone and which nothing uses")
	f.DurationVar(&p.grace, "orphan-grace", 24*time.Hour,
		"how long such a volume stays after its PV and claim were first found gone; agents of the node must also have run for that long since")
}

// check validates the flags.
func (p *orphanOptions) check(driverOnly bool) error {
	switch {
	case p.what != orphansReport && p.what != orphansDelete:
		return fmt.Errorf("--orphans %q is neither %s nor %s", p.what, orphansReport, orphansDelete)
	case p.what == orphansDelete && driverOnly:
		return errors.New("--orphans=delete compares volumes with PVs, which the agent does not see in driver-only mode: set --provision, or leave that flag out")
	case p.grace < 0:
		return fmt.Errorf("--orphan-grace %s is negative", p.grace)
	}
	return nil
}

// newOrphans builds the checker of orphans.
func (a *agent) newOrphans() (err error) {
	if a.driverOnly() {
		return nil
	}
	a.orphans, err = orphans.New(orphans.Config{
		Client: a.client, Pools: a.pools, PVs: a.pvs, Events: a.recorder, Node: events.Node(a.nodeName),
		Delete: a.options.orphans.what == orphansDelete, Grace: a.options.orphans.grace, Changed: a.changed,
	})
	return err
}

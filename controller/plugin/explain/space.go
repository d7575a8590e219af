package explain

import (
	"cmp"
	"slices"
	"strings"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/plugin/advice"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// mountDisk is what to do about a pool that is not ready.
const mountDisk = "mount or repair its disk on the node, and create nothing in the directory meanwhile; see Disks in " +
	"docs/operations.md"

// space sets the pool and what it has available: as the agent reports it, or as it is published.
func (e *explanation) space(j *Node) {
	c := e.Class.It
	if c == nil {
		return
	}
	csi := !isDialect(c.Provisioner)
	if csi {
		j.Pool = contract.PoolName(c.Parameters)
	}
	if r, asked := e.report(j, csi); asked {
		if r == nil {
			e.noPool(j)
			return
		}
		e.measured(j, r)
	} else if csi && e.Capacities.Known() && e.Agents.Known() && !e.publishes(j) {
		return
	}
	if j.Available != nil && *j.Available < e.answer.Size {
		do := "free space on the node, or add a disk"
		if *j.Available > 0 {
			do = advice.CreateAgain(&e.Claim, "at most "+contract.Size(*j.Available)) + ", or " + do
		}
		j.lacks("space", do, "%s are requested, and %s are available in pool %s", contract.Size(e.answer.Size),
			contract.Size(*j.Available), j.Pool)
	}
}

// measured judges a pool as its agent reports it.
func (e *explanation) measured(j *Node, r *inspect.Report) {
	available := max(0, r.Space.Obtainable())
	j.Pool, j.Available = r.Pool.Name, &available
	if r.Space.NoInodes {
		j.lacks("inodes", advice.MoreInodes,
			"the filesystem of pool %s has no free inodes", j.Pool)
	}
	if r.Pool.NoQuotas != "" && e.Class.It.Parameters[contract.QuotaParameter] == record.QuotaRequired.String() {
		j.lacks("quota", "use a class without quota: required, or a filesystem with quotas: see docs/quotas.md",
			"class %s requires a quota, and pool %s enforces none: %s", e.Class.It.Name, j.Pool, r.Pool.NoQuotas)
	}
}

// publishes sets what the node publishes for the class, and reports whether that is more than that
// the pool is not ready.
func (e *explanation) publishes(j *Node) bool {
	published := e.by.published[j.Name]
	if published == nil {
		if j.Agent == "ready" {
			j.lacks("pool", "kubectl hpp pools lists the pools, if you may run commands in the agents' pods",
				"it publishes no capacity for the class: it has no pool %s, or the pool is not ready", j.Pool)
		}
		return false
	}
	bytes := contract.WholeBytes(published.Capacity)
	j.Available = &bytes
	if why := e.notReady(j.Name); bytes == 0 && why != "" {
		j.lacks("pool", mountDisk, "%s", why)
		return false
	}
	return true
}

// report returns the report of the pool that a claim of the class gets its volume in: the one that the
// class names, or that of PV_DIR. Of the paths of a local-path configuration it is the one with the
// most space. asked is false if the agent of the node was not asked, or reported nothing, or if an older
// agent, which does not name its pools, may have that pool.
func (e *explanation) report(j *Node, byName bool) (most *inspect.Report, asked bool) {
	nameless := false
	for _, p := range e.by.pools[j.Name] {
		if p.Problem != "" && len(p.Reports) == 0 {
			continue
		}
		asked = true
		may := func(r *inspect.Report) bool { return r.Pool.Name == j.Pool }
		if !byName {
			may = e.hostPathPool(p)
		}
		for i := range p.Reports {
			r := &p.Reports[i]
			if may(r) && (most == nil || r.Space.Obtainable() > most.Space.Obtainable()) {
				most = r
			}
			nameless = nameless || r.Pool.Name == ""
		}
	}
	return most, asked && (most != nil || !byName || !nameless)
}

// hostPathPool returns whether a pool of an agent is one for hostPath claims. Those that the driver
// alone uses are none.
func (e *explanation) hostPathPool(p *agents.Pools) func(*inspect.Report) bool {
	const named = "hostpath" // the agent's name for the pool in PV_DIR, unless DATADIR names that, too
	is := func(r *inspect.Report) bool { return r.Pool.Path == p.Agent.PVDir || r.Pool.Name == named }
	if contract.DialectOf(e.Class.It.Provisioner).PathParameter != "" || p.Agent.PVDir == "" &&
		!slices.ContainsFunc(p.Reports, func(r inspect.Report) bool { return is(&r) }) {
		return func(*inspect.Report) bool { return true } // its settings are not all in its pod
	}
	return is
}

// noPool adds that a node that was asked reports no pool for the class: it has none, or the pool is
// not ready.
func (e *explanation) noPool(j *Node) {
	var names []string
	for _, p := range e.by.pools[j.Name] {
		if p.Problem != "" {
			j.lacks("pool", mountDisk, "%s", cmp.Or(e.notReady(j.Name), p.Problem))
			return
		}
		for _, r := range p.Reports {
			names = append(names, r.Pool.Name)
		}
	}
	what := "it has no pool " + cmp.Or(j.Pool, "in PV_DIR")
	if len(names) > 0 {
		what += "; it has " + strings.Join(names, ", ")
	}
	j.lacks("pool", "use a class that names a pool of the node, or add the pool to DATADIR of the agents", "%s", what)
}

// notReady returns the newest event that a pool of the node is not ready, "" if there is none, or
// if a newer one is that it is ready again.
func (e *explanation) notReady(node string) string {
	for i := range e.PoolEvents.Items {
		event := &e.PoolEvents.Items[i]
		switch {
		case event.InvolvedObject.Name != node:
		case event.Reason == events.PoolReady:
			return ""
		case event.Reason == events.PoolNotReady:
			return event.Message
		}
	}
	return ""
}

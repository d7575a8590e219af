package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// layout returns what the resource asks for, with the settings of the ConfigMap, and what volumes
// use although the resource no longer names it: without its pool, a pod of such a PV does not
// start, and its directory is never removed. It decides by the operator's record, and writes that
// before anything is applied. What is no longer wanted stays in the record until no agent offers
// it: agents that are not replaced yet still create volumes there.
func (r *Reconciler) layout(ctx context.Context, cr *v1beta1.HostPathProvisioner) (layout, error) {
	l := layoutOf(cr)
	record, err := r.record(ctx)
	if err != nil {
		return l, err
	}
	l.record = record
	had := layout{pools: append(slices.Clone(record.Pools), l.movedFrom(record)...), pvDir: record.PVDir,
		prefix: record.Prefix}
	var running []layout
	if l.drops(had) {
		if running, err = r.offeredNow(ctx); err != nil { // before the volumes: until it ends, an agent creates some
			return l, err
		}
		u, err := r.recentUsage(ctx, l, had)
		if err != nil {
			return l, err
		}
		l.retain(had, u)
	}
	l.updateRecord(had, running)
	if err := record.Write(ctx, r.Client); err != nil {
		return l, err
	}
	settings, err := r.settings(ctx)
	l.tune(settings)
	return l, err
}

// record reads the operator's record. Without one it begins with what the agents' DaemonSet has,
// which may be that of an earlier version and have pools that the resource no longer names.
func (r *Reconciler) record(ctx context.Context) (*poolrecord.Record, error) {
	record, err := poolrecord.Read(ctx, r.Live, r.Namespace)
	if err != nil || record.Found {
		return record, err
	}
	ds, err := r.installed().DaemonSet(ctx)
	if err != nil || ds == nil {
		return record, err
	}
	had := offeredBy(ds.Spec.Template.Spec)
	had.pools = slices.DeleteFunc(had.pools, func(p pool) bool { return !poolrecord.IsPath(p.Path) })
	record.Pools, record.PVDir, record.Prefix = had.pools, had.pvDir, had.prefix
	return record, nil
}

// offeredNow returns what the agents' DaemonSet and the pods in its namespace offer. Users can
// change both, so this only delays.
func (r *Reconciler) offeredNow(ctx context.Context) (all []layout, err error) {
	ds, err := r.installed().DaemonSet(ctx)
	if err != nil {
		return nil, err
	}
	if ds != nil {
		all = append(all, offeredBy(ds.Spec.Template.Spec))
	}
	pods, err := r.installed().Pods(ctx)
	for _, pod := range pods {
		if !contract.PodEnded(&pod) {
			all = append(all, offeredBy(pod.Spec))
		}
	}
	return all, err
}

// updateRecord writes into the record what the layout has, and what it no longer has while an agent
// that runs offers it.
func (l *layout) updateRecord(had layout, running []layout) {
	to := l.record
	to.Pools, to.PVDir, to.Prefix = slices.Clone(l.pools), l.pvDir, l.prefix
	for _, p := range had.pools {
		offers := func(agent layout) bool {
			return slices.ContainsFunc(agent.pools, func(q pool) bool { return q.Name == p.Name })
		}
		again := slices.ContainsFunc(l.pools, func(q pool) bool { return q.Name == p.Name })
		if !slices.Contains(l.pools, p) && !again && slices.ContainsFunc(running, offers) {
			to.Pools = append(to.Pools, p)
		}
	}
	offers := func(agent layout) bool { return agent.pvDir == had.pvDir }
	if to.PVDir == "" && had.pvDir != "" && slices.ContainsFunc(running, offers) {
		to.PVDir, to.Prefix = had.pvDir, had.prefix
	}
}

// movedFrom returns the pools on claims whose disks are all still mounted where the pool was
// before. Until the first disk has moved, every volume is there: if an agent created one before it
// was replaced, the pool stays.
func (l *layout) movedFrom(record *poolrecord.Record) (from []pool) {
	for _, to := range l.pools {
		paths := map[string]bool{}
		for _, h := range record.Holders {
			if h.Pool == to.Name && h.Path != "" {
				paths[h.Path] = true
			}
		}
		if to.Mount == "" || paths[to.Path] {
			continue
		}
		for _, path := range slices.Sorted(maps.Keys(paths)) {
			if p := (pool{Name: to.Name, Path: path, Mount: path}); !slices.Contains(record.Pools, p) {
				from = append(from, p)
			}
		}
	}
	return from
}

// again returns when to check again whether what is kept for volumes can go, 0 for never.
func (l *layout) again() time.Duration {
	if len(l.retained) > 0 || l.leaving() || len(l.without) > 0 {
		return checkInterval
	}
	return 0
}

// leaving reports whether the record has more than the layout.
func (l *layout) leaving() bool {
	return l.record != nil && l.drops(layout{pools: l.record.Pools, pvDir: l.record.PVDir})
}

// offeredBy returns what the agent of the pod offers.
func offeredBy(pod corev1.PodSpec) (l layout) {
	for _, c := range pod.Containers {
		for _, v := range c.Env {
			switch {
			case v.Name == "DATADIR" && json.Unmarshal([]byte(v.Value), &l.pools) != nil:
				return layout{} // it is not the operator's, which replaces it
			case v.Name == "PV_DIR" && filepath.IsAbs(v.Value):
				l.pvDir = v.Value
			case v.Name == "USE_NAMING_PREFIX":
				l.prefix = v.Value == "true"
			}
		}
	}
	return l
}

// drops reports whether the layout lacks something of the one before.
func (l *layout) drops(had layout) bool {
	return slices.ContainsFunc(had.pools, func(p pool) bool { return !slices.Contains(l.pools, p) }) ||
		had.pvDir != "" && had.pvDir != l.pvDir
}

// usage is what volumes use: how many PVs and pods with inline volumes name each pool, and how many
// PVs are hostPath PVs.
type usage struct {
	pools, inline map[string]int
	hostPath      int
}

// of describes what uses the pool, or returns "".
func (u usage) of(pool string) string {
	var all []string
	if n := u.pools[pool]; n > 0 {
		all = append(all, events.Count(n, "PV"))
	}
	if n := u.inline[pool]; n > 0 {
		all = append(all, events.Count(n, "pod")+" with inline volumes")
	}
	return strings.Join(all, " and ")
}

func (r *Reconciler) usage(ctx context.Context) (usage, error) {
	u := usage{pools: map[string]int{}, inline: map[string]int{}}
	err := r.installed().EachProvisioned(ctx, func(pv *corev1.PersistentVolume) {
		if pv.Spec.CSI == nil {
			u.hostPath++
			return
		}
		u.pools[contract.PoolName(pv.Spec.CSI.VolumeAttributes)]++
	})
	if err != nil {
		return u, err
	}
	return u, r.installed().EachInline(ctx, func(_ *corev1.Pod, pools []string) {
		for _, pool := range pools {
			u.inline[pool]++
		}
	})
}

// retain adds what volumes use. It leaves a pool of the resource with that name or path out
// meanwhile: the agent refuses two names for one directory.
func (l *layout) retain(had layout, u usage) {
	for _, p := range had.pools {
		users := u.of(p.Name)
		if users == "" || slices.Contains(l.pools, p) {
			continue
		}
		text := fmt.Sprintf("pool %s stays at %s, in use by %s; delete them first", p.Name, filepath.Dir(p.Path), users)
		l.pools = slices.DeleteFunc(l.pools, func(q pool) bool {
			instead := q.Name != p.Name && q.Path == p.Path
			if instead {
				text += fmt.Sprintf("; pool %s, which has the same path, is offered then", q.Name)
			}
			return instead || q.Name == p.Name
		})
		l.pools = append(l.pools, p)
		l.retained = append(l.retained, text)
	}
	if had.pvDir != "" && had.pvDir != l.pvDir && u.hostPath > 0 {
		l.pvDir, l.prefix = had.pvDir, had.prefix
		l.retained = append(l.retained, fmt.Sprintf("hostPath volumes stay in %s, in use by %s; delete them first", had.pvDir,
			events.Count(u.hostPath, "PV")))
	}
	slices.SortFunc(l.pools, func(a, b pool) int { return strings.Compare(a.Name, b.Name) })
}

// countedUsage is what PVs used at a time.
type countedUsage struct {
	usage usage
	at    time.Time
}

// recentUsage returns what PVs use. It counts again if the last count is older than checkInterval,
// or had no PV of something that the layout lacks: an older count may keep a pool for a moment
// longer, and never ends one. Every pod that changes begins a pass.
func (r *Reconciler) recentUsage(ctx context.Context, l, had layout) (usage, error) {
	if age := r.Now().Sub(r.counted.at); age >= 0 && age < checkInterval && r.counted.usage.keeps(l, had) {
		return r.counted.usage, nil
	}
	u, err := r.usage(ctx)
	if err == nil {
		r.counted = countedUsage{u, r.Now()}
	}
	return u, err
}

// keeps reports whether PVs use all that the layout lacks of the one before.
func (u usage) keeps(l, had layout) bool {
	free := func(p pool) bool { return !slices.Contains(l.pools, p) && u.pools[p.Name] == 0 }
	return !slices.ContainsFunc(had.pools, free) && (had.pvDir == "" || had.pvDir == l.pvDir || u.hostPath > 0)
}

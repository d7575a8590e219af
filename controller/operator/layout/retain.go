package layout

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// Reader reads layouts, and counts what volumes use.
type Reader struct {
	Now func() time.Time
	// Interval is for how long a count of what volumes use is not repeated.
	Interval time.Duration

	counted countedUsage
}

// Read returns what the resource asks for, with the settings of the ConfigMap, and what volumes use
// although the resource no longer names it: without its pool, a pod of such a PV does not start, and
// its directory is never removed. It decides by the operator's record, which the caller saves before
// anything is applied. What is no longer wanted stays in the record until no agent offers it: agents
// that are not replaced yet still create volumes there.
func (r *Reader) Read(ctx context.Context, from installed.Reader,
	cr *v1beta1.HostPathProvisioner) (Layout, error) {
	l := Of(cr)
	record, err := readRecord(ctx, from)
	if err != nil {
		return l, err
	}
	l.Record = record
	had := record.Offer
	had.Pools = append(slices.Clone(record.Pools), l.movedFrom(record)...)
	var agents []running
	mounted := l.mounted(record)
	if l.Lacks(had) || len(mounted) > 0 {
		if agents, err = offeredNow(ctx, from); err != nil { // before the volumes: until it ends, an agent creates some
			return l, err
		}
		u, err := r.recentUsage(ctx, from, l.Offer, had)
		if err != nil {
			return l, err
		}
		// One of an earlier version, or whose volumes came after the count: its disk stays for them, and the
		// pool that is to be there would wait for them for ever.
		there := had
		there.Pools = slices.Concat(had.Pools, mounted)
		l.retain(there, u)
		l.wait(had, agents)
	}
	l.updateRecord(had, agents)
	settings, err := Settings(ctx, from)
	if err == nil {
		l.Tune(settings)
	}
	return l, err
}

// Save writes the operator's record.
func (l *Layout) Save(ctx context.Context, to client.Client) error { return l.Record.Write(ctx, to) }

// readRecord reads the operator's record. Without one it begins with what the agents' DaemonSet has,
// which may be that of an earlier version and have pools that the resource no longer names.
func readRecord(ctx context.Context, from installed.Reader) (*poolrecord.Record, error) {
	record, err := poolrecord.Read(ctx, from.Live, from.Namespace)
	if err != nil || record.Found {
		return record, err
	}
	ds, err := from.DaemonSet(ctx)
	if err != nil || ds == nil {
		return record, err
	}
	had := poolrecord.OfferOf(ds.Spec.Template.Spec)
	if had.Unreadable {
		return nil, fmt.Errorf("DaemonSet %s has settings that cannot be read, and the operator has no record of pools yet: "+
			"correct its variable DATADIR, or, if the resource names all pools with volumes, delete the DaemonSet", ds.Name)
	}
	record.Offer = had.Offer
	record.Pools = slices.DeleteFunc(record.Pools, func(p poolrecord.Pool) bool { return !poolrecord.IsPath(p.Path) })
	return record, nil
}

// updateRecord writes into the record what the layout has, and what it no longer has while an agent
// that runs offers it.
func (l *Layout) updateRecord(had poolrecord.Offer, agents []running) {
	to := l.Record
	to.Offer = l.Offer
	to.Pools = slices.Clone(l.Pools)
	for _, p := range had.Pools {
		offers := func(agent running) bool { return agent.may(p) }
		again := slices.ContainsFunc(l.Pools, func(q poolrecord.Pool) bool { return q.Name == p.Name })
		if !slices.Contains(l.Pools, p) && !again && slices.ContainsFunc(agents, offers) {
			to.Pools = append(to.Pools, p)
			to.Detail(p.Name, had.Details[p.Name])
		}
	}
	offers := func(agent running) bool { return agent.Unreadable || agent.PVDir == had.PVDir }
	if to.PVDir == "" && had.PVDir != "" && slices.ContainsFunc(agents, offers) {
		to.PVDir, to.Prefix = had.PVDir, had.Prefix
	}
}

// movedFrom returns the pools on claims whose disks are all still mounted where the pool was
// before. Until the first disk has moved, every volume is there: if an agent created one before it
// was replaced, the pool stays.
func (l *Layout) movedFrom(record *poolrecord.Record) (from []poolrecord.Pool) {
	for _, to := range l.Pools {
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
			if p := (poolrecord.Pool{Name: to.Name, Path: path, Mount: path}); !slices.Contains(record.Pools, p) {
				from = append(from, p)
			}
		}
	}
	return from
}

// Leaving reports whether the record has more than the layout.
func (l *Layout) Leaving() bool {
	return l.Record != nil && l.Lacks(l.Record.Offer)
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

func countUsage(ctx context.Context, from installed.Reader) (usage, error) {
	u := usage{pools: map[string]int{}, inline: map[string]int{}}
	err := from.EachProvisioned(ctx, func(pv *corev1.PersistentVolume) {
		if pv.Spec.CSI == nil {
			u.hostPath++
			return
		}
		u.pools[contract.PoolName(pv.Spec.CSI.VolumeAttributes)]++
	})
	if err != nil {
		return u, err
	}
	return u, from.EachInline(ctx, func(_ *corev1.Pod, pools []string) {
		for _, pool := range pools {
			u.inline[pool]++
		}
	})
}

// retain adds what volumes use. It leaves a pool of the resource with that name or path out
// meanwhile: the agent refuses two names for one directory.
func (l *Layout) retain(had poolrecord.Offer, u usage) {
	for _, p := range had.Pools {
		users := u.of(p.Name)
		if users == "" || slices.Contains(l.Pools, p) {
			continue
		}
		text := fmt.Sprintf("pool %s stays at %s, in use by %s; delete them first", p.Name, filepath.Dir(p.Path), users)
		l.Pools = slices.DeleteFunc(l.Pools, func(q poolrecord.Pool) bool {
			instead := q.Name != p.Name && q.Path == p.Path
			if instead {
				text += fmt.Sprintf("; pool %s, which has the same path, is offered then", q.Name)
			}
			return instead || q.Name == p.Name
		})
		l.Pools = append(l.Pools, p)
		l.Detail(p.Name, had.Details[p.Name])
		l.Retained = append(l.Retained, text)
	}
	if had.PVDir != "" && had.PVDir != l.PVDir && u.hostPath > 0 {
		l.PVDir, l.Prefix = had.PVDir, had.Prefix
		l.Retained = append(l.Retained, fmt.Sprintf("hostPath volumes stay in %s, in use by %s; delete them first", had.PVDir,
			events.Count(u.hostPath, "PV")))
	}
	slices.SortFunc(l.Pools, func(a, b poolrecord.Pool) int { return strings.Compare(a.Name, b.Name) })
}

// countedUsage is what PVs used at a time.
type countedUsage struct {
	usage usage
	at    time.Time
}

// recentUsage returns what PVs use. It counts again if the last count is older than the interval,
// or had no PV of something that the layout lacks: an older count may keep a pool for a moment
// longer, and never ends one. Every pod that changes begins a pass.
func (r *Reader) recentUsage(ctx context.Context, from installed.Reader, l, had poolrecord.Offer) (usage, error) {
	if age := r.Now().Sub(r.counted.at); age >= 0 && age < r.Interval && r.counted.usage.keeps(l, had) {
		return r.counted.usage, nil
	}
	u, err := countUsage(ctx, from)
	if err == nil {
		r.counted = countedUsage{u, r.Now()}
	}
	return u, err
}

// keeps reports whether PVs use all that the layout lacks of the one before.
func (u usage) keeps(l, had poolrecord.Offer) bool {
	free := func(p poolrecord.Pool) bool { return !slices.Contains(l.Pools, p) && u.pools[p.Name] == 0 }
	return !slices.ContainsFunc(had.Pools, free) && (had.PVDir == "" || had.PVDir == l.PVDir || u.hostPath > 0)
}

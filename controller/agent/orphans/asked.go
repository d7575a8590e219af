package orphans

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Named names a volume by its record, as the caller read it on the disk. A name alone could mean a
// later volume. Only a process that can read the pool's private directory knows all of it.
type Named struct {
	Pool    string    `json:"pool"` // the UUID
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	Trash   string    `json:"trash"`
}

// Orphan describes a volume whose PV is gone.
type Orphan struct {
	Pool          string    `json:"pool"` // the path
	PoolUUID      string    `json:"poolUUID"`
	Name          string    `json:"name"`
	Bytes         int64     `json:"bytes"`
	PV            string    `json:"pv,omitempty"`
	Claim         string    `json:"claim,omitempty"` // namespace/name
	ReclaimPolicy string    `json:"reclaimPolicy,omitempty"`
	Since         time.Time `json:"since"`
	Why           string    `json:"why"`
	// Kept is the error with which Remove would keep it; "" if it would remove it.
	Kept string `json:"kept,omitempty"`
}

type request struct {
	ctx    context.Context //nolint:containedctx // a request carries that of its caller
	volume Named
	done   chan error // has room for the answer, so that Run never waits for a caller that left
}

// Remove removes an orphan at once, without a grace period and whatever Config.Delete is: an
// administrator named it. All other conditions are those of --orphans=delete, and are read from the
// API server. Run does it, between two of its checks.
//
// The error is the condition that is not met, an ErrNotFound if the record does not exist or is
// another volume's, an ErrNotReady if pool or API server do not answer or Run does not get to it
// before the context ends. With an ErrNotReady after that, the removal may be done in part, and a
// second call continues it. A caller whose context has ended starts no removal.
func (o *Checker) Remove(ctx context.Context, n Named) error {
	r := request{ctx, n, make(chan error, 1)}
	select {
	case o.asked <- r:
	case <-ctx.Done():
		return fmt.Errorf("%w: the agent has not started, or checks for orphans now; try again", volume.ErrNotReady)
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: the agent has not finished; try again, and see its log", volume.ErrNotReady)
	}
}

// removeNamed carries out a request. Only Run calls it. If the caller left, the first read from the
// API server fails.
func (o *Checker) removeNamed(ctx context.Context, n Named) error {
	pool, r, err := n.In(o.Pools)
	if err != nil {
		return err
	}
	o.noteUnseen(ctx)
	// The note may be older than a PV that came back, or not be written yet.
	if r, err = o.checkOne(ctx, pool, r); err != nil {
		return err
	}
	if err := o.removeOne(ctx, pool, r, 0); err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Removed an orphan that an administrator named", "pool", pool.Name(), "volume", r.Name,
		"PV", r.PV, "owner", r.Owner, "bytes", r.Bytes)
	delete(o.timers, place{pool, r.Name})
	o.Events.Eventf(o.Node, corev1.EventTypeNormal, events.OrphansRemoved,
		"pool %s in %s: removed %s, which an administrator named; its PV and claim are gone: %s",
		pool.Name(), pool.Path(), r.Name, cmp.Or(r.Owner.String(), "no claim"))
	o.Changed(pool)
	return nil
}

// In returns the volume that the caller read. The error is an ErrNotFound if the pools have no such
// volume, or another one of its name, an ErrNotReady if the pool is not offered.
func (n Named) In(pools *volume.Pools) (*volume.Pool, record.Record, error) {
	for _, pool := range pools.All() {
		if pool.ID() != n.Pool || n.Pool == "" {
			continue
		}
		r, ok := pool.Cached(n.Name)
		switch {
		case pool.NotOffered() != "":
			return nil, r, fmt.Errorf("%w: %s: %s", volume.ErrNotReady, pool.Path(), pool.NotOffered())
		case !ok, !r.Same(record.Record{Created: n.Created, Trash: n.Trash}):
			return nil, r, fmt.Errorf("%w: pool %s has no such volume %q now", volume.ErrNotFound, pool.Path(), n.Name)
		}
		return pool, r, nil
	}
	return nil, record.Record{}, fmt.Errorf("%w: the agent has no pool %q", volume.ErrNotFound, n.Pool)
}

// checkOne checks one volume, and returns its record with the note as of now.
func (o *Checker) checkOne(ctx context.Context, pool *volume.Pool, r record.Record) (record.Record, error) {
	pvs := o.localPVs()
	if r.InTrash() {
		noted, err := o.updateSetAside(ctx, pool, r, pvs)
		if err == nil && noted.Name == "" {
			err = kept("a PV names it, or it is being brought back")
		}
		return noted, err
	}
	v, err := pool.Get(r.Name)
	if err != nil {
		return r, err
	}
	return o.update(ctx, pool, v, pvs)
}

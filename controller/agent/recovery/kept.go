package recovery

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	clientrecord "k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/agent/orphans"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/controller/kube/recovery"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Undeleter lists the deleted volumes of a node that its pools keep, brings one back, and removes some
// before their time.
type Undeleter struct {
	*Planner
	Events clientrecord.EventRecorder
	Node   *corev1.ObjectReference
	// Changed is called after a volume came back, or was removed.
	Changed func(*volume.Pool)
}

// List returns what all pools keep. It omits pools that are not offered.
func (k *Undeleter) List(context.Context) ([]recovery.Kept, error) {
	all := []recovery.Kept{}
	for _, pool := range k.Pools.All() {
		if pool.NotOffered() != "" {
			continue
		}
		for _, e := range pool.Kept() {
			r := e.Record
			all = append(all, recovery.Kept{Pool: pool.Path(), PoolUUID: pool.ID(), ID: e.ID, Name: r.Name, PV: r.PV,
				Namespace: r.Owner.Namespace, Claim: r.Owner.Name, Bytes: r.Bytes, Created: r.Created, Deleted: e.Since,
				Until: time.Now().Add(max(0, e.For-e.Age)).UTC().Truncate(time.Second), NotOffered: e.Why})
		}
	}
	return all, nil
}

// Plan returns what becomes of a volume that is undeleted: the objects that it would get, and what is
// in the way. It changes nothing. Its errors are those of Volume.
func (k *Undeleter) Plan(ctx context.Context, r Request) (recovery.Volume, error) {
	pool, e, err := k.find(r.Named)
	if err != nil {
		return recovery.Volume{}, err
	}
	v := k.describe(pool, e)
	here, err := live.Cluster(ctx, k.Client)
	if err != nil {
		return v, err
	}
	back := e.Record // as it is once it is back
	back.State = record.Bound
	return k.decide(ctx, pool, back, r, v, here)
}

func (k *Undeleter) describe(pool *volume.Pool, e volume.Kept) recovery.Volume {
	v := describe(pool, e.Record)
	v.Kept, v.Problem = e.ID, e.Why
	return v
}

// Undelete brings a volume back to its place, with policy Retain and without PV and claim: that is for
// the caller's user. It returns the volume's name.
//
// The error is an ErrNotFound if no pool keeps the volume that the caller read, an ErrNotReady if the
// pool or the API server does not answer, and another one, such as a name in use, if the volume cannot
// come back now.
func (k *Undeleter) Undelete(ctx context.Context, r Request) (Undeleted, error) {
	pool, e, err := k.find(r.Named)
	if err != nil {
		return Undeleted{}, err
	}
	if err := k.mayReturn(ctx, k.describe(pool, e), r.Options); err != nil {
		return Undeleted{}, err
	}
	back, err := k.Pools.Undelete(pool, e.ID)
	if err != nil {
		return Undeleted{}, err
	}
	klog.FromContext(ctx).Info("Undeleted a volume that an administrator named", "pool", pool.Name(), "volume", back.Name,
		"id", e.ID, "PV", back.PV, "owner", back.Owner, "bytes", back.Bytes)
	k.Events.Eventf(k.Node, corev1.EventTypeNormal, events.VolumeUndeleted,
		"pool %s in %s: volume %s is back, which an administrator named; it was that of %s", pool.Name(), pool.Path(),
		back.Name, back.Owner)
	k.Changed(pool)
	return Undeleted{Name: back.Name, Pool: pool.Path(), Policy: e.Record.ReclaimPolicy}, nil
}

// Undeleted is a volume that is back in its place.
type Undeleted struct {
	Name string `json:"name"`
	Pool string `json:"pool"`
	// Policy is the reclaim policy that its PV had.
	Policy string `json:"policy"`
}

// mayReturn returns why a volume must not come back, by its cluster and by the PV of its name. The claim
// is for the one who makes PV and claim again.
func (k *Undeleter) mayReturn(ctx context.Context, v recovery.Volume, o recovery.Options) error {
	if v.Problem != "" {
		return refused(v.Problem)
	}
	here, err := live.Cluster(ctx, k.Client)
	if err != nil {
		return err
	}
	facts := recovery.Facts{Here: here, Driver: k.Driver}
	if facts.PV, err = live.PV(ctx, k.Client, v.PVName); err != nil {
		return err
	}
	if why := recovery.KeepsAway(v, facts); why != "" {
		return refused(why)
	}
	if why := recovery.OfCluster(v, facts, o); why != "" {
		return refused(why)
	}
	return nil
}

// refused is why a volume does not come back.
type refused string

func (r refused) Error() string { return string(r) }

// Remove has volumes removed before their time. Their files go as those of any deleted volume do. The
// error is an ErrNotFound if a pool does not keep one of them; the others are removed.
func (k *Undeleter) Remove(ctx context.Context, n orphans.Named) error {
	pool, e, err := k.find(n)
	if err != nil {
		return err
	}
	if err := pool.DropKept(e.ID); err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Removed a deleted volume before its time, which an administrator named",
		"pool", pool.Name(), "volume", e.Record.Name, "id", e.ID, "owner", e.Record.Owner, "bytes", e.Record.Bytes)
	k.Changed(pool)
	return nil
}

// find returns the volume that the caller read on the disk. Its ID is that of its name in the trash.
func (k *Undeleter) find(n orphans.Named) (*volume.Pool, volume.Kept, error) {
	for _, pool := range k.Pools.All() {
		if pool.ID() != n.Pool || n.Pool == "" {
			continue
		}
		if why := pool.NotOffered(); why != "" {
			return nil, volume.Kept{}, fmt.Errorf("%w: %s: %s", volume.ErrNotReady, pool.Path(), why)
		}
		for _, e := range pool.Kept() {
			if e.ID == n.Trash && n.Trash != "" && e.Record.Name == n.Name && e.Record.Created.Equal(n.Created) {
				return pool, e, nil
			}
		}
		return nil, volume.Kept{}, fmt.Errorf("%w: pool %s does not keep %q now: it may be back, or removed",
			volume.ErrNotFound, pool.Path(), n.Trash)
	}
	return nil, volume.Kept{}, fmt.Errorf("%w: the agent has no pool %q", volume.ErrNotFound, n.Pool)
}

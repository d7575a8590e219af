package orphans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// removable returns why an orphan may not be removed, by its record alone, or "". The
// caller must also read from the API server of the cluster whether a PV or a claim
// needs the volume, and whether the volume was seen, see unseen.
func removable(r record.Record, cluster string, grace time.Duration, now time.Time) (why string) {
	switch {
	case r.Orphan.Why == "":
		return "it is not an orphan"
	case r.State != record.Bound:
		return "its PV was never seen, so its reclaim policy is not known"
	case r.Ephemeral:
		return "it is an ephemeral inline volume"
	case r.Migrating() != nil:
		return "its PV is being replaced"
	case r.Adopted:
		return "its directory was adopted"
	case r.ReclaimPolicy != string(corev1.PersistentVolumeReclaimDelete):
		return fmt.Sprintf("the last reclaim policy was %q, not Delete", r.ReclaimPolicy)
	case r.Cluster == "" || r.Cluster != cluster:
		return fmt.Sprintf("it was created for the cluster %q, and this one is %q", r.Cluster, cluster)
	case r.Owner.Namespace == "" || r.Owner.Name == "" || r.Owner.UID == "":
		return "its claim is not known, so the agent cannot check that it is gone"
	case grace > 0 && now.Sub(r.Orphan.Since) < grace:
		return fmt.Sprintf("it is an orphan since %s, less than the grace period of %s", r.Orphan.Since.Format(time.RFC3339),
			grace)
	case r.Orphan.Watched() < grace: // the system's clock may have jumped
		return fmt.Sprintf("agents have run for %s since it was found to be an orphan, less than the grace period of %s",
			r.Orphan.Watched(), grace)
	}
	return ""
}

// unseen returns why a volume is kept whose PV went while no agent looked, or "". A volume without
// its directory, which another provisioner removed with the PV, has nothing to keep.
func unseen(v volume.Volume) string {
	if !v.Orphan.Unseen || v.Missing && !v.InTrash() {
		return ""
	}
	return "its PV went while the pool was not open or no agent saw it, so its last reclaim policy is not known"
}

// kept is the reason why an orphan was not removed.
type kept string

func (k kept) Error() string { return string(k) }

// remove moves the orphans that may be removed to the trash, and deletes them from
// the findings. It returns the pause until the next grace period ends.
func (o *Checker) remove(ctx context.Context, pool *volume.Pool, f *findings) (next time.Duration) {
	log, next := klog.FromContext(ctx), checkEvery
	var left []record.Record
	var gone []string
	for _, r := range f.volumes {
		err := o.removeOne(ctx, pool, r, o.Grace)
		var why kept
		switch {
		case err == nil:
			log.Info("Removed an orphan", "volume", r.Name, "PV", r.PV, "owner", r.Owner, "since", r.Orphan.Since, "bytes",
				r.Bytes)
			gone = append(gone, r.Name)
			delete(o.timers, place{pool, r.Name})
			continue
		case errors.As(err, &why):
			log.V(1).Info("An orphan is kept", "volume", r.Name, "why", why)
		case ctx.Err() == nil:
			log.Error(err, "Cannot remove an orphan; trying again", "volume", r.Name)
			next = min(next, checkRetry)
		}
		if left := o.remaining(place{pool, r.Name}, r); left > 0 {
			next = min(next, left+time.Second, saveEvery)
		}
		left = append(left, r)
	}
	if f.volumes = left; len(gone) > 0 {
		o.Events.Eventf(o.Node, corev1.EventTypeNormal, events.OrphansRemoved,
			"pool %s in %s: removed %s, whose PVs and claims have been gone for %s or longer: %s",
			pool.Name(), pool.Path(), events.Count(len(gone), "volume"), o.Grace, events.FirstNames(gone))
		o.Changed(pool)
	}
	return next
}

// removeOne removes an orphan, or returns why it is kept. It reads the API server itself, and
// compares the record again under the volume's lock: the agent may have seen a PV.
func (o *Checker) removeOne(ctx context.Context, pool *volume.Pool, r record.Record, grace time.Duration) error {
	cluster, err := o.decide(ctx, pool, r, grace, asked{
		cluster: func(ctx context.Context) (string, error) { return live.Cluster(ctx, o.Client) }, naming: o.anyPV})
	if err != nil {
		return err
	}
	return pool.DeleteIf(r.Name, still(cluster, grace))
}

// still compares the volume under its lock with what was decided about it in a cluster.
func still(cluster string, grace time.Duration) func(volume.Volume) error {
	return func(now volume.Volume) error {
		if why := cmp.Or(removable(now.Record, cluster, grace, time.Now()), unseen(now)); why != "" {
			return kept(why)
		}
		return nil
	}
}

// asked is what decide asks the API server beside the claim.
type asked struct {
	cluster func(context.Context) (string, error)
	// naming returns the name of a PV that may name the volume, or "".
	naming func(context.Context, record.Record) (string, error)
}

// decide returns an error if an orphan is kept, or if that is not known, and otherwise the cluster in which
// nothing needs it.
func (o *Checker) decide(ctx context.Context, pool *volume.Pool, r record.Record, grace time.Duration,
	ask asked) (cluster string, err error) {
	if o.unnoted(place{pool, r.Name}) {
		return "", kept("how its PV went is not written to its record yet")
	}
	if why := removable(r, r.Cluster, grace, time.Now()); why != "" {
		return "", kept(why) // without a request, whatever the cluster is
	}
	if r.Orphan.Unseen {
		v := volume.Volume{Record: r}
		if !r.InTrash() {
			if v, err = pool.Get(r.Name); err != nil {
				return "", err
			}
		}
		if why := unseen(v); why != "" {
			return "", kept(why)
		}
	}
	switch cluster, err = ask.cluster(ctx); {
	case err != nil:
		return "", err
	case cluster == "":
		return "", kept("the cluster's identity is unknown; let the agent read the namespace kube-system")
	}
	if why := removable(r, cluster, grace, time.Now()); why != "" {
		return "", kept(why)
	}
	if wanted, err := o.claimed(ctx, r); err != nil {
		return "", err
	} else if wanted {
		return "", kept("its claim exists")
	}
	if pv, err := ask.naming(ctx, r); err != nil {
		return "", err
	} else if pv != "" {
		return "", kept("PV " + pv + " names it")
	}
	return cluster, nil
}

// anyPV reads all PVs of the cluster, and returns the name of one that may name the
// volume, of any backend, driver and node, or "".
func (o *Checker) anyPV(ctx context.Context, r record.Record) (name string, err error) {
	err = live.EachPV(ctx, o.Client, func(pv *corev1.PersistentVolume) bool {
		if mayName(pv, r) {
			name = pv.Name
		}
		return name == ""
	})
	return name, err
}

func mayName(pv *corev1.PersistentVolume, r record.Record) bool {
	return pv.Name == r.PV || namesDirectory(pv, r.Name)
}

// namesDirectory reports whether a PV could name the directory, in any pool.
func namesDirectory(pv *corev1.PersistentVolume, name string) bool {
	return contract.Contains(contract.DirectoryOf(pv), name) || pv.Spec.CSI != nil && pv.Spec.CSI.VolumeHandle == name
}

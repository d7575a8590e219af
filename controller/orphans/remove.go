package orphans

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/controller/live"
	"kubevirt.io/hostpath-provisioner/volume"
)

// removable returns "" where the record alone lets an orphan go, and otherwise
// why it stays. cluster is the one that was asked, now the time. Whether a PV or
// a claim still wants the volume is for the API server to say.
func removable(r volume.Record, cluster string, grace time.Duration, now time.Time) (why string) {
	switch {
	case r.Orphan.Why == "":
		return "it is no orphan"
	case r.State != volume.Bound:
		return "its PV was never seen, so nobody said that it may go"
	case r.Ephemeral:
		return "it is a pod's own volume"
	case r.Held() != nil:
		return "its PV is being replaced"
	case r.Adopted:
		return "its directory was there before this provisioner"
	case r.ReclaimPolicy != string(corev1.PersistentVolumeReclaimDelete):
		return fmt.Sprintf("the reclaim policy last seen is %q, not Delete", r.ReclaimPolicy)
	case r.Cluster == "" || r.Cluster != cluster:
		return fmt.Sprintf("it was made for the cluster %q, and this one is %q", r.Cluster, cluster)
	case r.Owner.Namespace == "" || r.Owner.Name == "" || r.Owner.UID == "":
		return "its claim is not known, so it cannot be asked for"
	case now.Sub(r.Orphan.Since) < grace:
		return fmt.Sprintf("it is an orphan since %s, and has %s", r.Orphan.Since.Format(time.RFC3339), grace)
	case r.Orphan.Watched() < grace: // the time of day may have jumped
		return fmt.Sprintf("agents have run for %s since it was found to be an orphan, and it has %s of that", r.Orphan.Watched(), grace)
	}
	return ""
}

// kept is why an orphan was not removed.
type kept string

func (k kept) Error() string { return string(k) }

// remove puts into the trash what may go of the pool's orphans, and takes it off
// the findings. It returns when the next grace period ends.
func (o *Checker) remove(ctx context.Context, pool *volume.Pool, f *findings) (next time.Duration) {
	log, next := klog.FromContext(ctx), orphansEvery
	var left []volume.Record
	var gone []string
	for _, r := range f.volumes {
		err := o.removeOne(ctx, pool, r)
		var why kept
		switch {
		case err == nil:
			log.Info("Removed an orphan", "volume", r.Name, "PV", r.PV, "owner", r.Owner, "since", r.Orphan.Since, "bytes", r.Bytes)
			gone = append(gone, r.Name)
			delete(o.watching, place{pool, r.Name})
			continue
		case errors.As(err, &why):
			log.V(1).Info("An orphan stays", "volume", r.Name, "why", why)
		case ctx.Err() == nil:
			log.Error(err, "Cannot remove an orphan; it is tried again", "volume", r.Name)
			next = min(next, orphansRetry)
		}
		if rest := o.rest(place{pool, r.Name}, r); rest > 0 {
			next = min(next, rest+time.Second, watchSaved)
		}
		left = append(left, r)
	}
	if f.volumes = left; len(gone) > 0 {
		o.Events.Eventf(o.Node, corev1.EventTypeNormal, reasonRemoved, "pool %s in %s: removed %s, whose PVs and claims are gone since %s or longer: %s",
			pool.Name(), pool.Path(), events.Count(len(gone), "volume"), o.Grace, events.FirstNames(gone))
		o.Changed(pool)
	}
	return next
}

// removeOne removes an orphan, or returns why it is kept. Everything is asked of
// the API server itself, and the record looked at once more while nobody can
// change it: a PV that was seen meanwhile has taken the note back.
func (o *Checker) removeOne(ctx context.Context, pool *volume.Pool, r volume.Record) error {
	if why := removable(r, r.Cluster, o.Grace, time.Now()); why != "" {
		return kept(why) // whatever the cluster is: it is asked only where that matters
	}
	system, err := o.Client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if apierrors.IsForbidden(err) {
		return kept("the cluster's identity is unknown: " + err.Error())
	}
	if err != nil {
		return err
	}
	cluster := string(system.UID)
	if why := removable(r, cluster, o.Grace, time.Now()); why != "" {
		return kept(why)
	}
	if wanted, err := o.claimed(ctx, r); err != nil {
		return err
	} else if wanted {
		return kept("its claim is still there")
	}
	if pv, err := o.anyPV(ctx, r); err != nil {
		return err
	} else if pv != "" {
		return kept("PV " + pv + " names it")
	}
	return pool.DeleteIf(r.Name, func(now volume.Record) error {
		if why := removable(now, cluster, o.Grace, time.Now()); why != "" {
			return kept(why)
		}
		return nil
	})
}

// anyPV asks for all PVs of the cluster, and returns one that may name the
// volume, of whatever shape, driver and node; "" where there is none.
func (o *Checker) anyPV(ctx context.Context, r volume.Record) (name string, err error) {
	err = live.EachPV(ctx, o.Client, func(pv *corev1.PersistentVolume) bool {
		if pv.Name == r.PV || namesDirectory(pv, r.Name) {
			name = pv.Name
		}
		return name == ""
	})
	return name, err
}

// namesDirectory reports whether a PV could mean the directory of that name.
func namesDirectory(pv *corev1.PersistentVolume, name string) bool {
	switch source := pv.Spec.PersistentVolumeSource; {
	case source.HostPath != nil:
		return class.Contains(source.HostPath.Path, name)
	case source.Local != nil:
		return class.Contains(source.Local.Path, name)
	case source.CSI != nil:
		return source.CSI.VolumeHandle == name
	}
	return false
}

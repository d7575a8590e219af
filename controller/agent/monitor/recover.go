package monitor

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

var (
	// recoverEvery is the pause between two recoveries of a pool.
	recoverEvery = timing.Scaled(time.Minute)
	// restoreAfter is how long a volume is set aside until it is restored, in an agent that sees no
	// PVs. A sidecar that still wants the deletion repeats it every few minutes.
	restoreAfter = timing.Scaled(time.Hour)
)

// aside is a volume that is set aside, and since when this process knows it.
type aside struct {
	volume record.Record
	since  time.Time
	said   string // the last error
}

// recover recovers the pool every recoverEvery, which repeats steps that failed because the disk was
// full, and finishes deletions of inline volumes. With RestoresAside it also restores volumes.
func (m *PoolMonitor) recover(ctx context.Context) {
	log := klog.FromContext(ctx).WithValues("pool", m.Pool.Name())
	known := map[string]aside{}
	for {
		err := m.Pool.Recover()
		if err != nil && !errors.Is(err, volume.ErrNotReady) && !errors.Is(err, volume.ErrInUse) {
			log.Error(err, "Cannot recover the pool")
		}
		if m.RestoresAside {
			known = m.restoreAside(log, known)
		}
		if !sleep.For(ctx, recoverEvery) {
			return
		}
	}
}

// restoreAside brings back volumes whose deletion was begun and not finished, and was not asked for
// again for restoreAfter: the PV was set to Retain, or is gone. It returns those that are set aside.
func (m *PoolMonitor) restoreAside(log klog.Logger, known map[string]aside) map[string]aside {
	now := map[string]aside{}
	for _, r := range m.Pool.SetAside() {
		if r.Ephemeral || r.Returning != "" {
			continue // Recover finishes these
		}
		a, ok := known[r.Name]
		if !ok || !a.volume.Same(r) {
			a = aside{volume: r, since: time.Now()}
		}
		if time.Since(a.since) >= restoreAfter {
			err := m.Pool.Restore(r.Name)
			switch {
			case err == nil:
				log.Info("Brought back a volume whose deletion was begun and not finished, and was not asked for again", "volume",
					r.Name, "PV", r.PV, "owner", r.Owner)
				m.Changed()
				continue
			case errors.Is(err, volume.ErrNotReady):
			case err.Error() != a.said:
				a.said = err.Error()
				log.Error(err, "Cannot bring back a volume whose deletion was begun and not finished", "volume", r.Name)
			}
		}
		now[r.Name] = a
	}
	return now
}

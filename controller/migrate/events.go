package migrate

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/controller/live"
)

// Reasons of events.
const (
	reasonMigrating = "Migrating"
	reasonMigrated  = "Migrated"
	reasonStopped   = "MigrationStopped"
)

// announce says what the claim's user is about to see. Each topic has the old
// PV's UID: what is said of one migration is said again of the next.
func (m *Migrator) announce(ctx context.Context, j *job, claim *corev1.PersistentVolumeClaim) {
	if claim == nil {
		return
	}
	m.events.Note(ctx, events.Claim(claim), "migrating "+string(j.old.UID), reasonMigrating, fmt.Sprintf(
		"node %s replaces PV %s by a %s PV on the same directory: the claim is Lost for some seconds and then Bound again; "+
			"no data is touched, and pods that run go on", m.name, j.old.Name, words(j.to)))
}

func (m *Migrator) finished(ctx context.Context, j *job, pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim, note string) {
	switch {
	case note != "":
		m.events.Warn(ctx, events.PV(pv), "migrated", reasonStopped, note)
	case claim != nil:
		m.events.Note(ctx, events.Claim(claim), "migrated "+string(j.old.UID), reasonMigrated,
			fmt.Sprintf("PV %s is a %s PV now, on the same directory %s/%s", pv.Name, words(j.to), j.pool.Path(), j.volume))
	}
}

// halted says on claim and PV why a migration does not go on.
func (m *Migrator) halted(ctx context.Context, j *job, why string) {
	message := fmt.Sprintf("node %s: the migration to a %s PV stopped, and goes on by itself once this is mended: %s", m.name, words(j.to), why)
	if claim, err := m.claim(ctx, j.new, true); err == nil && claim != nil {
		m.events.Warn(ctx, events.Claim(claim), "stopped "+string(j.old.UID), reasonStopped, message)
	}
	if pv, err := live.PV(ctx, m.client, j.old.Name); err == nil && pv != nil {
		m.events.Warn(ctx, events.PV(pv), "stopped "+string(j.old.UID), reasonStopped, message)
	}
}

func words(to string) string {
	if to == toCSI {
		return "CSI"
	}
	return "hostPath"
}

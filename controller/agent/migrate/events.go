package migrate

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
)

// announce records on the claim that its PV is about to be replaced. Topics have the old
// PV's UID, so that the next migration of a claim records its events again.
func (m *Migrator) announce(ctx context.Context, j *job, claim *corev1.PersistentVolumeClaim) {
	if claim == nil {
		return
	}
	m.Events.Note(ctx, events.Claim(claim), "migrating "+string(j.old.UID), events.Migrating, fmt.Sprintf(
		"node %s replaces PV %s by a %s PV on the same directory: the claim is Lost for some seconds and then Bound again; "+
			"no data is touched, and running pods continue", m.Node, j.old.Name, backend(j.to)))
}

// finished records the end of a migration, on the PV if the note leaves something to do.
func (m *Migrator) finished(ctx context.Context, j *job, pv *corev1.PersistentVolume,
	claim *corev1.PersistentVolumeClaim, note string) {
	switch {
	case note != "":
		m.Events.Warn(ctx, events.PV(pv), "migrated", events.MigrationStopped, note)
	case claim != nil:
		m.Events.Note(ctx, events.Claim(claim), "migrated "+string(j.old.UID), events.Migrated,
			fmt.Sprintf("PV %s is a %s PV now, on the same directory %s/%s", pv.Name, backend(j.to), j.pool.Path(), j.volume))
	}
}

func (m *Migrator) unreadable(ctx context.Context, f candidate) {
	message := fmt.Sprintf("node %s: a migration stopped: %s", m.Node, f.Reason)
	topic := "unreadable " + f.v.Name
	if owner := f.v.Owner; owner.Name != "" {
		if claim, err := live.Claim(ctx, m.Client, owner); err == nil && claim != nil {
			m.Events.Warn(ctx, events.Claim(claim), topic, events.MigrationStopped, message)
		}
	}
	if pv, err := live.PV(ctx, m.Client, f.PV); err == nil && pv != nil {
		m.Events.Warn(ctx, events.PV(pv), topic, events.MigrationStopped, message)
	}
}

func (m *Migrator) halted(ctx context.Context, j *job, why string) {
	message := fmt.Sprintf("node %s: the migration to a %s PV stopped: %s; it continues when the cause is gone", m.Node,
		backend(j.to), why)
	topic := "stopped " + string(j.old.UID) + cause(why)
	if claim, err := m.claim(ctx, j.new, true); err == nil && claim != nil {
		m.Events.Warn(ctx, events.Claim(claim), topic, events.MigrationStopped, message)
	}
	if pv, err := live.PV(ctx, m.Client, j.old.Name); err == nil && pv != nil {
		m.Events.Warn(ctx, events.PV(pv), topic, events.MigrationStopped, message)
	}
}

// causes bounds the events of one migration in an hour: what a webhook answers may have any words.
const causes = 16

// cause returns the part of a topic that differs for another cause, and not for another number in
// the words of the same one. An event of a topic is recorded once an hour.
func cause(why string) string {
	words := strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, why)
	return fmt.Sprintf(" %d", events.Hash(words)%causes)
}

func backend(to string) string {
	if to == toCSI {
		return "CSI"
	}
	return "hostPath"
}

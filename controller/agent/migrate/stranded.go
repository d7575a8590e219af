package migrate

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/volume"
)

// An administrator may replace an agent of both backends by one of a single backend while a
// migration is in progress. That agent cancels it if the old PV is there, and finishes it if it
// serves the new one. Otherwise the claim stays Lost until an agent of the other backend runs, and
// this one is not ready.

// unchanged reports whether a PV is the old one and is not being deleted.
func unchanged(j *job, pv *corev1.PersistentVolume) bool {
	return pv != nil && pv.UID == j.old.UID && pv.DeletionTimestamp == nil
}

// unserved returns why a migration to that backend is stranded, and which agents can finish it.
func unserved(to string) string {
	form := "manifests/legacy"
	if to == toCSI {
		form = "manifests/csi"
	}
	return fmt.Sprintf("this agent serves no %s PVs; apply %s or manifests/examples/both-modes, whose agent finishes it",
		backend(to), form)
}

// noteStranded notes for Stranded which of the open migrations this agent cannot finish.
func (m *Migrator) noteStranded(open []candidate) {
	var all []string
	for _, f := range open {
		if f.job.stranded {
			all = append(all, fmt.Sprintf("the PV %s of claim %s is being replaced: %s", f.PV, f.Claim, unserved(f.job.to)))
		}
	}
	if all == nil {
		m.stranded.Store(nil)
		return
	}
	text := strings.Join(all, "; ")
	m.stranded.Store(&text)
}

// Stranded returns an error if this agent cannot finish a migration that it found. The error names
// the agent that can.
func (m *Migrator) Stranded() error {
	if text := m.stranded.Load(); text != nil {
		return errors.New(*text)
	}
	return nil
}

// Open returns an error if a PV of a volume in the pools is being replaced, for an agent that has
// no Migrator because it does not use the API server. The error names an agent that finishes it.
func Open(pools *volume.Pools) error {
	var all []string
	for _, pool := range pools.All() {
		records, err := pool.Migrations()
		if err != nil {
			continue // not ready, which is a check of its own
		}
		for _, r := range records {
			all = append(all, fmt.Sprintf("the PV %s of volume %s/%s is being replaced: %s",
				r.PV, pool.Path(), r.Name, unserved(r.Migration.To)))
		}
	}
	if all == nil {
		return nil
	}
	return errors.New(strings.Join(all, "; "))
}

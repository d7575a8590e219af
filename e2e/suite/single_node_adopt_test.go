package suite

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// The older provisioner's PVs are adopted as they are, grow, and are deleted by their policy.
func singleAdoption(t *testing.T, own *harness.Env) {
	m := newMachine(t, own, harness.Options{})
	claim, pv := m.older(nil)
	kept, keptPV := m.older(func(pv *corev1.PersistentVolume) {
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	})
	m.a.Restart()
	m.a.AwaitReady()
	for _, pv := range []*corev1.PersistentVolume{pv, keptPV} {
		m.Eventually("adopted", func() error { return m.isAdopted(pv) })
	}
	m.grown(claim)
	m.Delete(kept)
	m.Released(keptPV.Name)
	m.Delete(claim)
	m.Gone(pv.Name)
	m.Eventually("one directory", func() error {
		if got := m.Children(m.a.Pool); !slices.Equal(got, []string{filepath.Base(keptPV.Spec.HostPath.Path)}) {
			return fmt.Errorf("the pool has %q", got)
		}
		return nil
	})
}

// isAdopted returns nil if the agent has a record of the PV's volume, and the PV's spec is as it
// was.
func (m *machine) isAdopted(was *corev1.PersistentVolume) error {
	m.Helper()
	pv := m.PV(was.Name)
	if pv.Labels[harness.LabelNode] != m.a.Node.Name || pv.Annotations[harness.AnnPool] == "" {
		return m.NotYet(pv.UID, "labels %v, annotations %v", pv.Labels, pv.Annotations)
	}
	if pv.Spec.HostPath == nil || *pv.Spec.HostPath.Type != *was.Spec.HostPath.Type || pv.Spec.HostPath.Path != was.Spec.HostPath.Path ||
		pv.Spec.NodeAffinity != nil || !slices.Equal(pv.Spec.AccessModes, was.Spec.AccessModes) {
		return fmt.Errorf("the PV changed: %+v", pv.Spec)
	}
	for _, v := range m.a.Inspect().Volumes {
		if v.PV == pv.Name && v.Adopted && v.State == "bound" {
			return firstError(recordHasUID(m.a.Pool, v.Name, pv), m.Unwarned(pv.UID))
		}
	}
	return errors.New("there is no record")
}

// Anything else of that provisioner is left alone, with an event.
func singleLeftAlone(t *testing.T, own *harness.Env) {
	m := newMachine(t, own, harness.Options{})
	_, good := m.older(nil) // so that the disk is known to be there
	outside := m.Path("outside", "volumes")
	rows := map[string]*corev1.PersistentVolume{}
	for want, edit := range map[string]func(*corev1.PersistentVolume){
		"is not named after it":                    func(pv *corev1.PersistentVolume) { pv.Spec.HostPath.Path += "x" },
		harness.AnnIdentity + ` is "another-node"`: func(pv *corev1.PersistentVolume) { pv.Annotations[harness.AnnIdentity] = "another-node" },
		"is not a directory right below": func(pv *corev1.PersistentVolume) {
			pv.Spec.HostPath.Path = filepath.Join(outside, filepath.Base(pv.Spec.HostPath.Path))
		},
	} {
		claim, pv := m.older(edit)
		m.Delete(claim)
		m.Released(pv.Name)
		rows[want] = pv
	}
	m.a.Restart()
	m.a.AwaitReady()
	m.Eventually("adopted", func() error { return m.isAdopted(good) })
	for want, pv := range rows {
		m.AwaitWarning(m.a, pv.UID, harness.ReasonRefused, want)
		if now := m.PV(pv.Name); len(now.Labels) != 0 || now.Annotations[harness.AnnPool] != "" {
			t.Errorf("%s: the PV was changed: %v, %v", want, now.Labels, now.Annotations)
		}
		if err := harness.Exists(filepath.Join(pv.Spec.HostPath.Path, "data")); err != nil {
			t.Errorf("%s: %v", want, err)
		}
	}
	if got := m.a.Inspect().Volumes; len(got) != 1 {
		t.Errorf("volumes %+v, want the adopted one alone", got)
	}
}

// The life of a claim's volume in an open pool, with the agent killed before its n-th change to the
// disk.
func singleKilled(t *testing.T, own *harness.Env) {
	m := newMachine(t, own, faulty(t))
	m.a.Restart()
	m.a.AwaitReady()
	m.a.Stop()
	life := new(harness.Life)
	for n := 0; n <= life.Steps(); n++ {
		mortal := m.a.Live(life, n)
		claim := m.claim(corev1.ReadWriteMany)
		if mortal.Stage("claim bound and recorded", "record.sync", func() error { return m.IsBound(claim) }) {
			m.again()
			m.Bound(claim)
		}
		wantTree(m.Scene, m.a.Pool, filepath.Base(m.directory(claim)))
		m.Delete(claim)
		gone := func() error { return firstError(m.IsGone(harness.PVName(claim)), empty(m.Scene, m.a)) }
		if mortal.Stage("all gone", "purge.record", gone) {
			m.again()
			m.Eventually(fmt.Sprintf("kill %d: all gone", n), gone)
		}
		m.a.Kill() // a stop may meet the kill
	}
	t.Logf("the life of a volume has %d steps", life.Steps())
}

// The adoption of a PV, with the agent killed before its n-th change to the disk, from an absent
// pool on.
func singleKilledAdopting(t *testing.T, own *harness.Env) {
	m := newMachine(t, own, faulty(t))
	pools := m.a.Pool
	life := new(harness.Life)
	for n := 0; n <= life.Steps(); n++ {
		m.a.Pool = filepath.Join(pools, fmt.Sprint(n))
		claim, pv := m.older(nil)
		mortal := m.a.Live(life, n)
		adopted := func() error { return firstError(m.a.Ready(), m.isAdopted(pv)) }
		if mortal.Stage("adopted", "record.sync", adopted) {
			m.again()
			m.Eventually(fmt.Sprintf("kill %d: adopted", n), adopted)
		}
		m.Delete(claim)
		gone := func() error { return firstError(m.IsGone(pv.Name), empty(m.Scene, m.a)) }
		if mortal.Stage("gone", "purge.record", gone) {
			m.again()
			m.Eventually(fmt.Sprintf("kill %d: gone", n), gone)
		}
		m.a.Kill() // a stop may meet the kill
	}
	t.Logf("the adoption has %d steps", life.Steps())
}

// faulty are the options of an agent that can kill itself.
func faulty(t *testing.T) harness.Options {
	t.Helper()
	return harness.Options{Program: built(t, env.Faulty)}
}

// again starts the agent after a kill.
func (m *machine) again() {
	m.Helper()
	m.a.Restart()
	m.a.AwaitReady()
}

package agent

import (
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
)

// What is not noted cannot be given up: the next start would find it noted, and end for it again.
func TestNothingIsNotedInAPoolOfAnother(t *testing.T) {
	s := newStage(t)
	second := filepath.Join(s.dir, "second")
	s.write(s.pvDir, "second")
	first := s.start()
	first.pools.Open()
	pool := first.poolAt(second)
	if _, err := pool.Create(volume.Spec{Name: "pvc-1", Bytes: 1, PV: "pvc-1"}); err != nil {
		t.Fatal(err)
	}
	if again, noted := first.Note(t.Context(), first.localPath.paths()); again || !noted || !first.Writable() {
		t.Errorf("again: %v, noted: %v, writable: %v", again, noted, first.Writable())
	}
	first.Close()

	s.write(s.pvDir) // the path is given up
	held, err := volume.New(volume.Config{Name: "held", Path: s.pvDir, Holder: "another agent"})
	if err == nil {
		err = held.Open()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { held.Close() })
	a := s.start()
	a.pools.Open()
	if again, noted := a.Note(t.Context(), a.localPath.paths()); again || noted || a.Writable() {
		t.Errorf("again: %v, noted: %v, writable: %v", again, noted, a.Writable())
	}
}

// A path that was given up and that a PV still names is asked for at every poll of the file. A PV
// that is known is an answer without a request.
func TestHeldReadsAllPVsOnce(t *testing.T) {
	s := newStage(t)
	second := filepath.Join(s.dir, "second")
	s.write(s.pvDir, "second")
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", UID: "1", Annotations: map[string]string{contract.AnnProvisionedBy: contract.LocalPathProvisioner}}}
	pv.Spec.Local = &corev1.LocalVolumeSource{Path: filepath.Join(second, "pvc-1_ns_claim")}
	pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"node-01"}}}}}}}
	a := s.start(pv)
	if err := a.info.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.pools.Open()
	client := a.client.(apitest.Lister)
	client.ClearActions()
	for range 5 {
		if why := a.Held(t.Context(), second); why == "" {
			t.Error("not held")
		}
	}
	n := 0
	for _, action := range client.Actions() {
		if action.Matches("list", "persistentvolumes") {
			n++
		}
	}
	if n > 1 {
		t.Errorf("%d lists of all PVs of the cluster for one path", n)
	}
	// The PV goes, which no watch of this agent shows. A minute later the path is held no more.
	if err := client.CoreV1().PersistentVolumes().Delete(t.Context(), pv.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if why := a.Held(t.Context(), second); why == "" {
		t.Error("a PV is asked for at each poll")
	}
	clear(a.asked)
	if why := a.Held(t.Context(), second); why != "" {
		t.Errorf("held for a PV that is gone: %s", why)
	}
}

// While the answer does not help, all PVs are read more and more rarely.
func TestSweepsOfTheConfiguration(t *testing.T) {
	for _, err := range []error{nil, errors.New("away")} {
		synctest.Test(t, func(t *testing.T) {
			var s sweeps
			n := 0
			sweep := func() error { n++; return err }
			for range 8 * 360 { // eight hours of polls, which ask for two paths
				for range 2 {
					s.do(sweep)
				}
				time.Sleep(10 * time.Second)
			}
			if n > 20 {
				t.Errorf("%v: %d sweeps in eight hours", err, n)
			}
			time.Sleep(2 * sweepLast)
			if n = 0; s.do(sweep) != (err == nil) || n != 1 {
				t.Errorf("%v: later %d sweeps", err, n)
			}
		})
	}
}

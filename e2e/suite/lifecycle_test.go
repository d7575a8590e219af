package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// empty returns nil where the pool holds nothing and allocates nothing any more.
func empty(s *harness.Scene, a *harness.Agent) error {
	r := a.Inspect()
	switch children := s.Children(a.Pool); {
	case len(children) > 0:
		return fmt.Errorf("directories %q are there", children)
	case len(r.Volumes) > 0:
		return fmt.Errorf("volumes %+v are recorded", r.Volumes)
	case len(r.Trash) > 0:
		return fmt.Errorf("the trash holds %+v", r.Trash)
	}
	if staged := s.Children(filepath.Join(a.Pool, ".hostpath-provisioner", "staging")); len(staged) > 0 {
		return fmt.Errorf("staging holds %q", staged)
	}
	return a.MetricIs(0, "kubevirt_hpp_pool_allocated_bytes")
}

func TestDelete(t *testing.T) {
	t.Parallel()
	s, a := oneNode(t)
	claim := s.Create(harness.Claim{Node: a.Node.Name, Size: "16Mi"})
	pv := s.Bound(claim)
	s.Write(pv.Spec.HostPath.Path, "data", []byte("data"))
	if err := a.MetricIs(16<<20, "kubevirt_hpp_pool_allocated_bytes"); err != nil {
		t.Error(err)
	}
	s.Delete(claim)
	s.Gone(pv.Name)
	s.Eventually("empty pool", func() error { return empty(s, a) })
}

// However much a volume holds, it is out of sight at once; the removal of its files is nobody's
// wait.
func TestDeleteBigTree(t *testing.T) {
	t.Parallel()
	const files, rate = 20000, 2000
	s := env.Scene(t)
	a := s.Agent(s.Node("01"), harness.Options{Flags: []string{"--purge-rate=" + strconv.Itoa(rate)}})
	claim := s.Create(harness.Claim{Node: a.Node.Name})
	pv := s.Bound(claim)
	for i := range files {
		dir := filepath.Join(pv.Spec.HostPath.Path, strconv.Itoa(i/1000), strconv.Itoa(i%10))
		if i%1000 < 10 {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.Delete(claim)
	s.Gone(pv.Name)
	if trash := a.Inspect().Trash; len(trash) != 1 {
		t.Errorf("trash when the PV is gone: %v, want one entry: the PV waited for the files", trash)
	}
	if err := harness.Missing(pv.Spec.HostPath.Path); err != nil {
		t.Error(err)
	}
	if err := a.MetricIs(0, "kubevirt_hpp_pool_allocated_bytes"); err != nil {
		t.Error(err)
	}
	s.Eventually("empty pool", func() error { return empty(s, a) })
	if left := s.Children(filepath.Join(a.Pool, ".hostpath-provisioner", "trash")); len(left) > 0 {
		t.Errorf("the trash still holds %q", left)
	}
}

func TestRetain(t *testing.T) {
	t.Parallel()
	s, a := oneNode(t)
	retain := corev1.PersistentVolumeReclaimRetain
	class := s.Class("retain", func(c *storagev1.StorageClass) { c.ReclaimPolicy = &retain })
	claim := s.Create(harness.Claim{Node: a.Node.Name, Class: class, Size: "16Mi"})
	pv := s.Bound(claim)
	if pv.Spec.PersistentVolumeReclaimPolicy != retain {
		t.Errorf("the PV's policy is %s, want %s", pv.Spec.PersistentVolumeReclaimPolicy, retain)
	}
	path := pv.Spec.HostPath.Path
	s.Write(path, "data", []byte("precious"))
	s.Delete(claim)
	s.Released(pv.Name)
	s.Holds(a, "data kept", func() error {
		if phase := s.PV(pv.Name).Status.Phase; phase != corev1.VolumeReleased {
			return fmt.Errorf("PV is %s", phase)
		}
		if data, err := os.ReadFile(filepath.Join(path, "data")); string(data) != "precious" {
			return fmt.Errorf("data: %q, %w", data, err)
		}
		return a.MetricIs(16<<20, "kubevirt_hpp_pool_allocated_bytes")
	})
	s.Eventually("record", func() error { // the agent may have tried before the claim was known, and tries again
		if v := a.Volume(pv.Name); v.State != "bound" || v.Bytes != 16<<20 || v.ReclaimPolicy != "Retain" {
			return fmt.Errorf("record %+v, want bound, 16Mi, Retain", v)
		}
		return nil
	})
	s.PatchPV(pv.Name, `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
	s.Gone(pv.Name)
	s.Eventually("empty pool", func() error { return empty(s, a) })
}

// A policy that an administrator sets on the agent wins over every class.
func TestReclaimPolicyOfTheAgent(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	a := s.Agent(s.Node("01"), harness.Options{Env: []string{"PV_RECLAIM_POLICY=Retain"}})
	pv := s.Bound(s.Create(harness.Claim{Node: a.Node.Name}))
	if got := pv.Spec.PersistentVolumeReclaimPolicy; got != corev1.PersistentVolumeReclaimRetain {
		t.Errorf("policy %s, want Retain", got)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	own, shared := smallNode(s, "01"), s.Agent(s.Node("02"), harness.Options{})
	claim := s.Create(harness.Claim{Node: own.Node.Name, Size: "16Mi"})
	s.Bound(claim)
	s.Eventually("volume bound", func() error {
		return own.MetricIs(1, "kubevirt_hpp_pool_volumes", `state="bound"`)
	})
	recorded(s, own.Pool, claim) // a moment after the metric says so; nothing is written from then on
	total, free := statfs(s, own.Pool)
	for _, test := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"kubevirt_hpp_pool_ready", nil, 1},
		{"kubevirt_hpp_pool_total_bytes", nil, total},
		{"kubevirt_hpp_pool_free_bytes", nil, free},
		{"kubevirt_hpp_pool_allocated_bytes", nil, 16 << 20},
		{"kubevirt_hpp_pool_available_bytes", nil, free - 16<<20},
		{"kubevirt_hpp_pool_volumes", []string{`state="ready"`}, 0},
		{"kubevirt_hpp_persistentvolumeclaim_provision_total", []string{harness.ClassImmediate}, 1},
		{"kubevirt_hpp_pool_path_shared_with_os", nil, 0},
	} {
		if err := own.MetricIs(test.want, test.name, test.labels...); err != nil {
			t.Error(err)
		}
	}
	if err := shared.MetricIs(1, "kubevirt_hpp_pool_path_shared_with_os"); err != nil {
		t.Error(err)
	}
}

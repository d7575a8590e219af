package pvs

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
)

// TestVolumeOf returns a volume of either backend only for the PV that its record names.
func TestVolumeOf(t *testing.T) {
	type pv = corev1.PersistentVolume
	for _, className := range []string{"now", "csi"} {
		c := newPVs(t)
		good := validPV(c, className)
		pool, name := c.backendOf(good).PoolOf(good)
		if _, _, err := c.VolumeOf(good); !errors.Is(err, volume.ErrNotFound) {
			t.Errorf("%s: %v, want that there is no volume yet", className, err)
		}
		if _, err := pool.Create(volume.Spec{Name: name, Bytes: 1 << 20, PV: good.Name, Owner: ownerOf(good)}); err != nil {
			t.Fatal(err)
		}
		if in, v, err := c.VolumeOf(good); err != nil || in != pool || v.Name != name || v.Bytes != 1<<20 {
			t.Errorf("%s: %v, %+v, %v", className, in, v, err)
		}
		for what, spoil := range map[string]func(*pv){
			"another PV":    func(pv *pv) { pv.Name = "pvc-2" },
			"another claim": func(pv *pv) { pv.Spec.ClaimRef.UID = "2" },
			"another node":  func(pv *pv) { pv.Spec.NodeAffinity = nil },
			"another pool":  func(pv *pv) { pv.Annotations[contract.AnnPool] = "0b1c2d3e-0000-0000-0000-000000000000" },
			"another maker": func(pv *pv) { pv.Annotations[contract.AnnProvisionedBy] = "example.com" },
		} {
			pv := good.DeepCopy()
			spoil(pv)
			if _, _, err := c.VolumeOf(pv); err == nil || errors.Is(err, volume.ErrNotReady) {
				t.Errorf("%s: %s: %v", className, what, err)
			}
		}
		if err := pool.Close(); err != nil {
			t.Fatal(err)
		}
		if in, _, err := c.VolumeOf(good); !errors.Is(err, volume.ErrNotReady) || in != pool {
			t.Errorf("%s: %v, %v, want the pool and that it is not ready", className, in, err)
		}
	}
}

package inline

import (
	"errors"
	"path/filepath"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
)

// A setting refuses new volumes and none that exists, whose kubelet may publish it again. One whose
// record cannot be read may exist: it is not called refused.
func TestRefusedVolumesAreNotMade(t *testing.T) {
	pool, err := volume.New(volume.Config{Name: "legacy", Path: filepath.Join(t.TempDir(), "pool")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	pools, err := volume.NewPools(pool)
	if err != nil {
		t.Fatal(err)
	}
	v := &Volumes{Pools: pools, Changed: func(*volume.Pool) {}}
	errRefused := errors.New("refused")
	publish := func(name string, refused error) (mounted bool, err error) {
		err = v.Publish(pool, volume.Spec{Name: name, Bytes: 1 << 20, Ephemeral: true}, func() error { return refused },
			func() error { mounted = true; return nil })
		return mounted, err
	}
	if _, err := publish("csi-1", errRefused); !errors.Is(err, volume.ErrNotReady) || errors.Is(err, errRefused) {
		t.Errorf("a pool that is not open: %v", err)
	}
	if err := pool.Open(); err != nil {
		t.Fatal(err)
	}
	if mounted, err := publish("csi-1", nil); err != nil || !mounted {
		t.Fatal(err)
	}
	if mounted, err := publish("csi-1", errRefused); err != nil || !mounted {
		t.Errorf("one that exists: %v", err)
	}
	if mounted, err := publish("csi-2", errRefused); !errors.Is(err, errRefused) || mounted {
		t.Errorf("a new one: mounted %v, %v", mounted, err)
	}
	if _, err := pool.Get("csi-2"); !errors.Is(err, volume.ErrNotFound) {
		t.Errorf("a refused one is there: %v", err)
	}
}

package health

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"kubevirt.io/hostpath-provisioner/volume"
)

// The trash is emptied soon after somebody says that there is some, and once more
// when the filesystem is done with it; otherwise every minute.
func TestKeeperPurges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	synctest.Test(t, func(t *testing.T) {
		pool, err := volume.New(volume.Config{Path: path})
		if err == nil {
			err = pool.Open()
		}
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		passes := make(chan struct{}, 100)
		k := NewKeeper(pool, record.NewFakeRecorder(1), &corev1.ObjectReference{}, func() { passes <- struct{}{} })
		go k.purge(t.Context())
		begin := time.Now()
		for _, want := range []time.Duration{0, time.Second, 11 * time.Second, 71 * time.Second, 131 * time.Second} {
			if <-passes; time.Since(begin) != want {
				t.Errorf("a pass after %v, want one after %v", time.Since(begin), want)
			}
			if want == 0 {
				for range 3 { // said while the first waits for more
					k.Purge()
				}
			}
		}
	})
}

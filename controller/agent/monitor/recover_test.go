package monitor

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/volume"
)

// A volume that a deletion set aside comes back after an hour, in an agent that sees no PVs: one whose
// PV was set to Retain is never asked for again. An inline volume is deleted, in every form.
func TestVolumesThatAreSetAside(t *testing.T) {
	pool, err := volume.New(volume.Config{Name: "p", Path: filepath.Join(t.TempDir(), "pool")})
	if err == nil {
		err = pool.Open()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	move := map[string]string{}
	for name, ephemeral := range map[string]bool{"pv": false, "inline": true, "taken": false} {
		v, err := pool.Create(volume.Spec{Name: name, Bytes: 1 << 20, PV: map[bool]string{false: name}[ephemeral], Ephemeral: ephemeral})
		if err != nil {
			t.Fatal(err)
		}
		move[v.Path] = filepath.Join(pool.Path(), ".hostpath-provisioner/trash", v.Trash)
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	for from, to := range move {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	if pool, err = volume.New(volume.Config{Name: "p", Path: pool.Path()}); err == nil {
		err = pool.Open()
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(pool.Path(), "taken"), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	synctest.Test(t, func(t *testing.T) {
		m, changed := &PoolMonitor{Pool: pool}, 0
		m.Changed = func() { changed++ }
		known := map[string]aside{}
		for range 59 {
			known = m.restoreAside(klog.Background(), known)
			time.Sleep(time.Minute)
		}
		if _, err := pool.Get("pv"); !errors.Is(err, volume.ErrSetAside) || changed > 0 {
			t.Errorf("before an hour: %v", err)
		}
		for range 2 {
			time.Sleep(time.Minute)
			known = m.restoreAside(klog.Background(), known)
		}
		if v, err := pool.Get("pv"); err != nil || v.Missing || changed != 1 {
			t.Errorf("after an hour: %+v, %v, reported %d times", v, err, changed)
		}
		if len(known) != 1 || known["taken"].said == "" {
			t.Errorf("set aside: %+v", known)
		}
	})
	if err := pool.Recover(); err != nil {
		t.Error(err)
	}
	if _, err := pool.Get("inline"); !errors.Is(err, volume.ErrNotFound) || errors.Is(err, volume.ErrSetAside) {
		t.Errorf("inline: %v", err)
	}
}

// The pool of each form is recovered.
func TestPoolIsRecovered(t *testing.T) {
	for _, form := range []bool{false, true} {
		pool, err := volume.New(volume.Config{Name: "p", Path: filepath.Join(t.TempDir(), "pool")})
		if err == nil {
			err = pool.Open()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pool.Close() })
		left := filepath.Join(pool.Path(), ".hostpath-provisioner/staging/left")
		if err := os.Mkdir(left, 0o700); err != nil {
			t.Fatal(err)
		}
		m := &PoolMonitor{Pool: pool, RestoresAside: form, Changed: func() {}}
		done := make(chan struct{})
		go func() { defer close(done); m.recover(t.Context()) }()
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			if _, err := os.Lstat(left); errors.Is(err, os.ErrNotExist) {
				break
			}
			if time.Now().After(end) {
				t.Fatal("a directory is left in staging")
			}
		}
	}
}

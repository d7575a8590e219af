//go:build disk || vm

package volume_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
)

// Every operation killed before every change it makes, and the start after a
// create likewise: then limits are as recorded, and none is left over.
func limitKilled(t *testing.T, d quotaDisk) {
	made := func(p *volume.Pool) error {
		for _, name := range []string{"bystander", "v"} {
			if _, err := p.Create(limited(name, 4*mib)); err != nil {
				return err
			}
		}
		return nil
	}
	deleted := func(p *volume.Pool) error {
		return errors.Join(made(p), os.WriteFile(filepath.Join(p.Path(), "v/data"), []byte("x"), 0o600), p.Delete("v"))
	}
	for _, op := range []struct {
		name    string
		prepare func(*volume.Pool) error
		do      func(*volume.Pool) error
		step    string // one of those it makes
		there   bool   // "v", afterwards
	}{
		{"create", func(*volume.Pool) error { return nil },
			func(p *volume.Pool) error { _, err := p.Create(limited("v", 4*mib)); return err },
			"create.limit", true},
		{"expand", made, func(p *volume.Pool) error { _, err := p.Expand("v", 8*mib); return err },
			"limit.set", true},
		{"undo", made, func(p *volume.Pool) error { return p.Undo("v") }, "undo.rmdir", false},
		{"delete", made, func(p *volume.Pool) error { return p.Delete("v") }, "delete.rename", false},
		{"purge", deleted, func(p *volume.Pool) error { _, err := p.Purge(t.Context()); return err },
			"limits.sweep", false},
	} {
		t.Run(op.name, func(t *testing.T) {
			for n, died := 1, true; died; n++ {
				for m, again := 1, true; again; m++ {
					path := d.newPath(t)
					run(t, path, 0, false, op.prepare)
					var steps []string
					steps, died = run(t, path, n, false, op.do)
					if !died && !slices.Contains(steps, op.step) {
						t.Errorf("steps %q, want %q among them", steps, op.step)
					}
					if again = op.name == "create"; again {
						_, again = run(t, path, m, true, func(*volume.Pool) error { return nil })
					}
					d.mended(t, path, fmt.Sprintf("killed at %d and %d", n, m))
					p := opened(t, volume.Config{Path: path})
					ok(t, op.do(p))
					consistent(t, p)
					asRecorded(t, p)
					if _, err := p.Get("v"); (err == nil) != op.there {
						t.Errorf("killed at %d and %d: %v", n, m, err)
					}
					ok(t, p.Close())
				}
			}
		})
	}
	d.settle()
	p := d.pool(t)
	purge(t, p)
	d.swept(t)
}

// mended opens what was left by a kill.
func (d quotaDisk) mended(t *testing.T, path, when string) {
	t.Helper()
	p := opened(t, volume.Config{Path: path})
	if d.lag > 0 {
		ok(t, p.Close())
		time.Sleep(d.lag)
		p = opened(t, volume.Config{Path: path})
	}
	defer p.Close()
	consistent(t, p)
	asRecorded(t, p)
	if d.inodes { // on btrfs the kernel has them until it freed the space
		d.swept(t)
	}
	if t.Failed() {
		t.Fatal(when)
	}
}

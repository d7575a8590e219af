//go:build disk || vm

package volume_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// Many at once: each has its own ID and quota, and no more is allocated than
// there is.
func limitConcurrent(t *testing.T, d quotaDisk) {
	p := d.pool(t)
	s, err := p.Space()
	ok(t, err)
	most := s.Available
	size := most / 48 / 4096 * 4096 // so that some are refused
	var wait sync.WaitGroup
	var mu sync.Mutex
	refused := 0
	for i := range 64 {
		wait.Go(func() {
			name := fmt.Sprintf("v%d", i)
			_, err := p.Create(limited(name, size))
			if errors.Is(err, volume.ErrNoSpace) {
				mu.Lock()
				refused++
				mu.Unlock()
			} else if err != nil {
				t.Error(err)
			}
			if i%4 == 1 {
				_, err := p.Expand(name, 2*size)
				if err != nil && !errors.Is(err, volume.ErrNoSpace) && !errors.Is(err, volume.ErrNotFound) {
					t.Error(err)
				}
			}
			if i%3 == 0 {
				if err := p.Delete(name); err != nil {
					t.Error(err)
				}
			}
		})
		if i%16 == 7 {
			wait.Go(func() {
				if _, err := p.Purge(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wait.Wait()
	if s, err = p.Space(); err != nil || s.Allocated > most+most/100 || refused > 64-28 {
		t.Errorf("space %+v, %v; %d refused", s, err, refused)
	}
	consistent(t, p)
	asRecorded(t, p)
	ok(t, p.Close())
	p = opened(t, volume.Config{Path: p.Path()})
	consistent(t, p)
	all, err := p.List()
	ok(t, err)
	for _, v := range all {
		ok(t, p.Delete(v.Name))
	}
	purge(t, p)
}

// A writer that reached the quota continues once the volume is expanded.
func limitExpand(t *testing.T, d quotaDisk) {
	var p *volume.Pool
	expanding := false
	p = opened(t, volume.Config{Path: d.newPath(t), Step: func(step string) {
		if !expanding {
			return
		}
		u, err := inForce(filepath.Join(p.Path(), "v"))
		if r := onDisk(t, p, "v"); err != nil || u.Limit.Bytes > r.Bytes {
			t.Errorf("at %s: %+v, %v; allocated %d bytes", step, u, err, r.Bytes)
		}
	}})
	v, err := p.Create(limited("v", 4*mib))
	ok(t, err)
	expanding = true
	if n, err := pour(t, v.Path+"/f", 64*mib); !errors.Is(err, d.full) || n > 4*mib {
		t.Fatalf("wrote %d bytes, %v", n, err)
	}
	var wait sync.WaitGroup
	for _, bytes := range []int64{8 * mib, 8 * mib, 16 * mib} {
		wait.Go(func() { // while a process writes
			if n, err := pour(t, v.Path+"/f", mib); n > mib || err != nil && !errors.Is(err, d.full) {
				t.Errorf("wrote %d bytes, %v", n, err)
			}
		})
		if v, err := p.Expand("v", bytes); err != nil || v.Bytes != bytes || !v.QuotaEnforced {
			t.Errorf("%+v, %v", v, err)
		}
		wait.Wait()
		asRecorded(t, p)
	}
	if n, err := pour(t, v.Path+"/f", 64*mib); !errors.Is(err, d.full) || n > 13*mib || n < 4*mib {
		t.Errorf("wrote %d bytes, %v", n, err)
	}
	_, err = p.Expand("v", 32*mib)
	ok(t, err)
	if n, err := pour(t, v.Path+"/f", 8*mib); n != 8*mib || err != nil {
		t.Errorf("wrote %d bytes, %v", n, err)
	}
	expanding = false
	_, err = p.Expand("v", 8*mib)
	is(t, err, volume.ErrInvalid)
	ok(t, p.Close())
	p = opened(t, volume.Config{Path: p.Path()})
	consistent(t, p)
	asRecorded(t, p)
	ok(t, p.Delete("v"))
	purge(t, p)
}

// What volumes use is counted, not estimated.
func limitSpace(t *testing.T, d quotaDisk) {
	p := d.pool(t)
	v, err := p.Create(limited("v", 32*mib))
	ok(t, err)
	if s, err := p.Space(); err != nil || s.Estimate || s.Allocated != 32*mib {
		t.Errorf("space %+v, %v", s, err)
	}
	_, err = pour(t, v.Path+"/f", 16*mib)
	ok(t, err)
	testdisk.Sync(t, d.root)
	time.Sleep(1100 * time.Millisecond) // longer than a reading is current
	s, err := p.Space()
	if err != nil || s.Estimate || s.Used < 16*mib-slack || s.Used > 20*mib {
		t.Errorf("space %+v, %v", s, err)
	}
	// What another start does not know yet, it reads.
	moved := p.Path() + "-moved"
	ok(t, os.Rename(p.Path(), moved))
	is(t, p.Ready(), volume.ErrNotReady)
	ok(t, os.Rename(moved, p.Path()))
	if s, err := p.Space(); err != nil || s.Estimate || s.Used < 16*mib-slack {
		t.Errorf("opened again: space %+v, %v", s, err)
	}
	none := spec("none", mib)
	none.Quota = record.QuotaNone
	_, err = p.Create(none)
	ok(t, err)
	if s, err = p.Space(); err != nil || !s.Estimate {
		t.Errorf("space %+v, %v", s, err)
	}
	ok(t, p.Delete("none"))
	// What was counted for a name is not what its next volume uses.
	_, err = p.Create(limited("none", mib))
	ok(t, err)
	ok(t, p.Delete("none"))
	_, err = p.Create(none)
	ok(t, err)
	if s, err = p.Space(); err != nil || !s.Estimate {
		t.Errorf("space %+v, %v", s, err)
	}
	ok(t, p.Delete("none"))
	ok(t, p.Delete("v"))
	after, err := p.Space()
	if err != nil || after.Used != 0 || after.External < s.External+15*mib {
		t.Errorf("space %+v, was %+v, %v: what is in the trash is not a volume's", after, s, err)
	}
	purge(t, p)
}

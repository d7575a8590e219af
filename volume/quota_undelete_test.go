//go:build disk || vm

package volume_test

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// A volume that is brought back has the quota, the ID and the use that it had. While it is kept, no other
// volume gets the ID, and no sweep clears the quota.
func limitUndelete(t *testing.T, d quotaDisk) {
	c := volume.Config{Path: d.newPath(t), EnableBtrfsQuota: true, TrashRetention: time.Hour}
	p := opened(t, c)
	made := limited("v", 8*mib)
	if d.inodes {
		made.Inodes = 20
	}
	v, err := p.Create(made)
	ok(t, err)
	_, err = p.Bind("v", binding("v"))
	ok(t, err)
	_, err = pour(t, v.Path+"/f", 5*mib)
	ok(t, err)
	fd := dirFD(t, v.Path)
	ok(t, unix.Syncfs(fd))
	unix.Close(fd)
	before, err := p.QuotaUsage("v")
	ok(t, err)
	ok(t, p.Delete("v"))
	for range 2 {
		d.settle()
		purge(t, p)
		w, err := p.Create(limited("w", mib))
		if err != nil || w.QuotaID == v.QuotaID {
			t.Fatalf("another volume: %+v, %v", w, err)
		}
		ok(t, p.RollBack("w"))
		ok(t, p.Close())
		p = opened(t, c)
	}
	purge(t, p)
	kept := p.Kept()
	if len(kept) != 1 || kept[0].Bytes < 4*mib || kept[0].Bytes > 6*mib {
		t.Fatalf("kept are %+v", kept)
	}
	back, err := p.Undelete(kept[0].ID)
	if err != nil || back.QuotaID != v.QuotaID || !back.QuotaEnforced || back.NotEnforced != v.NotEnforced || back.Bytes != v.Bytes {
		t.Fatalf("brought back %+v, %v; was %+v", back, err, v)
	}
	if u, err := p.QuotaUsage("v"); err != nil || u.Limit != before.Limit || u.Bytes < before.Bytes-mib || u.Bytes > before.Bytes+mib {
		t.Errorf("uses %+v, %v; want %+v", u, err, before)
	}
	asRecorded(t, p)
	if n, err := pour(t, v.Path+"/f", 64*mib); !errors.Is(err, d.full) || n > 4*mib || n < mib {
		t.Errorf("wrote %d bytes more, %v", n, err)
	}
	if _, err := p.Expand("v", 16*mib); err != nil {
		t.Error(err)
	}
	asRecorded(t, p)
	consistent(t, p)
	ok(t, p.Delete("v"))
	ok(t, p.DropKept(p.Kept()[0].ID))
	purge(t, p)
	d.settle()
	purge(t, p)
	d.swept(t)
}

// A pool that is full of volumes and of what is kept: the volumes write all that they have, and another one
// gets the room of what is kept, and writes all of it, too.
func limitKeptFull(t *testing.T, d quotaDisk) {
	c := volume.Config{Path: d.newPath(t), EnableBtrfsQuota: true, TrashRetention: time.Hour, Reserve: 40 * mib}
	p := opened(t, c)
	fills := func(name string, bytes int64) {
		t.Helper()
		_, err := p.Bind(name, binding(name))
		ok(t, err)
		if n, err := pour(t, p.Path()+"/"+name+"/f", 1<<40); !errors.Is(err, d.full) || n < bytes-2*mib {
			t.Errorf("%s has %d bytes, and wrote %d: %v", name, bytes, n, err)
		}
	}
	_, err := p.Create(limited("v", 48*mib))
	ok(t, err)
	fills("v", 48*mib)
	testdisk.Sync(t, d.root)
	ok(t, p.Delete("v"))
	purge(t, p)
	s, err := p.Space()
	if err != nil || s.Kept < 40*mib || s.Kept > 50*mib {
		t.Fatalf("space %+v, %v", s, err)
	}
	first := s.Available - 12*mib
	_, err = p.Create(limited("w", first))
	ok(t, err)
	fills("w", first)
	if len(p.Kept()) != 1 {
		t.Error("a volume that is granted what is free removes what is kept")
	}
	testdisk.Sync(t, d.root)
	for end := time.Now().Add(time.Minute); ; {
		_, err = p.Create(limited("x", 16*mib))
		if err == nil || time.Now().After(end) {
			break
		}
		is(t, err, volume.ErrNoSpace)
		t.Log(err)
		purge(t, p)
		d.settle()
		time.Sleep(100 * time.Millisecond)
	}
	ok(t, err)
	if len(p.Kept()) != 0 {
		t.Errorf("still kept: %+v", p.Kept())
	}
	fills("x", 16*mib)
	for _, name := range []string{"w", "x"} {
		ok(t, p.Delete(name))
	}
	for _, k := range p.Kept() {
		ok(t, p.DropKept(k.ID))
	}
	purge(t, p)
	d.settle()
	purge(t, p)
	d.swept(t)
}

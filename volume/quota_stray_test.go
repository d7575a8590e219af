//go:build disk || vm

package volume_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// show makes a directory show a project ID, as root in the volume's pod can.
func show(t *testing.T, path string, id uint64, flags uint32) {
	t.Helper()
	fd := dirFD(t, path)
	defer unix.Close(fd)
	a, err := quota.GetAttr(fd)
	ok(t, err)
	a.Project, a.Flags = uint32(id), a.Flags&^quota.ProjectInherit|flags
	ok(t, quota.SetAttr(fd, a))
}

// A tenant gives its volume's directory another ID: another volume's, in this pool
// or in another on the disk, one that nothing has, or none.
func limitStray(t *testing.T, d quotaDisk) {
	if !d.inodes {
		return // a btrfs subvolume cannot change its ID
	}
	paths := [...]string{d.newPath(t), d.newPath(t)}
	var near, far *volume.Pool
	open := func() {
		near, far = configured(t, volume.Config{Name: "near", Path: paths[0]}), configured(t, volume.Config{Name: "far", Path: paths[1]})
		_, err := volume.NewPools(near, far)
		ok(t, err)
		ok(t, near.Open())
		ok(t, far.Open())
	}
	open()
	victim, err := near.Create(limited("a-victim", 64*mib))
	ok(t, err)
	distant, err := far.Create(limited("victim", 32*mib))
	ok(t, err)
	attacker, err := near.Create(limited("z-attacker", 16*mib))
	ok(t, err)
	for _, v := range []volume.Volume{victim, distant, attacker} {
		_, err = pour(t, v.Path+"/f", 4*mib)
		ok(t, err)
	}
	testdisk.Sync(t, d.root)
	check := func(when string, attackers int64) {
		t.Helper()
		for _, v := range []volume.Volume{victim, distant} {
			if u, err := inForce(v.Path); err != nil || u.Limit.Bytes != v.Bytes || u.Bytes > 6*mib {
				t.Errorf("%s: %s: %+v, %v", when, v.Name, u, err)
			}
		}
		if r := onDisk(t, near, "z-attacker"); r.QuotaID != attacker.QuotaID || r.Bytes != attackers {
			t.Errorf("%s: %+v", when, r)
		}
		s, err := near.Space()
		if err != nil || s.Allocated != 64*mib+attackers || s.Used < 8*mib-slack || s.Used > 12*mib {
			t.Errorf("%s: space %+v, %v", when, s, err)
		}
	}
	size := attacker.Bytes
	for name, row := range map[string]struct {
		id    uint64
		flags uint32
	}{
		"another's": {victim.QuotaID, quota.ProjectInherit}, "another pool's": {distant.QuotaID, quota.ProjectInherit},
		"nothing's": {attacker.QuotaID ^ 1, quota.ProjectInherit}, "none": {}, "not handed down": {attacker.QuotaID, 0},
	} {
		show(t, attacker.Path, row.id, row.flags)
		time.Sleep(1100 * time.Millisecond) // longer than a reading is current
		check(name+", shown", size)
		if v, err := near.Get("z-attacker"); err != nil || v.QuotaEnforced || !strings.Contains(v.NotEnforced, "not counted for it") {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
		_, err := near.QuotaUsage("z-attacker")
		is(t, err, volume.ErrNoQuotas)
		for _, when := range []string{"first start", "second start"} {
			ok(t, near.Close())
			ok(t, far.Close())
			open()
			check(name+", "+when, size)
			if w := near.Warnings(); len(w) > 1 || len(w) == 1 && !strings.Contains(w[0], "volume z-attacker was not counted") || when == "first start" && len(w) == 0 {
				t.Errorf("%s: %s: warnings %q", name, when, w)
			}
			if v, err := near.Get("z-attacker"); err != nil || !v.QuotaEnforced || v.NotEnforced != "" {
				t.Errorf("%s: %s: %+v, %v", name, when, v, err)
			}
			asRecorded(t, near)
		}
		show(t, attacker.Path, row.id, row.flags)
		size += mib
		if v, err := near.Expand("z-attacker", size); err != nil || !v.QuotaEnforced || v.Bytes != size {
			t.Errorf("%s: expanded: %+v, %v", name, v, err)
		}
		check(name+", expanded", size)
	}
	if n, err := pour(t, attacker.Path+"/g", 64*mib); !errors.Is(err, d.full) || n > size-3*mib {
		t.Errorf("the attacker wrote %d bytes, %v", n, err)
	}
	if n, err := pour(t, victim.Path+"/g", 4*mib); n != 4*mib || err != nil {
		t.Errorf("the victim wrote %d bytes, %v", n, err)
	}
	ok(t, far.Delete("victim"))
	purge(t, far)
	for _, name := range []string{"a-victim", "z-attacker"} {
		ok(t, near.Delete(name))
	}
	purge(t, near)
}

// Volumes whose records have no ID, or the same one as another's: no quota is changed, and
// nothing is counted twice.
func limitShared(t *testing.T, d quotaDisk) {
	if !d.inodes {
		return // a btrfs subvolume cannot change its ID
	}
	p := d.pool(t)
	victim, err := p.Create(limited("victim", 16*mib))
	ok(t, err)
	_, err = pour(t, victim.Path+"/f", 4*mib)
	ok(t, err)
	var also []volume.Volume
	for name, id := range map[string]uint64{"none": 0, "same": victim.QuotaID} {
		v, err := p.Create(limited(name, 8*mib))
		ok(t, err)
		show(t, v.Path, victim.QuotaID, quota.ProjectInherit)
		v.QuotaID = id
		also = append(also, v)
	}
	testdisk.Sync(t, d.root)
	ok(t, p.Close())
	for _, v := range also {
		recordFile(t, p.Path(), v.Record)
	}
	for range 2 {
		p = opened(t, volume.Config{Path: p.Path()})
		if u, err := inForce(filepath.Join(p.Path(), "victim")); err != nil || u.Limit.Bytes != 16*mib {
			t.Errorf("%+v, %v", u, err)
		}
		if w := p.Warnings(); len(w) != 3 {
			t.Errorf("warnings %q", w)
		}
		if s, err := p.Space(); err != nil || s.Used > 0 || s.Allocated != 32*mib {
			t.Errorf("space %+v, %v", s, err)
		}
		for _, v := range also {
			if r := onDisk(t, p, v.Name); r.QuotaID != v.QuotaID {
				t.Errorf("%+v", r)
			}
			_, err := p.Expand(v.Name, 12*mib)
			if err == nil || onDisk(t, p, v.Name).Bytes != 8*mib {
				t.Errorf("%v; %+v", err, onDisk(t, p, v.Name))
			}
		}
		ok(t, p.Close())
	}
	p = opened(t, volume.Config{Path: p.Path()})
	for _, v := range append(also, victim) {
		ok(t, p.Delete(v.Name))
	}
	purge(t, p)
}

// A pool that was copied, as a restore from a backup does: the directories are not counted under the
// IDs that their records have. Their volumes are not enforced, and say so; new ones are.
func limitCopied(t *testing.T, d quotaDisk) {
	p := d.pool(t)
	for _, name := range []string{"a", "b"} {
		v, err := p.Create(limited(name, 8*mib))
		ok(t, err)
		_, err = pour(t, v.Path+"/f", 2*mib)
		ok(t, err)
		_, err = p.Bind(name, binding(name))
		ok(t, err)
	}
	ok(t, p.Close())
	copied := filepath.Join(d.root, "copied")
	ok(t, os.CopyFS(copied, os.DirFS(p.Path())))
	p = opened(t, volume.Config{Path: p.Path()})
	for _, name := range []string{"a", "b"} {
		ok(t, p.Delete(name))
	}
	purge(t, p)
	testdisk.Sync(t, d.root)
	d.settle()
	purge(t, p) // what the kernel has freed by now
	ok(t, p.Close())

	p = opened(t, volume.Config{Path: copied, EnableBtrfsQuota: true})
	for _, name := range []string{"a", "b"} {
		v, err := p.Get(name)
		if err != nil || v.QuotaEnforced || !strings.Contains(v.NotEnforced, "not") {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
		if _, err := p.Expand(name, 16*mib); err == nil {
			t.Errorf("%s grows, and is not counted", name)
		}
	}
	for _, name := range []string{"new1", "new2"} {
		_, err := p.Create(limited(name, 8*mib))
		ok(t, err)
		if v, err := p.Expand(name, 16*mib); err != nil || !v.QuotaEnforced {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
	for _, name := range []string{"a", "b", "new1", "new2"} {
		ok(t, p.Delete(name))
	}
	purge(t, p)
}

//go:build disk

package quota

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A volume is removed while others have its blocks, also those of a subvolume that a tenant made in it.
// Once these are gone too, no qgroup is left.
func TestDiskBtrfsSweepAfterShares(t *testing.T) {
	p, _ := snapshots(t)
	s := p.Enforcer.(Snapshotter)
	groups, err := groupsDir(p.base)
	ok(t, err)
	left := func() []string {
		flush(t, p.base)
		all, err := filepath.Glob(filepath.Join(groups, "[01]_*"))
		ok(t, err)
		return all
	}
	before := len(left())
	v, fd := p.volume("v", Limit{Bytes: 16 * mib})
	ok(t, subvolume(fd, btrfsSubvolCreate, "inner"))
	w, wfd := p.volume("w", Limit{Bytes: 16 * mib})
	for _, name := range []string{"data", "inner/data"} {
		f := create(t, v+"/"+name)
		_, err := pour(f, 4*mib)
		ok(t, err)
		flush(t, fd)
		to := create(t, filepath.Join(w, filepath.Base(filepath.Dir("/"+name))+".shared"))
		ok(t, unix.IoctlFileClone(int(to.Fd()), int(f.Fd())))
		ok(t, f.Close())
		ok(t, to.Close())
	}
	ok(t, s.Snapshot(fd, p.stage, "c"))
	ok(t, unix.Renameat2(p.stage, "c", p.base, "c", unix.RENAME_NOREPLACE))
	c := open(t, p.path+"/c")
	_, err = s.SetSnapshot(c, Limit{Bytes: 16 * mib})
	ok(t, err)
	remove := func(name string, fd int) {
		t.Helper()
		shut(fd)
		if removed, err := p.Remove(p.base, name); !removed || err != nil {
			t.Fatalf("%s is removed: %v, %v", name, removed, err)
		}
	}
	ok(t, subvolume(fd, btrfsSnapDestroy, "inner"))
	remove("v", fd)
	ok(t, os.WriteFile(w+"/stays", nil, 0o600))
	await(t, "the subvolumes to be dropped", func() bool { // 0 and 1 of v, 0 of inner, 0 and 1 of w and c
		_, err := p.Sweep(p.base)
		ok(t, err)
		return len(left()) == before+7
	})
	remove("c", c)
	remove("w", wfd)
	await(t, "all qgroups to be removed", func() bool {
		_, err := p.Sweep(p.base)
		ok(t, err)
		return len(left()) == before
	})
}

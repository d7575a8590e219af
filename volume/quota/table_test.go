//go:build disk || vm

package quota

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A disk is a filesystem with quotas, and what differs from one to the next.
type disk struct {
	method  Method
	full    unix.Errno // of a write past the quota
	statfs  bool       // shows the quota
	mount   func(t *testing.T) string
	remount func(t *testing.T, dir string) // unmounts and mounts it again
}

const mib = 1 << 20

// table runs every row on one filesystem.
func table(t *testing.T, d disk) {
	t.Helper()
	rows := []struct {
		name string
		run  func(t *testing.T, d disk, p pool)
	}{
		{"WritePastTheLimit", testWritePastTheLimit},
		{"RoundedUp", testRoundedUp},
		{"Raise", testRaise},
		{"Lower", testLower},
		{"DeletedSpaceIsFree", testDeletedSpaceIsFree},
		{"Inodes", testInodes},
		{"SetAgain", testSetAgain},
		{"Foreign", testForeign},
		{"Stray", testStray},
		{"Taken", testTaken},
		{"RenameKeepsTheLimit", testRenameKeepsTheLimit},
		{"OutsideStaysOutside", testOutsideStaysOutside},
		{"Concurrent", testConcurrent},
		{"Sweep", testSweep},
		{"SurvivesRemount", testSurvivesRemount},
	}
	path := d.mount(t)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) { row.run(t, d, newPool(t, d, path)) })
	}
}

// A pool is a directory with those that volumes go through.
type pool struct {
	Enforcer
	t                 *testing.T
	root, path        string // where the disk is mounted, and the pool
	base, stage, bins int    // the pool, its staging and its trash
}

func newPool(t *testing.T, d disk, path string) pool {
	t.Helper()
	p := pool{t: t, root: path, path: filepath.Join(path, filepath.Base(t.Name()))}
	for _, name := range []string{"", "staging", "trash"} {
		ok(t, os.MkdirAll(filepath.Join(p.path, name), 0o777))
	}
	p.base, p.stage, p.bins = open(t, p.path), open(t, p.path+"/staging"), open(t, p.path+"/trash")
	e, err := Probe(p.base, Hooks{})
	ok(t, err)
	if s := e.Support(); s.Method != d.method || s.Reason != "" {
		t.Fatalf("support %+v", s)
	}
	p.Enforcer = e
	return p
}

// volume makes a volume with a quota and returns its directory.
func (p pool) volume(name string, l Limit) (dir string, fd int) {
	p.t.Helper()
	ok(p.t, p.Make(p.stage, name))
	fd = open(p.t, p.path+"/staging/"+name)
	if _, err := p.Set(fd, 0, l); err != nil {
		p.t.Fatal(err)
	}
	ok(p.t, unix.Fchmod(fd, 0o777))
	ok(p.t, unix.Renameat2(p.stage, name, p.base, name, unix.RENAME_NOREPLACE))
	return filepath.Join(p.path, name), fd
}

// again is another Set of a volume.
func (p pool) again(fd int, l Limit) (uint64, error) {
	p.t.Helper()
	var given uint64
	if p.Support().Method != MethodBtrfs {
		id, err := projectOf(fd)
		ok(p.t, err)
		given = uint64(id)
	}
	return p.Set(fd, given, l)
}

func (p pool) usage(fd int) Usage {
	p.t.Helper()
	u, err := p.Usage(fd, 0)
	ok(p.t, err)
	return u
}

//go:build disk

package volume_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// moving is a node whose agent starts before the pool's disk is mounted.
type moving struct {
	*testing.T
	at, path string // the mount point, and the pool at it or below
	expected pooldir.Expected
	pool     *volume.Pool
	first    string // the identity on the disk below
}

// newMoving founds a pool on the disk below.
func newMoving(t *testing.T, kind, below string) *moving {
	at := filepath.Join(testdisk.Mount(t, kind), "mnt")
	m := &moving{T: t, at: at, path: filepath.Join(at, below)}
	mkdir(t, at)
	m.boot()
	m.first = m.pool.ID()
	return m
}

// boot starts the agent, again if it runs.
func (m *moving) boot() {
	m.Helper()
	if m.pool != nil {
		ok(m.T, m.pool.Close())
	}
	m.pool = configured(m.T, volume.Config{Path: m.path, Expected: func() pooldir.Expected { return m.expected }})
	_ = m.pool.Open() // as an agent does
}

// disk makes an empty disk, and one with a pool and a volume where it is given a name.
func (m *moving) disk(volumes ...string) (image, id string) {
	m.Helper()
	image = testdisk.Image(m.T, "ext4")
	if len(volumes) == 0 {
		return image, ""
	}
	dir := m.TempDir()
	testdisk.Attach(m.T, image, dir)
	rest, err := filepath.Rel(m.at, m.path)
	ok(m.T, err)
	p := opened(m.T, volume.Config{Path: filepath.Join(dir, rest)})
	for _, name := range volumes {
		_, err := p.Create(spec(name, 1))
		ok(m.T, err)
	}
	id = p.ID()
	ok(m.T, p.Close())
	testdisk.Detach(m.T, dir)
	return image, id
}

func (m *moving) mount(image string) { m.Helper(); testdisk.Attach(m.T, image, m.at) }

func (m *moving) unmount() { m.Helper(); testdisk.Detach(m.T, m.at) }

// is fails the test unless the pool is ready and of that identity; of a new one where that is "".
func (m *moving) is(id string) {
	m.Helper()
	ok(m.T, m.pool.Ready())
	if got := m.pool.ID(); id != "" && got != id || got == m.first && id != m.first {
		m.Fatalf("the pool is %s, was founded as %s, want %q", got, m.first, id)
	}
	if identityOf(m.T, m.path) != m.pool.ID() {
		m.Fatalf("the disk has another identity than %s", m.pool.ID())
	}
}

func (m *moving) notReady(words string) {
	m.Helper()
	err := m.pool.Ready()
	if is(m.T, err, volume.ErrNotReady); !strings.Contains(err.Error(), words) {
		m.Fatalf("%v, want words %q", err, words)
	}
}

// below fails the test unless the disk below has that identity, "" being none. Nothing is mounted
// over it.
func (m *moving) below(id string) {
	m.Helper()
	got := ""
	if there(filepath.Join(m.path, private, "pool.json")) {
		got = identityOf(m.T, m.path)
	}
	if got != id {
		m.Fatalf("the disk below has the identity %q, want %q", got, id)
	}
}

// A disk that is mounted after the agent's first start. Pools that are empty and were never used
// move to it, and never back.
func TestDiskMountedLater(t *testing.T) {
	for _, kind := range testdisk.Kinds() {
		for _, below := range []string{"", "csi"} {
			for _, row := range []struct {
				name string
				do   func(m *moving)
			}{
				{"first mount", func(m *moving) {
					image, _ := m.disk()
					m.mount(image)
					m.is("")
					_, err := m.pool.Create(spec("v", 1))
					ok(m.T, err)
				}},
				{"first mount, of a disk that has the pool", func(m *moving) {
					image, id := m.disk("v")
					m.mount(image)
					m.is(id)
					_, err := m.pool.Get("v")
					ok(m.T, err)
				}},
				{"unmounted again", func(m *moving) {
					image, _ := m.disk()
					m.mount(image)
					m.is("")
					m.unmount()
					m.notReady("its disk is probably not mounted")
					m.below("")
				}},
				{"mounted again", func(m *moving) {
					image, _ := m.disk()
					m.mount(image)
					m.is("")
					id := m.pool.ID()
					m.unmount()
					m.notReady("not mounted")
					m.mount(image)
					m.is(id)
				}},
				{"another disk instead", func(m *moving) {
					image, _ := m.disk()
					other, _ := m.disk("v")
					m.mount(image)
					m.is("")
					m.unmount()
					m.mount(other)
					m.notReady("another disk is probably mounted")
				}},
				{"started again without the disk", func(m *moving) {
					image, _ := m.disk()
					m.mount(image)
					m.is("")
					id := m.pool.ID()
					m.expected.IDs = []string{id} // a PV was made meanwhile
					m.unmount()
					m.boot()
					m.notReady("its disk is probably not mounted")
					m.below("")
					m.mount(image)
					m.is(id)
				}},
				{"started again without the disk, which nothing names", func(m *moving) {
					image, _ := m.disk()
					m.mount(image)
					m.is("")
					id := m.pool.ID()
					m.unmount()
					m.boot()
					ok(m.T, m.pool.Ready())
					m.mount(image)
					m.is(id)
				}},
			} {
				t.Run(kind+"/"+below+"/"+row.name, func(t *testing.T) { row.do(newMoving(t, kind, below)) })
			}
		}
	}
}

// A pool that holds something, held something, or is named, stays where it is.
func TestDiskMountedOverAUsedPool(t *testing.T) {
	for name, use := range map[string]func(m *moving){
		"a volume": func(m *moving) {
			_, err := m.pool.Create(spec("v", 1))
			ok(m.T, err)
		},
		"a volume that is gone": func(m *moving) {
			_, err := m.pool.Create(spec("v", 1))
			ok(m.T, err)
			ok(m.T, m.pool.Delete("v"))
			purge(m.T, m.pool)
		},
		"a volume that is gone, and a start": func(m *moving) {
			_, err := m.pool.Create(spec("v", 1))
			ok(m.T, err)
			ok(m.T, m.pool.Delete("v"))
			purge(m.T, m.pool)
			m.boot()
		},
		"a directory without a record": func(m *moving) { mkdir(m.T, filepath.Join(m.path, "somebodys")) },
		"something in the trash":       func(m *moving) { mkdir(m.T, filepath.Join(m.path, trash, "x")) },
		"a damaged record":             func(m *moving) { write(m.T, filepath.Join(m.path, records, "v"), "{"); m.boot() },
		"a PV that names it":           func(m *moving) { m.expected.IDs = []string{m.first} },
		"the same directory again": func(m *moving) {
			testdisk.Bind(m.T, m.at, m.at)
			m.is(m.first)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMoving(t, "ext4", "")
			use(m)
			if name == "the same directory again" {
				return
			}
			image, _ := m.disk()
			m.mount(image)
			m.notReady("its disk is probably not mounted")
			if got := names(t, m.path); strings.Join(got, "") != "lost+found" {
				t.Errorf("made %v on the other disk", got)
			}
			m.unmount()
			m.is(m.first)
		})
	}
}

// Where the pool was founded below and the new disk cannot be used yet, the pool waits for that
// disk.
func TestDiskMountedLaterReadOnly(t *testing.T) {
	m := newMoving(t, "ext4", "")
	image, _ := m.disk()
	m.mount(image)
	testdisk.Run(t, "mount", "-o", "remount,ro", m.at)
	m.notReady("read-only")
	testdisk.Run(t, "mount", "-o", "remount,rw", m.at)
	m.is("")
	if _, err := os.Stat(filepath.Join(m.at, private)); err != nil {
		t.Error(err)
	}
}

// A pool that names its mount waits for it, and makes nothing on the disk below, whatever happens
// to the mount.
func TestDiskMountIsNamed(t *testing.T) {
	// As in a pod: what is given to it is a mount itself, and the disk is mounted in that.
	given := testdisk.Mount(t, "ext4")
	for _, below := range []string{"", "csi"} {
		at := filepath.Join(given, "disk"+below)
		path := filepath.Join(at, below)
		p := configured(t, volume.Config{Path: path, Mount: at})
		notReady := func(words string) {
			t.Helper()
			err := p.Ready()
			if is(t, err, volume.ErrNotReady); !strings.Contains(err.Error(), words) {
				t.Fatalf("%v, want words %q", err, words)
			}
		}
		is(t, p.Open(), volume.ErrNotReady)
		notReady("is missing")
		mkdir(t, path)
		notReady("is no mount point")
		testdisk.Bind(t, at, at)
		notReady("that very directory")
		testdisk.Detach(t, at)

		first, other := testdisk.Image(t, "xfs"), testdisk.Image(t, "ext4")
		testdisk.Attach(t, first, at)
		ok(t, p.Ready())
		id := p.ID()
		testdisk.Detach(t, at)
		notReady("is no mount point")
		testdisk.Attach(t, other, at)
		notReady("its disk is probably not mounted") // but another one
		testdisk.Detach(t, at)
		testdisk.Attach(t, first, at)
		ok(t, p.Ready())
		testdisk.Detach(t, at)

		// Started again without the disk, and mounted then.
		ok(t, p.Close())
		p = configured(t, volume.Config{Path: path, Mount: at})
		is(t, p.Open(), volume.ErrNotReady)
		notReady("is no mount point")
		testdisk.Attach(t, first, at)
		ok(t, p.Ready())
		if p.ID() != id {
			t.Errorf("the pool is %s, was %s", p.ID(), id)
		}
		testdisk.Detach(t, at)
		if got := names(t, path); len(got) > 0 {
			t.Errorf("made %v on the disk below", got)
		}
	}
}

//go:build disk

package volume_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// owned is a spec with all that can be asked of a directory.
func owned(name string) volume.Spec {
	s := spec(name, mib)
	s.Mode, s.UID, s.GID = 0o2750, 1000, 2000
	return s
}

// isOwned fails the test unless the directory has the mode, owner and group of owned.
func isOwned(t *testing.T, path string) {
	t.Helper()
	var st unix.Stat_t
	ok(t, unix.Stat(path, &st))
	if st.Mode&0o7777 != 0o2750 || st.Uid != 1000 || st.Gid != 2000 {
		t.Errorf("%s has mode %o, uid %d, gid %d", path, st.Mode&0o7777, st.Uid, st.Gid)
	}
}

func TestDiskOwner(t *testing.T) {
	for _, kind := range testdisk.Kinds() {
		t.Run(kind, func(t *testing.T) {
			path := filepath.Join(testdisk.Mount(t, kind), "pool")
			p := opened(t, volume.Config{Path: path, EnableBtrfsQuota: true})
			v, err := p.Create(owned("v"))
			ok(t, err)
			isOwned(t, v.Path)

			// Its users may change it; a retry neither minds nor changes it back.
			ok(t, os.Chown(v.Path, 3000, 3000))
			again, err := p.Create(owned("v"))
			if err != nil || again.UID != 1000 {
				t.Errorf("%+v, %v", again, err)
			}
			for _, change := range []func(*volume.Spec){
				func(s *volume.Spec) { s.Mode = 0o750 },
				func(s *volume.Spec) { s.UID = 0 },
				func(s *volume.Spec) { s.GID = 3000 },
			} {
				s := owned("v")
				change(&s)
				if _, err := p.Create(s); !errors.Is(err, volume.ErrConflict) {
					t.Errorf("%+v over %+v: %v", s, v.Record, err)
				}
			}
			s := owned("w")
			s.Mode = 0o4755
			if _, err := p.Create(s); !errors.Is(err, volume.ErrInvalid) {
				t.Errorf("setuid: %v", err)
			}

			// The record has them after a restart.
			ok(t, p.Close())
			p = opened(t, volume.Config{Path: path})
			if v, err := p.Get("v"); err != nil || v.Mode != 0o2750 || v.UID != 1000 || v.GID != 2000 {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}

// An agent that is killed between two properties leaves no volume with only some of them.
func TestDiskOwnerKilled(t *testing.T) {
	for _, at := range []string{"create.mode", "create.owner", "create.record", "create.rename"} {
		t.Run(at, func(t *testing.T) {
			path := filepath.Join(testdisk.Mount(t, "xfs"), "pool")
			killed := errors.New("killed")
			p := configured(t, volume.Config{Path: path, Step: func(name string) {
				if name == at {
					panic(killed)
				}
			}})
			ok(t, p.Open())
			func() {
				defer func() {
					if recover() != killed {
						t.Error("it was not killed")
					}
				}()
				_, _ = p.Create(owned("v"))
			}()
			p.Close()
			p = opened(t, volume.Config{Path: path})
			v, err := p.Create(owned("v"))
			ok(t, err)
			isOwned(t, v.Path)
		})
	}
}

//go:build disk

package volume_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// occupy takes the rest of the disk, to the last byte.
func occupy(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	ok(t, err)
	defer f.Close()
	for size := mib; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, unix.ENOSPC) {
			size /= 2
		} else {
			ok(t, err)
		}
	}
	_ = f.Sync() // on btrfs the rest may be less than it said
}

// Another program takes the rest of the disk while a copy is made. Either all of the copy is there, or the
// error says that there is no space, and nothing of it is left; also if the process ends right then. The
// source stays as it is, and once there is room the copy can be made.
func TestDiskCloneOnADiskThatFills(t *testing.T) {
	for _, kind := range testdisk.Kinds() {
		t.Run(kind, func(t *testing.T) {
			root, full := testdisk.Mount(t, kind), false
			other := filepath.Join(root, "of another program")
			config := volume.Config{Path: root + "/pool", Step: func(step string) {
				if (step == "clone.copy" || step == "clone.snapshot") && full {
					occupy(t, other)
				}
			}}
			p := opened(t, config)
			v, err := p.Create(spec("v", 32*mib))
			ok(t, err)
			data := random(t, v.Path+"/data", 16*mib)
			_, err = p.Bind("v", binding("v"))
			ok(t, err)
			full = true
			c, err := awaited(p, cloneOf(p, spec("c", 32*mib)))
			full = false
			if err == nil {
				sameContent(t, c.Path+"/data", data)
			} else if is(t, err, volume.ErrNoSpace); !strings.Contains(err.Error(), "request more") {
				t.Errorf("%v does not say what to do", err)
			} else if there(filepath.Join(root, "pool", "c")) || len(names(t, filepath.Join(root, "pool", staging))) > 0 {
				t.Errorf("after %v there is a part of a copy", err)
			}
			sameContent(t, v.Path+"/data", data)
			ok(t, p.Close())
			ok(t, os.Remove(other))
			p = opened(t, config)
			purge(t, p)
			consistent(t, p)
			c, err = awaited(p, cloneOf(p, spec("c", 32*mib)))
			ok(t, err)
			sameContent(t, c.Path+"/data", data)
			if left := append(names(t, filepath.Join(root, "pool", staging)), names(t, filepath.Join(root, "pool", trash))...); len(left) > 0 {
				t.Errorf("staging and trash have %q", left)
			}
		})
	}
}

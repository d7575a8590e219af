//go:build disk

package volume_test

import (
	"errors"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

func TestDiskLimits(t *testing.T) {
	t.Parallel() // with TestDiskKilledForReal, which has another disk
	root := t.TempDir()
	testdisk.Attach(t, testdisk.Image(t, "btrfs"), root, "commit=1")
	limitTable(t, quotaDisk{
		root: root, method: quota.MethodBtrfs, full: unix.EDQUOT,
		settle: func() {
			if out, err := exec.Command("btrfs", "subvolume", "sync", root).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		},
	})
}

// The same as the scenes, with a process that the kernel kills.
func TestDiskKilledForReal(t *testing.T) {
	t.Parallel()
	root := testdisk.Mount(t, "btrfs")
	d := quotaDisk{root: root, method: quota.MethodBtrfs}
	d.pool(t) // turns on what is off
	g := d.ground(dieForReal)
	g.starts = map[string]bool{} // a start that dies is the same in every process
	for _, s := range scenes {
		switch s.name {
		case "create", "expand", "delete", "undo", "bind", "adopt":
			t.Run(s.name, func(t *testing.T) { g.play(t, s) })
		}
	}
}

// A create that fails at its last step, and is mended without a new start.
func TestDiskLimitsTurnsReadOnly(t *testing.T) {
	path := testdisk.Mount(t, "btrfs")
	armed := false
	p := opened(t, volume.Config{Path: path, EnableBtrfsQuota: true, Step: func(step string) {
		if armed && step == "create.rename" {
			testdisk.Run(t, "mount", "-o", "remount,ro", path)
		}
	}})
	armed = true
	_, err := p.Create(limited("v", mib))
	is(t, err, volume.ErrNotReady)
	armed = false
	testdisk.Run(t, "mount", "-o", "remount,rw", path)
	if v, err := p.Create(limited("v", mib)); err != nil || !v.QuotaEnforced {
		t.Errorf("%+v, %v", v, err)
	}
	asRecorded(t, p)
}

// An agent without the capability reports that, instead of failing every claim.
func TestDiskLimitsWithoutPrivilege(t *testing.T) {
	path := testdisk.Mount(t, "btrfs")
	p := opened(t, volume.Config{Path: path, EnableBtrfsQuota: true})
	_, err := p.Create(limited("v", mib))
	ok(t, err)
	ok(t, p.Delete("v"))
	ok(t, p.Close())
	without := func(string) { // a call has a thread of its own from its first step on, which ends with it
		runtime.LockOSThread()
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		err := unix.Capget(&head, &data[0])
		data[0].Effective &^= 1 << unix.CAP_SYS_ADMIN
		if err := errors.Join(err, unix.Capset(&head, &data[0])); err != nil {
			t.Error(err)
		}
	}
	p = opened(t, volume.Config{Path: path, Step: without})
	if s := p.Quotas(); s.Method != quota.MethodNone || !strings.Contains(s.Reason, "SYS_ADMIN") {
		t.Errorf("%+v", s)
	}
	v, err := p.Create(spec("w", mib))
	if err != nil || v.QuotaEnforced || isSubvolume(t, v) {
		t.Errorf("%+v, %v", v, err)
	}
	purge(t, p) // the subvolume, too
}

// No filesystem gets a feature that was not requested.
func TestDiskLimitsNotTurnedOn(t *testing.T) {
	path := testdisk.Mount(t, "btrfs")
	p := opened(t, volume.Config{Path: path})
	if s := p.Quotas(); s.Method != quota.MethodNone || !strings.Contains(s.Reason, "squota") {
		t.Errorf("%+v", s)
	}
	v, err := p.Create(spec("v", mib))
	if err != nil || v.QuotaEnforced || v.NotEnforced != p.Quotas().Reason || !isSubvolume(t, v) {
		t.Errorf("%+v, %v", v, err)
	}
	_, err = p.Create(limited("must", mib))
	if is(t, err, volume.ErrNoQuotas); !strings.Contains(err.Error(), p.Quotas().Reason) {
		t.Error(err)
	}
	if got := names(t, path+"/"+records); len(got) != 1 {
		t.Errorf("records %v", got)
	}
	ok(t, p.Close())
	// Turned on later, it holds what is made from then on.
	p = opened(t, volume.Config{Path: path, EnableBtrfsQuota: true})
	if v, err = p.Get("v"); err != nil || v.QuotaEnforced || v.NotEnforced == "" {
		t.Errorf("%+v, %v", v, err)
	}
	if v, err = p.Create(limited("must", mib)); err != nil || !v.QuotaEnforced {
		t.Errorf("%+v, %v", v, err)
	}
	ok(t, p.Close())
	testdisk.Run(t, "btrfs", "quota", "disable", path)
	p = opened(t, volume.Config{Path: path})
	if v, err = p.Get("must"); err != nil || v.QuotaEnforced || v.NotEnforced != p.Quotas().Reason || len(p.Warnings()) == 0 {
		t.Errorf("%+v, %v; warnings %q", v, err, p.Warnings())
	}
	ok(t, p.Delete("must"))
	purge(t, p)
}

// A volume that cannot grow, because its quota cannot be raised, is as it was: in
// memory, on the disk, and in what is allocated. It grows once the quota can be.
func TestDiskExpandRestores(t *testing.T) {
	path := testdisk.Mount(t, "btrfs")
	var steps []string
	p := opened(t, volume.Config{Path: path + "/pool", EnableBtrfsQuota: true, Step: func(step string) { steps = append(steps, step) }})
	before, err := p.Create(limited("v", 4*mib))
	ok(t, err)
	testdisk.Run(t, "btrfs", "quota", "disable", path)
	for range 2 {
		steps = nil
		_, err = p.Expand("v", 16*mib)
		if is(t, err, volume.ErrNoQuotas); !slices.Contains(steps, "expand.restore") {
			t.Errorf("steps %v", steps)
		}
		if v, err := p.Get("v"); err != nil || v.Bytes != 4*mib || v.QuotaID != before.QuotaID {
			t.Errorf("%+v, %v", v, err)
		}
		if r := onDisk(t, p, "v"); r.Bytes != 4*mib || r.QuotaID != before.QuotaID {
			t.Errorf("on disk: %+v", r)
		}
		if s, err := p.Space(); err != nil || s.Allocated != 4*mib {
			t.Errorf("space %+v, %v", s, err)
		}
		consistent(t, p)
	}
	ok(t, p.Close())
	p = opened(t, volume.Config{Path: path + "/pool", EnableBtrfsQuota: true})
	if v, err := p.Expand("v", 16*mib); err != nil || v.Bytes != 16*mib || !v.QuotaEnforced {
		t.Errorf("%+v, %v", v, err)
	}
	asRecorded(t, p)
}

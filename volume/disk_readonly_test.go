//go:build disk

package volume_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// tenant runs a tool as root or any other user in a container does.
func tenant(t *testing.T, uid string, args ...string) {
	t.Helper()
	args = append([]string{"--reuid", uid, "--regid", uid, "--clear-groups", "--inh-caps", "-all", "--bounding-set", "-all"}, args...)
	if out, err := exec.Command("setpriv", args...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
}

// onBtrfs is a pool that tenants reach into, with quotas and without.
func onBtrfs(t *testing.T, do func(t *testing.T, p *volume.Pool)) {
	for _, limits := range []bool{false, true} {
		t.Run(fmt.Sprint("limits ", limits), func(t *testing.T) {
			disk := testdisk.Mount(t, "btrfs")
			p := opened(t, volume.Config{Path: filepath.Join(disk, "pool"), EnableBtrfsQuota: limits})
			for _, dir := range []string{filepath.Dir(disk), disk, p.Path()} {
				ok(t, os.Chmod(dir, 0o755))
			}
			do(t, p)
		})
	}
}

// Subvolumes that a tenant of any user ID made read-only go with its volume, and
// so does a volume whose own root was made read-only by root in a container,
// which has no capability for that.
func TestDiskReadOnlySubvolumes(t *testing.T) {
	onBtrfs(t, func(t *testing.T, p *volume.Pool) {
		for _, uid := range []string{"0", "1000"} {
			v, err := p.Create(spec("of-"+uid, 16<<20))
			ok(t, err)
			sub := filepath.Join(v.Path, "sub")
			for _, dir := range []string{sub, sub + "/nested"} {
				tenant(t, uid, "btrfs", "-q", "subvolume", "create", dir)
				tenant(t, uid, "sh", "-c", "mkdir -p "+dir+"/a/b; echo x > "+dir+"/a/b/data")
			}
			for _, dir := range []string{sub + "/nested", sub} {
				tenant(t, uid, "btrfs", "property", "set", "-ts", dir, "ro", "true")
			}
			if err := os.WriteFile(sub+"/new", nil, 0o600); !errors.Is(err, unix.EROFS) {
				t.Fatalf("it can be written to: %v; the test proves nothing", err)
			}
			if uid == "0" && v.QuotaEnforced {
				tenant(t, uid, "btrfs", "property", "set", "-ts", v.Path, "ro", "true")
			}
			ok(t, p.Delete(v.Name))
		}
		purge(t, p)
		ok(t, os.Chmod(p.Path(), 0o700))
		consistent(t, p)
	})
}

// Nothing keeps a deletion that began before its volume became read-only, and the
// pool with it, from going on at the next start.
func TestDiskReadOnlyAtStart(t *testing.T) {
	disk := testdisk.Mount(t, "btrfs")
	p := opened(t, volume.Config{Path: filepath.Join(disk, "pool"), EnableBtrfsQuota: true})
	v, err := p.Create(spec("v", 16<<20))
	ok(t, err)
	purge(t, p)
	r := onDisk(t, p, "v")
	ok(t, p.Close())
	r.State = record.Deleting // as programs before this one wrote it
	recordFile(t, p.Path(), r)
	testdisk.Run(t, "btrfs", "property", "set", "-ts", v.Path, "ro", "true")
	p = opened(t, volume.Config{Path: p.Path()})
	purge(t, p)
	consistent(t, p)
}

// A pool on which a removal met a read-only subvolume is ready; one whose
// filesystem is read-only is not.
func TestDiskReadOnlyIsNotThePool(t *testing.T) {
	disk := testdisk.Mount(t, "btrfs")
	home := filepath.Join(disk, "home")
	testdisk.Run(t, "btrfs", "-q", "subvolume", "create", home)
	p := opened(t, volume.Config{Path: filepath.Join(home, "pool")})
	_, err := p.Create(spec("v", 1))
	ok(t, err)
	testdisk.Run(t, "btrfs", "property", "set", "-ts", home, "ro", "true")
	err = p.Delete("v")
	if !errors.Is(err, unix.EROFS) || errors.Is(err, volume.ErrNotReady) {
		t.Errorf("its subvolume is read-only: %v", err)
	}
	testdisk.Run(t, "mount", "-o", "remount,ro", disk)
	is(t, p.Delete("v"), volume.ErrNotReady)
	testdisk.Run(t, "mount", "-o", "remount,rw", disk)
	testdisk.Run(t, "btrfs", "property", "set", "-ts", home, "ro", "false")
	ok(t, p.Delete("v"))
}

// An entry of more files than a turn has attempts, none of which can be removed,
// ends a purge like one of a single file: with a reason, which inspect has too.
// The others go.
func TestDiskStuckInTheTrash(t *testing.T) {
	if path := os.Getenv(confinedPool); path != "" {
		p := opened(t, volume.Config{Path: path})
		for _, name := range []string{"many", "one", "fine"} {
			ok(t, p.Delete(name))
		}
		for range 2 {
			more, err := p.Purge(t.Context())
			if stuck := p.Trash().Stuck; err == nil || !more || errors.Is(err, volume.ErrNotReady) || len(stuck) != 2 ||
				!strings.Contains(err.Error(), "10000 attempts") || !strings.Contains(stuck[0], "once volume") {
				t.Errorf("more %v, %v, stuck %q", more, err, stuck)
			}
		}
		return
	}
	path := filepath.Join(testdisk.Mount(t, "ext4"), "pool")
	p := opened(t, volume.Config{Path: path})
	for name, files := range map[string]int{"many": 10001, "one": 1, "fine": 1} {
		_, err := p.Create(spec(name, mib))
		ok(t, err)
		dir := filepath.Join(path, name, "frozen")
		mkdir(t, dir)
		for i := range files {
			write(t, filepath.Join(dir, fmt.Sprint(i)), "")
		}
		if name != "fine" {
			testdisk.Run(t, "chattr", "-R", "+i", dir)
			testdisk.Run(t, "chattr", "-i", dir)
		}
	}
	ok(t, p.Close())
	out, err := confined(t, "TestDiskStuckInTheTrash", path, []string{"DAC_OVERRIDE", "FOWNER"})
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	r, err := inspect.Read(path)
	ok(t, err)
	for _, entry := range r.Trash {
		if entry.Name == "" || entry.Name == "fine" || !strings.Contains(entry.Stuck, "not permitted") {
			t.Errorf("in the trash %+v", entry)
		}
	}
	if len(r.Trash) != 2 {
		t.Errorf("%d entries in the trash", len(r.Trash))
	}
	p = opened(t, volume.Config{Path: path})
	purge(t, p) // with all capabilities
	if stuck := p.Trash().Stuck; len(stuck) > 0 {
		t.Errorf("stuck: %q", stuck)
	}
	consistent(t, p)
}

//go:build disk

package poolmount_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/mount"
	"kubevirt.io/hostpath-provisioner/volume/poolmount"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// pool is for whom the filesystem is mounted.
var pool = poolmount.Owner{Pool: "p", Claim: "uid"}

// node has a directory as the holder's container sees it, and as the host and an agent see it.
type node struct {
	inside, host, agent string
}

// newNode makes the directory one whose mounts propagate, as Bidirectional does.
func newNode(t *testing.T) node {
	t.Helper()
	n := node{t.TempDir(), t.TempDir(), t.TempDir()}
	testdisk.Bind(t, n.host, n.host)
	for _, row := range []struct {
		from, to string
		flags    uintptr
	}{{"", n.host, unix.MS_SHARED}, {n.host, n.inside, unix.MS_BIND}, {n.host, n.agent, unix.MS_BIND}, {"", n.agent, unix.MS_SLAVE}} {
		if err := unix.Mount(row.from, row.to, "", row.flags, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			testdisk.Detach(t, filepath.Join(row.to, "csi"))
			testdisk.Detach(t, row.to)
		})
	}
	return n
}

func (n node) path() string { return filepath.Join(n.inside, "csi") }

// mounts returns how many mounts there are at the pool's directory, as each of the three sees it.
func (n node) mounts(t *testing.T) (counts [3]int) {
	t.Helper()
	all, err := mount.Self()
	if err != nil {
		t.Fatal(err)
	}
	for i, dir := range []string{n.host, n.inside, n.agent} {
		for _, m := range all {
			if m.Point == filepath.Join(dir, "csi") {
				counts[i]++
			}
		}
	}
	return counts
}

func (n node) wantMounts(t *testing.T, want int) {
	t.Helper()
	if got := n.mounts(t); got != [3]int{want, want, want} {
		t.Fatalf("the host, the container and the agent have %v mounts, want %d", got, want)
	}
}

// claims are volumes as claims have them.
func claims(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{"directory": t.TempDir(), "tmpfs": t.TempDir()}
	for _, kind := range testdisk.Kinds() {
		all[kind] = testdisk.Mount(t, kind)
	}
	volume := filepath.Join(all["ext4"], "volume") // as a hostPath volume, whose root is not /
	if err := os.Mkdir(volume, 0o755); err != nil {
		t.Fatal(err)
	}
	testdisk.Bind(t, volume, all["directory"])
	if err := unix.Mount("tmpfs", all["tmpfs"], "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { testdisk.Detach(t, all["tmpfs"]) })
	return all
}

func TestDiskAttach(t *testing.T) {
	testdisk.Root(t)
	for kind, claim := range claims(t) {
		t.Run(kind, func(t *testing.T) {
			n := newNode(t)
			if err := os.WriteFile(filepath.Join(claim, "data"), []byte(kind), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second does nothing
				must(t, poolmount.Attach(claim, n.path(), pool))
				n.wantMounts(t, 1)
			}
			wantData(t, filepath.Join(n.host, "csi/data"), kind)
			restarted(t, n, claim)
			busy(t, n)
			must(t, poolmount.Detach(n.path(), pool))
			n.wantMounts(t, 0)
			wantData(t, filepath.Join(claim, "data"), kind)
			if left, err := os.ReadDir(n.host); err != nil || len(left) != 0 {
				t.Errorf("left: %v, %v", left, err)
			}
			must(t, poolmount.Detach(n.path(), pool)) // does nothing
		})
	}
}

// restarted has the container end and start again with the claim at another path, and the node lose
// the mount.
func restarted(t *testing.T, n node, claim string) {
	t.Helper()
	again := t.TempDir()
	testdisk.Bind(t, claim, again)
	must(t, poolmount.Attach(again, n.path(), pool))
	n.wantMounts(t, 1)
	testdisk.Detach(t, filepath.Join(n.host, "csi"))
	n.wantMounts(t, 0)
	must(t, poolmount.Attach(again, n.path(), pool))
	n.wantMounts(t, 1)
	testdisk.Detach(t, again)
	n.wantMounts(t, 1)
}

// busy has an agent use the pool, and then a user of the host.
func busy(t *testing.T, n node) {
	t.Helper()
	self := fmt.Sprintf("process %d (", os.Getpid())
	for _, dir := range []string{n.agent, n.host} {
		f, err := os.Open(filepath.Join(dir, "csi/data"))
		must(t, err)
		if err := poolmount.Detach(n.path(), pool); !errors.Is(err, poolmount.ErrBusy) || !strings.Contains(err.Error(), self) {
			t.Errorf("with a file of %s open: %v, want it busy by %s", dir, err, self)
		}
		n.wantMounts(t, 1)
		f.Close()
	}
}

func TestDiskForeignMount(t *testing.T) {
	testdisk.Root(t)
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			n, claim, other := newNode(t), testdisk.Mount(t, kind), testdisk.Image(t, kind)
			must(t, os.Mkdir(filepath.Join(n.host, "csi"), 0o755))
			testdisk.Attach(t, other, filepath.Join(n.host, "csi"))
			for name, err := range map[string]error{"attach": poolmount.Attach(claim, n.path(), pool), "detach": poolmount.Detach(n.path(), pool)} {
				if !errors.Is(err, mount.ErrOther) || !strings.Contains(err.Error(), n.path()) {
					t.Errorf("%s: %v", name, err)
				}
			}
			n.wantMounts(t, 1)
			testdisk.Detach(t, filepath.Join(n.host, "csi"))
			must(t, os.WriteFile(filepath.Join(n.host, "csi/below"), nil, 0o600))
			must(t, poolmount.Attach(claim, n.path(), pool))
			must(t, poolmount.Detach(n.path(), pool))
			n.wantMounts(t, 0)
			wantData(t, filepath.Join(n.host, "csi/below"), "")
		})
	}
}

// A disk that fails is no reason to mount a second time, and its mount can be removed.
func TestDiskFailed(t *testing.T) {
	n, claim := newNode(t), testdisk.Mount(t, "xfs")
	must(t, poolmount.Attach(claim, n.path(), pool))
	testdisk.Shutdown(t, claim)
	if err := poolmount.Attach(claim, n.path(), pool); err == nil {
		t.Error("a failed disk is attached")
	}
	n.wantMounts(t, 1)
	must(t, poolmount.Detach(n.path(), pool))
	n.wantMounts(t, 0)
}

func TestDiskWrongContainer(t *testing.T) {
	n, claim := newNode(t), testdisk.Mount(t, "ext4")
	private := t.TempDir()
	testdisk.Bind(t, private, private)
	must(t, unix.Mount("", private, "", unix.MS_PRIVATE, ""))
	for words, err := range map[string]error{
		"nothing is mounted at":   poolmount.Attach(t.TempDir(), n.path(), pool),
		"mountPropagation":        poolmount.Attach(claim, filepath.Join(private, "csi"), pool),
		"no such file":            poolmount.Attach(claim+"/none", n.path(), pool),
		"symbolic link or a file": attachAtLink(t, n, claim),
	} {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, want words %q", err, words)
		}
	}
	n.wantMounts(t, 0)
	must(t, poolmount.Detach(filepath.Join(n.inside, "none/csi"), pool))
}

func attachAtLink(t *testing.T, n node, claim string) error {
	t.Helper()
	must(t, os.Symlink("/etc", filepath.Join(n.host, "link")))
	return poolmount.Attach(claim, filepath.Join(n.inside, "link"), pool)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantData(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s has %q, %v, want %q", path, got, err, want)
	}
}

// What is mounted for another pool, or for another claim, stays: only the path is the same.
func TestDiskOfAnotherOwner(t *testing.T) {
	testdisk.Root(t)
	n, claim := newNode(t), claims(t)["tmpfs"]
	must(t, poolmount.Attach(claim, n.path(), pool))
	must(t, poolmount.Detach(n.path(), poolmount.Owner{Pool: "q", Claim: "other"})) // it has nothing there
	n.wantMounts(t, 1)
	for _, o := range []poolmount.Owner{{Pool: "p", Claim: "other"}, {}} {
		if err := poolmount.Detach(n.path(), o); !errors.Is(err, mount.ErrOther) || !strings.Contains(err.Error(), "recorded for pool p with claim uid") {
			t.Errorf("%v: %v", o, err)
		}
		n.wantMounts(t, 1)
	}
	must(t, poolmount.Detach(n.path(), pool))
	n.wantMounts(t, 0)
}

// An earlier version recorded no owner: its own Job unmounts what its holder mounted, and a holder
// of this version takes it over.
func TestDiskOfAnEarlierVersion(t *testing.T) {
	testdisk.Root(t)
	n, claim := newNode(t), claims(t)["tmpfs"]
	for _, taken := range []bool{false, true} {
		must(t, poolmount.Attach(claim, n.path(), poolmount.Owner{}))
		if err := poolmount.Detach(n.path(), pool); !errors.Is(err, mount.ErrOther) || !strings.Contains(err.Error(), "earlier version") {
			t.Errorf("%v", err)
		}
		n.wantMounts(t, 1)
		owner := poolmount.Owner{}
		if taken {
			owner = pool
			must(t, poolmount.Attach(claim, n.path(), pool))
			n.wantMounts(t, 1)
		}
		must(t, poolmount.Detach(n.path(), owner))
		n.wantMounts(t, 0)
	}
}

// Neither a holder nor an agent takes a filesystem that was mounted for another pool. One of an
// earlier version has no owner.
func TestDiskOfAnotherPool(t *testing.T) {
	testdisk.Root(t)
	n, disk := newNode(t), testdisk.Mount(t, "ext4")
	at := filepath.Join(n.agent, "csi")
	check := func(pool string, refused bool) {
		t.Helper()
		if err := poolmount.CheckOwner(at, pool); (err != nil) != refused {
			t.Errorf("pool %s: %v", pool, err)
		}
	}
	check("b", false) // nothing is mounted
	if err := poolmount.Attach(disk, n.path(), poolmount.Owner{}); err != nil {
		t.Fatal(err)
	}
	check("c", false)
	for range 2 {
		if err := poolmount.Attach(disk, n.path(), poolmount.Owner{Pool: "b", Claim: "1"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := poolmount.Attach(disk, n.path(), poolmount.Owner{Pool: "c", Claim: "1"}); !errors.Is(err, mount.ErrOther) {
		t.Errorf("attached for pool c: %v", err)
	}
	check("b", false)
	check("c", true)
	p, err := volume.New(volume.Config{Name: "c", Path: at, Mount: at})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Open(); !errors.Is(err, volume.ErrNotReady) || !strings.Contains(err.Error(), "was mounted for pool b") {
		t.Errorf("the agent opens pool c there: %v", err)
	}
}

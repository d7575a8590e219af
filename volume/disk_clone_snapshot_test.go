//go:build disk

package volume_test

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// snapshotting returns a pool whose volumes are subvolumes, with the volume v of 64 MiB in it, which
// something uses.
func snapshotting(t *testing.T, step func(string)) (p *volume.Pool, v volume.Volume) {
	t.Helper()
	p = opened(t, volume.Config{Path: testdisk.Mount(t, "btrfs") + "/pool", EnableBtrfsQuota: true, Step: step})
	v, err := p.Create(limited("v", 64*mib))
	ok(t, err)
	_, err = p.Bind("v", binding("v"))
	ok(t, err)
	used(t, v)
	return p, v
}

// snapshotOf is the request for a clone of the volume v that must be a snapshot if v has many files.
func snapshotOf(p *volume.Pool) volume.CloneSpec {
	s := cloneOf(p, limited("c", 64*mib))
	s.CopyBytes = false
	return s
}

func bash(t *testing.T, dir, line string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-ec", line)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// A volume that is in use is copied with everything that its files have, also what a copy file by file
// lacks, and each side is written alone afterwards.
func TestDiskCloneSnapshot(t *testing.T) {
	p, v := snapshotting(t, nil)
	bash(t, v.Path, `
		chown 2000:2001 . && chmod 2750 . && setfacl -m u:1010:rx . && setfacl -d -m g:1011:rx .
		setfattr -n user.text -v x . && setfattr -n trusted.mark -v y .
		for i in $(seq 300); do mkdir -p d$((i % 7)) && head -c $((i * 97)) /dev/urandom > d$((i % 7))/f$i; done
		truncate -s 20M holes && printf data | dd of=holes bs=1M seek=9 conv=notrunc status=none
		touch beyond && fallocate -n -l 1M beyond
		ln d1/f1 second && ln -s /etc/passwd out && ln -s d1 in && mkfifo pipe && mknod null c 1 3 && mknod disk b 8 0
		python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
		echo x > program && chown 1003:1004 program && chmod 6755 program && setcap cap_net_bind_service+ep program
		touch nocow && chattr +C nocow && head -c 256K /dev/urandom > nocow
		mkdir packed && setfattr -n btrfs.compression -v zstd packed
		echo i > fixed && chattr +i fixed && echo a > grows && chattr +a grows
		printf 'x' > $'new\nline' && printf 'x' > $'\xff\e[31m' && printf x > -- '-rf' && printf x > '%s $(id)'
		sync -f .`)
	c, err := awaited(p, snapshotOf(p))
	ok(t, err)
	for _, show := range []string{
		"find . -mindepth 1 -printf '%P %y %m %U %G %s %l %n %T@\\n' | sort", "find . -type f -print0 | sort -z | xargs -0 sha256sum",
		"stat -c '%A %u %g %Y' .", "getfacl -p -n -R . | sort", "getfattr -d -h -R -m '^(user|trusted|btrfs|security.cap)' .", "getcap program",
		"lsattr -d fixed grows nocow packed", "stat -c '%t %T' null disk", "filefrag -s holes beyond | sort",
	} {
		if want, got := bash(t, v.Path, show), bash(t, c.Path, show); want != got || want == "" {
			t.Errorf("%s\nthe original:\n%s\nthe copy:\n%s", show, want, got)
		}
	}
	if r := onDisk(t, p, "c"); r.State != record.Creating || !c.QuotaEnforced || c.QuotaID == 0 || c.QuotaID == v.QuotaID || r.QuotaID != c.QuotaID {
		t.Errorf("%+v, on disk %+v", c, r)
	}
	before, changed := bash(t, c.Path, "sha256sum d*/*"), random(t, v.Path+"/d1/f1", 8*mib)
	ok(t, os.WriteFile(c.Path+"/more", []byte("of the clone"), 0o600))
	ok(t, os.WriteFile(c.Path+"/d2/f2", []byte("of the clone"), 0o600))
	sameContent(t, v.Path+"/d1/f1", changed)
	if now := bash(t, c.Path, "sha256sum d*/* | grep -v d2/f2"); !strings.Contains(before, strings.Split(now, "\n")[0]) || there(v.Path+"/more") {
		t.Error("one has what was written to the other")
	}
	purge(t, p)
	if r := onDisk(t, p, "c"); r.State != record.Ready || r.QuotaID != c.QuotaID {
		t.Errorf("written: %+v", r)
	}
	asRecorded(t, p)
	consistent(t, p)
	ok(t, p.RollBack("c"))
	purge(t, p)
	consistent(t, p)
}

// The copy is what a power cut at one moment would have left: of two files of which the first is always
// written and flushed before the second, the second never is ahead.
func TestDiskCloneSnapshotOfAVolumeThatIsWritten(t *testing.T) {
	p, v := snapshotting(t, nil)
	first, err := os.Create(v.Path + "/first")
	ok(t, err)
	second, err := os.Create(v.Path + "/second")
	ok(t, err)
	var stop atomic.Bool
	var writer sync.WaitGroup
	var wrote atomic.Uint64
	ok(t, errors.Join(put(first, 0), put(second, 0)))
	writer.Go(func() {
		for n := uint64(1); !stop.Load(); n++ {
			if err := errors.Join(put(first, n), put(second, n)); err != nil {
				t.Error(err)
				return
			}
			wrote.Store(n)
		}
	})
	defer writer.Wait()
	defer stop.Store(true)
	for range 20 {
		least := wrote.Load()
		c, err := awaited(p, snapshotOf(p))
		ok(t, err)
		a, b := get(t, c.Path+"/first"), get(t, c.Path+"/second")
		if a < b || a > b+1 || b < least {
			t.Errorf("the copy has %d and %d, and %d was flushed before", a, b, least)
		}
		ok(t, p.RollBack("c"))
	}
}

// put writes a number to a file and flushes it.
func put(f *os.File, n uint64) error {
	_, err := f.WriteAt(binary.LittleEndian.AppendUint64(nil, n), 0)
	return errors.Join(err, f.Sync())
}

func get(t *testing.T, path string) uint64 {
	t.Helper()
	data, err := os.ReadFile(path)
	ok(t, err)
	return binary.LittleEndian.Uint64(data)
}

// A subvolume in the source would be empty in a snapshot. Such a source is copied file by file where that
// is right, and refused otherwise, also if the tenant makes one while it is copied.
func TestDiskCloneSnapshotOfNestedSubvolumes(t *testing.T) {
	during := ""
	p, v := snapshotting(t, func(step string) {
		if step == "quota.snapshot" && during != "" {
			testdisk.Run(t, "btrfs", "subvolume", "create", during)
		}
	})
	for i := range 3 {
		write(t, filepath.Join(v.Path, "a", "data"+string(rune('0'+i))), "of v")
	}
	during = v.Path + "/a/new\n\x1b[31mline"
	_, err := awaited(p, snapshotOf(p))
	is(t, err, volume.ErrSource)
	is(t, err, volume.ErrInUse)
	if !strings.Contains(err.Error(), `a/new\n\x1b[31mline`) || !strings.Contains(err.Error(), "starts again") {
		t.Errorf("%v", err)
	}
	write(t, filepath.Join(during, "inside"), "of the subvolume")
	nested := during
	during = ""
	_, err = awaited(p, snapshotOf(p))
	is(t, err, volume.ErrSource)
	is(t, err, volume.ErrInUse)
	if !strings.Contains(err.Error(), `a/new\n\x1b[31mline`) || !strings.Contains(err.Error(), "fuzzy") {
		t.Errorf("%v", err)
	}
	purge(t, p)
	consistent(t, p)
	s := snapshotOf(p)
	s.Consistency = volume.ConsistencyFuzzy
	c, err := awaited(p, s)
	ok(t, err)
	sameContent(t, c.Path+strings.TrimPrefix(nested, v.Path)+"/inside", []byte("of the subvolume"))
	ok(t, p.RollBack("c"))
	ok(t, os.RemoveAll(nested))
	c, err = awaited(p, snapshotOf(p))
	ok(t, err)
	sameContent(t, c.Path+"/a/data2", []byte("of v"))
}

// What is mounted in the source, and flags of its directory that would keep a copy from its place, are
// left out, and named.
func TestDiskCloneSnapshotLeavesOut(t *testing.T) {
	p, v := snapshotting(t, nil)
	write(t, v.Path+"/data", "of v")
	mkdir(t, v.Path+"/in/mounted")
	testdisk.Bind(t, t.TempDir(), v.Path+"/in/mounted")
	bash(t, v.Path, "chattr +i .")
	t.Cleanup(func() { testdisk.Run(t, "chattr", "-i", v.Path) })
	s, ended := snapshotOf(p), make(chan volume.CloneJob, 1)
	s.Ended = func(j volume.CloneJob) { ended <- j }
	c, err := awaited(p, s)
	ok(t, err)
	sameContent(t, c.Path+"/data", []byte("of v"))
	if j := <-ended; !strings.Contains(j.LeftOut, "in/mounted") || !strings.Contains(j.LeftOut, "flags i and a") {
		t.Errorf("left out: %q", j.LeftOut)
	} else if r := onDisk(t, p, c.Name); r.LeftOut != j.LeftOut || r.QuotaID == 0 {
		t.Errorf("recorded %q, quota %d; want %q", r.LeftOut, r.QuotaID, j.LeftOut)
	}
	ok(t, os.WriteFile(c.Path+"/more", nil, 0o600))
}

// A killed agent leaves a snapshot in staging. A start removes it, whatever keeps it from being moved.
func TestDiskCloneSnapshotThatIsLeft(t *testing.T) {
	p, v := snapshotting(t, nil)
	write(t, v.Path+"/data", "of v")
	bash(t, p.Path()+"/"+staging, `for name in .clone-WRITABLE-new .clone-RO-new .clone-FIXED-new .clone-NESTED-new .clone-OLD; do
			btrfs subvolume snapshot ../../v $name
		done
		btrfs property set -t subvol .clone-RO-new ro true && chattr +i .clone-FIXED-new
		btrfs subvolume create .clone-NESTED-new/inner && echo x > .clone-NESTED-new/inner/file
		btrfs property set -t subvol .clone-NESTED-new/inner ro true`)
	path := p.Path()
	ok(t, p.Close())
	p = opened(t, volume.Config{Path: path})
	purge(t, p)
	purge(t, p)
	if left := append(names(t, path+"/"+staging), names(t, path+"/"+trash)...); len(left) > 0 {
		t.Errorf("staging and trash have %q", left)
	}
	consistent(t, p)
}

// While the kernel makes a snapshot, for as long as it likes, other calls go on, the source stays, and a
// pod may begin to use it.
func TestDiskCloneSnapshotUnderWay(t *testing.T) {
	reached, gate := make(chan struct{}), make(chan struct{})
	var p *volume.Pool
	p = opened(t, volume.Config{Path: testdisk.Mount(t, "btrfs") + "/pool", EnableBtrfsQuota: true, Patience: 300 * time.Millisecond,
		Step: func(step string) {
			if step == "quota.snapshot" {
				close(reached)
				<-gate
			}
			if step == "clone.unlock" { // the snapshot is there, and not in its place yet
				if err := p.Recover(); err != nil {
					t.Error(err)
				}
			}
		}})
	v, err := p.Create(limited("v", 64*mib))
	ok(t, err)
	write(t, v.Path+"/data", "of v")
	_, err = p.Bind("v", binding("v"))
	ok(t, err)
	done := make(chan error, 1)
	go func() { _, err := awaited(p, snapshotOf(p)); done <- err }()
	<-reached
	time.Sleep(time.Second)
	ok(t, p.Ready())
	_, err = p.Create(limited("w", mib))
	ok(t, err)
	is(t, p.Delete("v"), volume.ErrInUse)
	ok(t, p.Recover())
	begin := time.Now()
	p.MakeWay(t.Context(), "v")
	ok(t, p.Pin("v", func(volume.Pinned) error { return nil }))
	if took := time.Since(begin); took > time.Second {
		t.Errorf("a pod waited for %s", took)
	}
	write(t, filepath.Join(p.Path(), "c", "data"), "of another program")
	close(gate)
	is(t, <-done, volume.ErrConflict)
	sameContent(t, filepath.Join(p.Path(), "c", "data"), []byte("of another program"))
	ok(t, os.RemoveAll(filepath.Join(p.Path(), "c")))
	purge(t, p)
	consistent(t, p)
}

// Pools of one filesystem share its subvolumes, and a clone that gets no quota may be a snapshot, too.
func TestDiskCloneSnapshotAcrossPools(t *testing.T) {
	root := testdisk.Mount(t, "btrfs")
	from := opened(t, volume.Config{Name: "from", Path: root + "/from", EnableBtrfsQuota: true})
	to := opened(t, volume.Config{Name: "to", Path: root + "/to"})
	pools, err := volume.NewPools(from, to)
	ok(t, err)
	v, err := pools.Create(from, limited("v", 16*mib))
	ok(t, err)
	data := random(t, v.Path+"/data", 4*mib)
	write(t, v.Path+"/other", "of v")
	_, err = from.Bind("v", binding("v"))
	ok(t, err)
	used(t, v)
	for _, quotas := range []record.QuotaPolicy{record.QuotaRequired, record.QuotaNone} {
		s := volume.CloneSpec{Spec: spec("c-"+string(quotas), 16*mib), From: from}
		r, _ := from.Cached("v")
		source := record.SourceOf(from.ID(), r)
		s.Source, s.Quota = &source, quotas
		c, err := awaited(to, s)
		ok(t, err)
		sameContent(t, c.Path+"/data", data)
		if c.QuotaEnforced != (quotas == record.QuotaRequired) {
			t.Errorf("%+v", c)
		}
		purge(t, to)
		ok(t, to.RollBack(c.Name))
	}
	purge(t, to)
	consistent(t, from)
	consistent(t, to)
}

// The disk is full: all of the copy is there, or nothing of it.
func TestDiskCloneSnapshotOnADiskThatFills(t *testing.T) {
	full, other := false, ""
	p, v := snapshotting(t, func(step string) {
		if step == "clone.snapshot" && full {
			occupy(t, other)
		}
	})
	other = filepath.Join(filepath.Dir(p.Path()), "of another program")
	data := random(t, v.Path+"/data", 16*mib)
	write(t, v.Path+"/second", "of v")
	full = true
	c, err := awaited(p, snapshotOf(p))
	full = false
	if err == nil {
		sameContent(t, c.Path+"/data", data)
	} else if is(t, err, volume.ErrNoSpace); there(p.Path() + "/c") {
		t.Errorf("after %v the clone is there", err)
	}
	sameContent(t, v.Path+"/data", data)
	ok(t, os.Remove(other))
	ok(t, p.Recover())
	purge(t, p)
	consistent(t, p)
	c, err = awaited(p, snapshotOf(p))
	ok(t, err)
	sameContent(t, c.Path+"/data", data)
}

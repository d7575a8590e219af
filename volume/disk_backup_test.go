//go:build disk

package volume_test

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// shell runs a script with the variables, as docs/backup.md has its commands, and returns what it printed.
func shell(t *testing.T, script string, variables ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
	cmd.Env = append(os.Environ(), append(variables, "RESTIC_PASSWORD=secret", "RESTIC_CACHE_DIR="+t.TempDir())...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func mustShell(t *testing.T, script string, variables ...string) string {
	t.Helper()
	out, err := shell(t, script, variables...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return out
}

// tenantFiles makes the files that a backup may lose, and describeFiles prints what must be the same after a restore.
var (
	//go:embed testdata/tenant-files.sh
	tenantFiles string
	//go:embed testdata/describe-files.sh
	describeFiles string
)

// Backups of a volume with GNU tar and with restic, from the node, restored into a new volume whose quota is in force. docs/backup.md
// has these commands.
func TestDiskBackup(t *testing.T) {
	for _, kind := range []string{"btrfs", "xfs", "ext4"} {
		t.Run(kind, func(t *testing.T) {
			root, backup := testdisk.Mount(t, kind), t.TempDir()
			p := opened(t, volume.Config{Path: root + "/pool", EnableBtrfsQuota: true})
			pathOf := func(name string) string {
				s := spec(name, 16*mib)
				if s.Quota = record.QuotaBestEffort; kind == "btrfs" {
					s.Quota = record.QuotaRequired
				}
				v, err := p.Create(s)
				ok(t, err)
				return v.Path
			}
			source := pathOf("source")
			mustShell(t, tenantFiles, "SOURCE="+source)
			want := mustShell(t, describeFiles, "DIR="+source)
			for name, scripts := range backups {
				t.Run(name, func(t *testing.T) {
					at := "BACKUP=" + filepath.Join(backup, name)
					mustShell(t, scripts.save, "SOURCE="+source, at)
					target := pathOf("to-" + name)
					mustShell(t, scripts.restore, "TARGET="+target, at)
					if got := mustShell(t, describeFiles, "DIR="+target); got != want {
						t.Errorf("restored\n%s\nwant\n%s", got, want)
					}
					if used := allocatedBytes(t, target+"/disk.img"); used > 2*mib {
						t.Errorf("the image takes %d MiB, and had 1 MiB of data", used>>20)
					}
					quotaHolds(t, p, kind, "to-"+name)
				})
			}
			t.Run("restic restore fills holes", func(t *testing.T) { resticFills(t, source, pathOf("filled"), kind) })
			t.Run("frozen", func(t *testing.T) {
				testdisk.Freeze(t, root)
				mustShell(t, backups["tar"].save, "SOURCE="+source, "BACKUP="+filepath.Join(backup, "frozen"))
			})
		})
	}
}

// backups are the ways of docs/backup.md.
var backups = map[string]struct{ save, restore string }{
	"tar": {
		`mkdir -p "$BACKUP"; tar -C "$SOURCE" -cSf "$BACKUP/volume.tar" --acls --xattrs --numeric-owner .`,
		`tar -C "$TARGET" -xSpf "$BACKUP/volume.tar" --acls --xattrs --numeric-owner`,
	},
	"restic": {
		`restic -q init -r "$BACKUP"
tar -C "$SOURCE" -cS --acls --xattrs --numeric-owner . | restic -q -r "$BACKUP" backup --stdin --stdin-filename volume.tar`,
		`restic -q -r "$BACKUP" dump latest volume.tar | tar -C "$TARGET" -xSp --acls --xattrs --numeric-owner`,
	},
}

// quotaHolds checks that a restored volume still takes no more than its size.
func quotaHolds(t *testing.T, p *volume.Pool, kind, name string) {
	t.Helper()
	if kind != "btrfs" {
		return // this kernel has no project quotas
	}
	v, err := p.Get(name)
	ok(t, err)
	if n, err := pour(t, v.Path+"/filler", 32*mib); err == nil || n > 16*mib {
		t.Errorf("wrote %d MiB more, %v", n>>20, err)
	}
	ok(t, os.Remove(v.Path+"/filler"))
}

// resticFills restores files as restic does by itself: it writes the holes, so that a sparse image does not fit any more.
func resticFills(t *testing.T, source, target, kind string) {
	t.Helper()
	if out := mustShell(t, "restic version"); !strings.HasPrefix(out, "restic 0.14") {
		t.Skipf("%s: this is about 0.14", out)
	}
	at := []string{"SOURCE=" + source + "/small", "TARGET=" + target, "BACKUP=" + filepath.Join(t.TempDir(), "repository")}
	mustShell(t, `mkdir "$SOURCE"; cd "$SOURCE"
truncate -s 64M small.img
dd if=/dev/urandom of=small.img bs=1M count=1 conv=notrunc status=none
restic -q init -r "$BACKUP"; restic -q -r "$BACKUP" backup .`, at...)
	defer os.RemoveAll(source + "/small")
	out, err := shell(t, `cd "$TARGET"; restic -q -r "$BACKUP" restore latest --target .`, at...)
	used := int64(0)
	_ = filepath.WalkDir(target, func(path string, _ os.DirEntry, _ error) error {
		if filepath.Base(path) == "small.img" {
			used = allocatedBytes(t, path)
		}
		return nil
	})
	t.Logf("a sparse image of 64 MiB with 1 MiB of data takes %d MiB: %v %s", used>>20, err, lastLine(out))
	if kind == "btrfs" && (err == nil && !strings.Contains(out, "quota exceeded")) {
		t.Errorf("64 MiB fit into a quota of 16: %s", out)
	}
	if kind != "btrfs" && used < 60*mib {
		t.Errorf("restic keeps holes now: docs/backup.md needs a change")
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

func allocatedBytes(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Error(fmt.Errorf("%s: %w", path, err))
	}
	return st.Blocks * 512
}

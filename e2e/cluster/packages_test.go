package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Without dpkg and apt-get, a package is missing only if its programs are.
func TestPackagesElsewhere(t *testing.T) {
	shell := []string{"sh", "id", "echo"}
	compiler := append(slices.Clone(shell), "gcc")
	for name, row := range map[string]struct {
		programs []string
		packages string
		missing  string // "" if none is
	}{
		"all there":        {append(slices.Clone(compiler), "systemd-analyze"), "gcc libc6-dev systemd", ""},
		"one missing":      {compiler, "gcc libc6-dev systemd", "systemd"},
		"no compiler":      {append(slices.Clone(shell), "systemd-analyze"), "gcc libc6-dev systemd", "gcc libc6-dev"},
		"named as program": {shell, "id", ""},
		"unknown":          {shell, "no-such-package", "no-such-package"},
		"group":            {[]string{"sh", "busybox"}, "@vm", "qemu-system-x86"},
		"two groups":       {shell, "@vm @machine zstd", "qemu-system-x86 busybox-static mmdebstrap openssh-client zstd e2fsprogs xfsprogs btrfs-progs"},
		"no group":         {shell, "id @none", "no group @none; this file has them"},
		"no program":       {shell, "e2fsprogs xfsprogs btrfs-progs qemu-system-x86", "e2fsprogs xfsprogs btrfs-progs qemu-system-x86"},
	} {
		bin := t.TempDir()
		for _, program := range row.programs {
			path, err := exec.LookPath(program)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(path, filepath.Join(bin, program)); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("../packages.sh", strings.Fields(row.packages)...)
		cmd.Env = []string{"PATH=" + bin}
		out, err := cmd.CombinedOutput()
		got := string(out)
		if i := strings.LastIndex(got, ": "); i >= 0 {
			got = strings.TrimSpace(got[i+2:])
		}
		if (err == nil) != (row.missing == "") || got != row.missing {
			t.Errorf("%s: %v, %q; want %q to be missing", name, err, out, row.missing)
		}
	}
}

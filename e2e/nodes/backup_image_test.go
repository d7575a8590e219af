package nodes

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
)

// backupImage has what docs/backup.md asks of an image: bash, GNU tar, findutils, coreutils, restic.
const backupImage = "localhost/hpp-e2e/backup:test"

// loadBackupImage makes the image of this machine's programs and their libraries, and puts it onto the nodes.
func loadBackupImage(t *testing.T) {
	t.Helper()
	m := cluster.Image{Name: backupImage, Environment: []string{"PATH=/usr/bin"}, Files: []cluster.ImageFile{
		{Path: "/etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/root:/bin/bash\n")},
		{Path: "/root", Mode: fs.ModeDir | 0o700},
		{Path: "/tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
	}}
	has := map[string]bool{}
	add := func(at, file string) {
		if has[at] {
			return
		}
		has[at] = true
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m.Files = append(m.Files, cluster.ImageFile{Path: at, Mode: 0o755, Data: data})
	}
	for _, name := range []string{"bash", "tar", "restic", "find", "sha256sum", "mkdir", "sleep"} {
		program, err := exec.LookPath(name)
		if err != nil {
			t.Fatalf("%v; run e2e/packages.sh @disk", err)
		}
		add("/usr/bin/"+name, program)
		libraries, err := exec.Command("ldd", program).Output()
		if err != nil {
			t.Fatalf("ldd %s: %v", program, err)
		}
		for _, word := range strings.Fields(string(libraries)) {
			if filepath.IsAbs(word) && !strings.HasSuffix(word, ":") {
				add(word, word)
			}
		}
	}
	archive := filepath.Join(t.TempDir(), "backup.tar")
	if err := errors.Join(cluster.WriteImage(m, archive), local.Load(t.Context(), archive)); err != nil {
		t.Fatal(err)
	}
}

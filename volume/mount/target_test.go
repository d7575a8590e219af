package mount_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume/mount"
)

func TestOpenTarget(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"pods/a", "elsewhere"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	os.WriteFile(filepath.Join(root, "file"), nil, 0o600)
	os.Symlink("elsewhere", filepath.Join(root, "link"))
	os.Symlink("/etc", filepath.Join(root, "pods/a/away"))
	other := filepath.Join(t.TempDir(), "root")
	os.Symlink(root, other)
	for name, row := range map[string]struct {
		root, path    string
		open, inspect error
	}{
		"absent":            {root, root + "/pods/a/mount", nil, nil},
		"there":             {root, root + "/elsewhere", nil, nil},
		"below a link":      {root, root + "/link/x", mount.ErrTarget, nil},
		"a link":            {root, root + "/pods/a/away", nil, mount.ErrTarget},
		"a file":            {root, root + "/file", nil, mount.ErrTarget},
		"below a file":      {root, root + "/file/x", mount.ErrTarget, nil},
		"no parent":         {root, root + "/pods/b/mount", mount.ErrParent, nil},
		"relative":          {root, "pods/a/mount", mount.ErrTarget, nil},
		"the root":          {root, root, mount.ErrTarget, nil},
		"outside":           {root, "/etc/x", mount.ErrTarget, nil},
		"beside":            {root, root + "2/x", mount.ErrTarget, nil},
		"dots":              {root, root + "/pods/../../x", mount.ErrTarget, nil},
		"trailing slash":    {root, root + "/pods/a/mount/", mount.ErrTarget, nil},
		"NUL":               {root, root + "/pods/a/mo\x00unt", mount.ErrTarget, nil},
		"long":              {root, root + "/" + strings.Repeat("n", 300) + "/x", mount.ErrTarget, nil},
		"root is a link":    {other, other + "/pods/a/mount", nil, nil},
		"root is not there": {root + "/none", root + "/none/x", mount.ErrParent, nil},
	} {
		t.Run(name, func(t *testing.T) {
			target, err := mount.OpenTarget(row.root, row.path)
			if !errors.Is(err, row.open) {
				t.Fatalf("open: %v, want %v", err, row.open)
			}
			if err != nil {
				return
			}
			defer target.Close()
			at, err := target.Inspect()
			if !errors.Is(err, row.inspect) || at.Mounted {
				t.Errorf("inspect: %+v, %v, want %v", at, err, row.inspect)
			}
			if point, err := target.Point(); err != nil || strings.HasPrefix(point, other) {
				t.Errorf("point %q, %v", point, err)
			}
		})
	}
}

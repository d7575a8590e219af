//go:build disk

package volume_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// confinedPool names the pool to the process that has few capabilities.
const confinedPool = "HPP_TEST_CONFINED_POOL"

// capabilities are those that a test can drop, by the names that manifests have for them.
var capabilities = map[string]uintptr{
	"DAC_OVERRIDE": unix.CAP_DAC_OVERRIDE, "FOWNER": unix.CAP_FOWNER, "LINUX_IMMUTABLE": unix.CAP_LINUX_IMMUTABLE,
	"CHOWN": unix.CAP_CHOWN, "SYS_ADMIN": unix.CAP_SYS_ADMIN,
}

// hostile are volumes as tenants may leave them, each by the one capability without which it stays
// for ever.
var hostile = map[string]func(t *testing.T, dir string){
	"DAC_OVERRIDE": func(t *testing.T, dir string) {
		write(t, filepath.Join(dir, "closed/data"), "x")
		ok(t, os.Chown(filepath.Join(dir, "closed"), 1000, 1000))
		ok(t, os.Chmod(filepath.Join(dir, "closed"), 0))
	},
	"FOWNER": func(t *testing.T, dir string) {
		write(t, filepath.Join(dir, "sticky/data"), "x")
		ok(t, os.Chown(filepath.Join(dir, "sticky"), 1000, 1000))
		ok(t, os.Chmod(filepath.Join(dir, "sticky"), 0o777|os.ModeSticky))
		ok(t, os.Chown(filepath.Join(dir, "sticky/data"), 1001, 1001))
	},
	"LINUX_IMMUTABLE": func(t *testing.T, dir string) {
		write(t, filepath.Join(dir, "frozen"), "x")
		f, err := os.Open(filepath.Join(dir, "frozen"))
		ok(t, err)
		defer f.Close()
		a, err := quota.GetAttr(int(f.Fd()))
		ok(t, err)
		a.Flags |= quota.Immutable
		ok(t, quota.SetAttr(int(f.Fd()), a))
	},
}

// The capabilities of manifests/legacy are enough for all that an agent does to a pool, and each is
// needed.
func TestDiskCapabilities(t *testing.T) {
	if path := os.Getenv(confinedPool); path != "" {
		live(t, path)
		return
	}
	given := added(t, "legacy")
	if want := slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(hostile)), "CHOWN"))); !slices.Equal(given, want) {
		t.Fatalf("manifests/legacy adds %q, this test knows of %q", given, want)
	}
	for _, kind := range testdisk.Kinds() {
		for _, missing := range append(given, "") {
			t.Run(strings.TrimSuffix(kind+" without "+missing, " without "), func(t *testing.T) {
				path := filepath.Join(testdisk.Mount(t, kind), "pool")
				p := opened(t, volume.Config{Path: path})
				for name, spoil := range hostile {
					_, err := p.Create(spec(name, mib))
					ok(t, err)
					spoil(t, filepath.Join(path, name))
				}
				ok(t, p.Close())
				out, err := confined(t, "TestDiskCapabilities", path, slices.DeleteFunc(slices.Clone(given), func(c string) bool { return c == missing }))
				var left []string
				r, inspected := inspect.Read(path)
				ok(t, inspected)
				for _, entry := range r.Trash {
					left = append(left, entry.Name)
					if !strings.Contains(entry.Stuck, "not permitted") && !strings.Contains(entry.Stuck, "denied") {
						t.Errorf("%s is in the trash because of %q", entry.Name, entry.Stuck)
					}
				}
				switch {
				case missing == "" && (err != nil || len(left) > 0):
					t.Errorf("with %q: %v, left in the trash %q\n%s", given, err, left, out)
				case missing == "CHOWN":
					if err == nil || len(left) > 0 || !strings.Contains(string(out), "chown") {
						t.Errorf("without CHOWN: %v, left in the trash %q\n%s", err, left, out)
					}
				case missing != "" && (err == nil || !slices.Equal(left, []string{missing})):
					t.Errorf("%v, left in the trash %q, want only what needs %s\n%s", err, left, missing, out)
				}
				purge(t, opened(t, volume.Config{Path: path}))
			})
		}
	}
}

// live is the life of an agent's pool: volumes are made, measured, deleted and purged.
func live(t *testing.T, path string) {
	p := opened(t, volume.Config{Path: path, Mode: 0o777})
	for _, s := range []volume.Spec{spec("fresh", mib), owned("owned")} {
		if v, err := p.Create(s); err != nil {
			t.Error(err)
		} else {
			ok(t, p.Delete(v.Name))
		}
	}
	if err := p.Measure(t.Context()); err != nil {
		t.Error(err)
	}
	for name := range hostile {
		ok(t, p.Delete(name))
	}
	if more, err := p.Purge(t.Context()); err != nil || more {
		t.Errorf("purge: %v, more: %v", err, more)
	}
}

// With one capability more the agent also sets quotas; without it, it creates volumes all the
// same.
func TestDiskLimitCapabilities(t *testing.T) {
	if path := os.Getenv(confinedPool); path != "" {
		p := opened(t, volume.Config{Path: path, EnableBtrfsQuota: true})
		v, err := p.Create(spec("v", mib))
		ok(t, err)
		if !v.QuotaEnforced {
			t.Errorf("%+v has no limit", v)
		}
		ok(t, p.Delete("v"))
		purge(t, p)
		return
	}
	for mode, limits := range map[string]bool{"legacy": false, "examples/legacy-quotas": true} {
		path := filepath.Join(testdisk.Mount(t, "btrfs"), "pool")
		out, err := confined(t, "TestDiskLimitCapabilities", path, added(t, mode))
		if (err == nil) != limits || !limits && !strings.Contains(string(out), "has no limit") {
			t.Errorf("%s: %v, want limits: %v\n%s", mode, err, limits, out)
		}
	}
}

// confined runs a test again as root with these capabilities and no others. A thread that gives up
// capabilities of its bounding set never has them again, nor has what it starts; it ends with its
// goroutine.
func confined(t *testing.T, test, path string, keep []string) (out []byte, err error) {
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), confinedPool+"="+path)
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
			if kept := slices.ContainsFunc(keep, func(name string) bool { return capabilities[name] == c }); kept {
				continue
			}
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && err != unix.EINVAL { // unknown to the kernel
				done <- err
				return
			}
		}
		var err error
		out, err = cmd.CombinedOutput()
		done <- err
	}()
	err = <-done
	return out, err
}

// added are the capabilities that a DaemonSet of manifests adds, sorted.
func added(t *testing.T, mode string) (names []string) {
	t.Helper()
	data, err := os.ReadFile("../manifests/" + mode + "/daemonset.yaml")
	ok(t, err)
	_, text, found := strings.Cut(string(data), "              add:\n")
	if !found {
		t.Fatalf("manifests/%s adds no capabilities", mode)
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "- "); ok {
			names = append(names, name)
		} else if !strings.HasPrefix(line, "#") {
			break
		}
	}
	slices.Sort(names)
	return names
}

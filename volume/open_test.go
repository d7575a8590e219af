package volume_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "")
	ok(t, os.Symlink("/usr/lib", filepath.Join(dir, "system")))
	ok(t, os.Symlink(dir, filepath.Join(dir, "link")))
	ok(t, os.Symlink(dir+"/nothing", filepath.Join(dir, "dangling")))
	for path, want := range map[string]error{
		dir: nil, dir + "/new": nil, dir + "/link": nil, dir + "/link/new": nil, strings.TrimPrefix(dir, "/"): nil,
		"": volume.ErrInvalid, "/": volume.ErrInvalid, "/tmp/..": volume.ErrInvalid, "/etc": volume.ErrInvalid,
		"/etc/x": volume.ErrInvalid, "/usr/lib": volume.ErrInvalid, "/bin": volume.ErrInvalid, "/var": volume.ErrInvalid,
		"/var/lib": volume.ErrInvalid, "/proc/self": volume.ErrInvalid, "/dev/shm": volume.ErrInvalid,
		"/var/lib/kubelet": volume.ErrInvalid, dir + "/system": volume.ErrInvalid, dir + "/system/new": volume.ErrInvalid,
		dir + "/file": volume.ErrInvalid, dir + "/file/new": volume.ErrInvalid,
		dir + "/no/new": volume.ErrNotReady, dir + "/dangling": volume.ErrNotReady,
	} {
		err := pooldir.Check(path)
		if want == nil {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		is(t, err, want)
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q is no clear sentence", err)
		}
	}
	if there(dir + "/new") {
		t.Error("Check created something")
	}
}

func TestCheckNotWritable(t *testing.T) {
	if os.Getuid() == 0 {
		t.Log("root may write anywhere; the read-only filesystem is tested with real disks")
		return
	}
	dir := t.TempDir()
	ok(t, os.Chmod(dir, 0o500))
	is(t, pooldir.Check(dir), volume.ErrNotReady)
}

func TestNew(t *testing.T) {
	for _, spoil := range []func(*volume.Config){
		func(c *volume.Config) { c.Path = "" },
		func(c *volume.Config) { c.Mount = "/dat" },
		func(c *volume.Config) { c.Mount = "/data/below" },
		func(c *volume.Config) { c.Mount = "/" },
		func(c *volume.Config) { c.Mode = 0o4777 }, // setuid
		func(c *volume.Config) { c.Reserve = -1 },
		func(c *volume.Config) { c.Overcommit = -1 },
		func(c *volume.Config) { c.Overcommit = math.NaN() },
		func(c *volume.Config) { c.Overcommit = math.Inf(1) },
		func(c *volume.Config) { c.PurgeRate = -1 },
		func(c *volume.Config) { c.Inner = []string{"a/b"} },
	} {
		c := volume.Config{Path: "/data"}
		spoil(&c)
		_, err := volume.New(c)
		is(t, err, volume.ErrInvalid)
	}
	p := configured(t, volume.Config{Name: "fast", Path: "data/./pool/"})
	if p.Name() != "fast" || p.Path() != "/data/pool" || p.ID() != "" || p.Warnings() != nil || len(p.Damaged()) > 0 {
		t.Errorf("new pool: %q %q %q", p.Name(), p.Path(), p.ID())
	}
	is(t, p.Ready(), volume.ErrNotReady)
}

func TestOpen(t *testing.T) {
	p := newPool(t)
	ok(t, p.Open())
	ok(t, p.Ready())
	id := p.ID()
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(id) {
		t.Errorf("ID %q", id)
	}
	ok(t, p.Close())
	is(t, p.Ready(), volume.ErrNotReady)
	is(t, p.Open(), volume.ErrNotReady)
	again := opened(t, volume.Config{Path: p.Path()})
	if again.ID() != id {
		t.Errorf("reopened as %s, was %s", again.ID(), id)
	}
}

// What a pool that is not ready answers, whatever it is asked.
func TestNotReadyEverywhere(t *testing.T) {
	p := newPool(t)
	ok(t, p.Close())
	_, err := p.Create(spec("v", gib))
	is(t, err, volume.ErrNotReady)
	_, err = p.Adopt(spec("v", gib))
	is(t, err, volume.ErrNotReady)
	_, err = p.Bind("v", binding("v"))
	is(t, err, volume.ErrNotReady)
	is(t, p.RollBack("v"), volume.ErrNotReady)
	is(t, p.Delete("v"), volume.ErrNotReady)
	_, err = p.Get("v")
	is(t, err, volume.ErrNotReady)
	_, err = p.ByPV("pv")
	is(t, err, volume.ErrNotReady)
	_, err = p.List()
	is(t, err, volume.ErrNotReady)
	_, err = p.Space()
	is(t, err, volume.ErrNotReady)
	is(t, p.Measure(t.Context()), volume.ErrNotReady)
	_, err = p.Purge(t.Context())
	is(t, err, volume.ErrNotReady)
}

func TestExpected(t *testing.T) {
	other := founded(t)
	theirs := identityOf(t, other)
	for _, c := range []struct {
		name  string
		found string // "absent", "empty", "hollow" (an empty volume), "volume", "told" (and by an administrator), "pool"
		want  pooldir.Expected
		text  string // of the refusal; "" opens
	}{
		{"absent, nothing expected", "absent", pooldir.Expected{}, ""},
		{"absent, a pool expected", "absent", pooldir.Expected{IDs: []string{"X"}}, "there is no directory"},
		{"absent, volumes expected", "absent", pooldir.Expected{Volumes: []string{"v"}}, "there is no directory"},
		{"empty, nothing expected", "empty", pooldir.Expected{}, ""},
		{"empty, a pool expected", "empty", pooldir.Expected{IDs: []string{"X"}}, "name pool X; the directory has no identity: its disk is probably not mounted"},
		{"empty, volumes expected", "empty", pooldir.Expected{Volumes: []string{"v"}}, "none is in place"},
		{"an empty volume in place, it is expected", "hollow", pooldir.Expected{Volumes: []string{"v"}}, "none is in place with data in it"},
		{"an empty volume in place, an administrator says so", "told", pooldir.Expected{Volumes: []string{"v"}}, ""},
		{"an administrator says so, a pool expected", "told", pooldir.Expected{IDs: []string{"X"}}, "no identity"},
		{"a volume in place, it is expected", "volume", pooldir.Expected{Volumes: []string{"u", "v"}}, ""},
		{"a volume in place, a pool expected", "volume", pooldir.Expected{IDs: []string{"X"}, Volumes: []string{"v"}}, "no identity"},
		{"a pool, it is expected", "pool", pooldir.Expected{IDs: []string{"X", theirs}, Volumes: []string{"v"}}, ""},
		{"a pool, another is expected", "pool", pooldir.Expected{IDs: []string{"X"}}, "this directory is pool " + theirs},
		{"a pool, volumes expected", "pool", pooldir.Expected{Volumes: []string{"v"}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pool")
			switch c.found {
			case "empty":
				mkdir(t, path)
			case "hollow":
				mkdir(t, filepath.Join(path, "v"))
			case "told":
				mkdir(t, filepath.Join(path, "v"))
				mkdir(t, filepath.Join(path, private))
			case "volume":
				write(t, filepath.Join(path, "v", "data"), "precious")
			case "pool":
				copyTree(t, other, path)
			}
			p := configured(t, volume.Config{Path: path, Expected: func() pooldir.Expected { return c.want }})
			err := p.Open()
			if c.text == "" {
				ok(t, err)
				return
			}
			if is(t, err, volume.ErrNotReady); !strings.Contains(err.Error(), c.text) {
				t.Error(err)
			}
			is(t, p.Delete("v"), volume.ErrNotReady) // an absent disk deletes nothing
			if c.found == "absent" && there(path) || c.found != "pool" && there(filepath.Join(path, private, "pool.json")) {
				t.Error("something was created")
			}
		})
	}
}

func identityOf(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path, private, "pool.json"))
	ok(t, err)
	var id struct{ ID string }
	ok(t, json.Unmarshal(data, &id))
	return id.ID
}

// The path leads elsewhere, and back: as when a disk goes and comes.
func TestPathLeadsElsewhere(t *testing.T) {
	p := newPool(t)
	create(t, p, "v")
	away := p.Path() + "-away"
	ok(t, os.Rename(p.Path(), away))
	is(t, p.Ready(), volume.ErrNotReady)
	is(t, p.Delete("v"), volume.ErrNotReady)
	mkdir(t, p.Path())
	_, err := p.Create(spec("w", gib))
	is(t, err, volume.ErrNotReady)
	if got := names(t, p.Path()); len(got) > 0 {
		t.Errorf("created %v where the disk is not mounted", got)
	}
	ok(t, os.Remove(p.Path()))
	copyTree(t, founded(t), p.Path())
	if is(t, p.Ready(), volume.ErrNotReady); !strings.Contains(p.Ready().Error(), "another disk") {
		t.Error(p.Ready())
	}
	ok(t, os.RemoveAll(p.Path()))
	ok(t, os.Rename(away, p.Path()))
	ok(t, p.Ready())
	if v, err := p.Get("v"); err != nil || v.Missing {
		t.Error(v, err)
	}
	consistent(t, p)
}

func TestStrangeIdentities(t *testing.T) {
	for content, text := range map[string]string{
		`{"version":2,"id":"x"}`: "use a later one", `{"version":1}`: "no id", `nonsense`: "cannot be read", ``: "cannot be read",
	} {
		path := founded(t)
		write(t, filepath.Join(path, private, "pool.json"), content)
		p := configured(t, volume.Config{Path: path})
		if err := p.Open(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", content, err)
		}
		is(t, p.Ready(), volume.ErrNotReady)
		if _, err := inspect.Read(path); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", content, err)
		}
	}
}

// The private directory is a link: following it would leave the pool.
func TestPrivateDirectoryIsALink(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	mkdir(t, path)
	elsewhere := t.TempDir()
	ok(t, os.Symlink(elsewhere, filepath.Join(path, private)))
	p := configured(t, volume.Config{Path: path})
	if err := p.Open(); err == nil {
		t.Error("it opened")
	}
	is(t, p.Ready(), volume.ErrNotReady)
	if got := names(t, elsewhere); len(got) > 0 {
		t.Errorf("created %v", got)
	}
}

func TestWarnings(t *testing.T) {
	p := newPool(t)
	ok(t, os.Chmod(p.Path(), 0o755))
	want := fmt.Sprintf("the node's other users can enter %s (mode 0755): chmod 0700 %s", p.Path(), p.Path())
	if got := p.Warnings(); len(got) != 1 || got[0] != want {
		t.Errorf("warnings %q", got)
	}
}

// Older programs wrote keys into records that this one does not have.
func TestRecordWithKeysOfOlderPrograms(t *testing.T) {
	path := newFuzzPool(t).path
	mkdir(t, filepath.Join(path, "v"))
	write(t, filepath.Join(path, records, "v"),
		`{"version":1,"name":"v","state":"bound","bytes":1048576,"pv":"pv-v","adopted":true,"created":"2024-01-02T03:04:05Z","pendingID":1073741824,"switching":true}`)
	p := opened(t, volume.Config{Path: path})
	v, err := p.Get("v")
	if err != nil || v.State != record.Bound || !v.Adopted || v.Bytes != mib || v.PV != "pv-v" || v.QuotaID != 0 || v.QuotaEnforced {
		t.Errorf("%+v, %v", v, err)
	}
	if w, d := p.Warnings(), p.Damaged(); len(w)+len(d) > 0 {
		t.Errorf("warnings %q, damaged %q", w, d)
	}
	if _, err := p.Expand("v", 2*mib); err != nil || onDisk(t, p, "v").Bytes != 2*mib {
		t.Error(err)
	}
	ok(t, p.Delete("v"))
}

// A pool is not founded before its disk is mounted, and waits again when that goes.
func TestMounted(t *testing.T) {
	at, away := t.TempDir(), errors.New("away")
	mounted := away
	p := configured(t, volume.Config{Path: at, Mount: at, Mounted: func(dir string) error {
		if dir != at {
			t.Errorf("asked for %s", dir)
		}
		return mounted
	}})
	if err := p.Open(); !errors.Is(err, volume.ErrNotReady) || !errors.Is(err, away) {
		t.Errorf("without the disk: %v", err)
	}
	if left, err := os.ReadDir(at); err != nil || len(left) > 0 {
		t.Errorf("without the disk: %v, %v", left, err)
	}
	mounted = nil
	ok(t, p.Open())
	ok(t, p.Ready())
	mounted = away
	ok(t, os.Rename(at, at+".disk"))
	ok(t, os.Mkdir(at, 0o755))
	if err := p.Ready(); !errors.Is(err, volume.ErrNotReady) {
		t.Errorf("the disk went: %v", err)
	}
}

package inline

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// collected is a collector over a pool with an inline volume of each kind, and
// the kubelet's directory of pods.
func collected(t *testing.T) (c *collector, changed *int) {
	t.Helper()
	dir := t.TempDir()
	pool, err := volume.New(volume.Config{Name: "legacy", Path: filepath.Join(dir, "pool")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	changed = new(int)
	c = &collector{pool: pool, pods: filepath.Join(dir, podsName), changed: func(*volume.Pool) { *changed++ }}
	if err := errors.Join(pool.Open(), os.Mkdir(c.pods, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, spec := range []volume.Spec{
		{Name: "csi-lives", Ephemeral: true, Owner: record.Owner{Namespace: "ns", Name: "lives", UID: "1"}},
		{Name: "csi-gone", Ephemeral: true, Owner: record.Owner{Namespace: "ns", Name: "gone", UID: "2"}},
		{Name: "csi-unknown", Ephemeral: true, Owner: record.Owner{Namespace: "ns", Name: "unknown"}},
		{Name: "pvc-claim", Owner: record.Owner{Namespace: "ns", Name: "claim", UID: "2"}},
	} {
		spec.Bytes = 1 << 20
		if _, err := pool.Create(spec); err != nil {
			t.Fatal(err)
		}
	}
	c.pod(t, "1")
	return c, changed
}

// pod makes the directory of a pod, as the kubelet does.
func (c *collector) pod(t *testing.T, uid string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(c.pods, uid, "volumes"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// checks runs a check, and returns the note of the volume whose pod is gone and
// whether the volume is there. All others must be.
func (c *collector) checks(t *testing.T) (note string, there bool, err error) {
	t.Helper()
	err = c.check(klog.Background())
	for _, name := range []string{"csi-lives", "csi-unknown", "pvc-claim"} {
		if v, err := c.pool.Get(name); err != nil || v.Missing || v.Orphan.Why != "" {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
	v, why := c.pool.Get("csi-gone")
	if why != nil && !errors.Is(why, volume.ErrNotFound) {
		t.Fatal(why)
	}
	return v.Orphan.Why, why == nil, err
}

func TestCollect(t *testing.T) {
	c, changed := collected(t)
	const gone = "pod ns/gone (2) is gone, and its volume was not unpublished"
	if err := os.WriteFile(filepath.Join(c.pool.Path(), "csi-gone/file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if note, there, err := c.checks(t); note != gone || !there || err != nil {
		t.Errorf("first check: %q, there %v, %v", note, there, err)
	}
	// A pod that is back has its volume as before.
	c.pod(t, "2")
	if note, there, err := c.checks(t); note != "" || !there || err != nil {
		t.Errorf("the pod is back: %q, there %v, %v", note, there, err)
	}
	if err := os.RemoveAll(filepath.Join(c.pods, "2")); err != nil {
		t.Fatal(err)
	}
	for i, still := range []bool{true, false, false} {
		if note, there, err := c.checks(t); (note == gone) != still || there != still || err != nil {
			t.Errorf("check %d: %q, there %v, %v", i, note, there, err)
		}
	}
	if *changed != 1 {
		t.Errorf("told of %d deletions", *changed)
	}
}

// Whatever hides pods from the agent deletes nothing, and nothing that was seen
// before counts afterwards.
func TestCollectHidden(t *testing.T) {
	hide := func(c *collector) error { return os.Rename(c.pods, c.pods+"-hidden") }
	show := func(c *collector) error {
		return errors.Join(os.RemoveAll(c.pods), os.Rename(c.pods+"-hidden", c.pods))
	}
	for what, row := range map[string]struct{ hide, show func(*collector) error }{
		"no directory": {hide, show},
		"empty":        {func(c *collector) error { return errors.Join(hide(c), os.Mkdir(c.pods, 0o755)) }, show},
		"no kubelet's": {func(c *collector) error { return errors.Join(hide(c), os.MkdirAll(c.pods+"/1", 0o755)) }, show},
		"a file":       {func(c *collector) error { return errors.Join(hide(c), os.WriteFile(c.pods, nil, 0o600)) }, show},
		"pool is away": {func(c *collector) error { return os.Rename(c.pool.Path(), c.pool.Path()+"-away") },
			func(c *collector) error { return os.Rename(c.pool.Path()+"-away", c.pool.Path()) }},
	} {
		c, _ := collected(t)
		if _, there, err := c.checks(t); !there || err != nil {
			t.Fatalf("%s: there %v, %v", what, there, err)
		}
		if err := row.hide(c); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := c.check(klog.Background()); err == nil {
				t.Errorf("%s: the check noticed nothing", what)
			}
		}
		if err := row.show(c); err != nil {
			t.Fatal(err)
		}
		for i, still := range []bool{true, false} {
			if _, there, err := c.checks(t); there != still || err != nil {
				t.Errorf("%s, check %d afterwards: there %v, %v", what, i, there, err)
			}
		}
	}
}

// A pod that comes back between the check and the deletion keeps its volume.
func TestCollectLooksAgain(t *testing.T) {
	c, _ := collected(t)
	v, err := c.pool.Get("csi-gone")
	if err != nil {
		t.Fatal(err)
	}
	c.pod(t, "2")
	if err := c.delete(klog.Background(), v.Record); err != nil {
		t.Error(err)
	}
	if _, err := c.pool.Get("csi-gone"); err != nil {
		t.Error(err)
	}
}

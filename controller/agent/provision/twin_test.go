package provision

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/agent/backends"
	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
)

// Two paths of the configuration may be one directory. A claim of the path that is not served gets
// an event with the other one: no other agent serves it.
func TestSameDirectoryTwice(t *testing.T) {
	c := examiner(t)
	dir := t.TempDir()
	a, link := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	if err := os.Symlink(a, link); err != nil {
		t.Fatal(err)
	}
	var all []*volume.Pool
	if err := os.Mkdir(a, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{a, link} {
		p, err := volume.New(volume.Config{Name: path, Path: path, Holder: Holder("node-01", "host-a")})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		all = append(all, p)
	}
	pools, err := volume.NewPools(all...)
	if err != nil {
		t.Fatal(err)
	}
	if err := all[0].Open(); err != nil {
		t.Fatal(err)
	}
	pools.Open()
	dialects, _ := contract.ParseCompat("local-path")
	b := backends.HostPath(nil, backends.Served{Dialect: dialects[0], Pools: pools.All(), Paths: func(string) ([]string, error) { return []string{link}, nil }})
	claim, sc := classtest.Claim(testUID, "wait", ""), classtest.Class("wait")
	r := c.refusalOf(t.Context(), b, claim, sc)
	if r == nil || r.silent || !r.temporary || !strings.Contains(r.message, "is that of pool "+a+" in "+a) {
		t.Errorf("%+v", r)
	}
}

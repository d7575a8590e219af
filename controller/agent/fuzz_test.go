package agent

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
)

// What --datadir accepts are pools with names and paths of their own, each of
// which keeps clear of those inside it.
func FuzzDataDirs(f *testing.F) {
	for _, text := range []string{settings.DefaultPools, `[{"name":"local","path":"local-data-dir/csi","shared":false},
		{"name":"outer","path":"/srv/x/","snapshotPath":"/srv/x/snaps","snapshotProvider":"reflink"},{"name":"inner","path":"/srv/x/csi"}]`,
		`[{"name":"a","path":"/"},{"name":"b","path":"../.."}]`, `[{"name":"a","path":"/a","snapshotPath":"/a"}]`, `[null]`, `{}`, `[]`, ``} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ParseDataDirs(text)
		if err != nil {
			if all != nil || !strings.HasPrefix(err.Error(), "--datadir") {
				t.Errorf("%+v, %v", all, err)
			}
			return
		}
		reserveInner(all)
		names, paths := map[string]bool{}, map[string]bool{}
		for _, d := range all {
			if d.Name == "" || names[d.Name] || paths[d.Path] || !filepath.IsAbs(d.Path) || filepath.Clean(d.Path) != d.Path {
				t.Errorf("%+v", d)
			}
			names[d.Name], paths[d.Path] = true, true
		}
		for _, d := range all {
			for other := range paths {
				rest, below := strings.CutPrefix(other, strings.TrimSuffix(d.Path, "/")+"/")
				if name, _, _ := strings.Cut(rest, "/"); below && name != "" && !slices.Contains(d.inner, name) {
					t.Errorf("pool %s would take %s, which leads to pool %s, for a volume", d.Path, name, other)
				}
			}
		}
	})
}

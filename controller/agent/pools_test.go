package agent

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// Which directories are pools, under which name, and which of them is for
// hostPath claims.
func TestLayout(t *testing.T) {
	clean(t)
	dir := t.TempDir()
	outer, inner := filepath.Join(dir, "hpvolumes"), filepath.Join(dir, "hpvolumes", "csi")
	list := func(name, path string) string { return fmt.Sprintf(`--datadir=[{"name":%q,"path":%q}]`, name, path) }
	node, socket := "--node-name=node-01", "--endpoint=unix:///csi/csi.sock"
	csi, both := "--provision=csi", "--provision=hostpath,csi"
	space := "--namespace=storage"
	mounted := fmt.Sprintf(`--datadir=[{"name":"local","path":%q,"mount":%q}]`, inner, outer)
	for name, row := range map[string]struct {
		args     []string
		pools    string
		hostPath string
	}{
		"hostPath alone":            {[]string{node, "--pv-dir=" + outer}, "legacy=" + outer, "legacy"},
		"plain":                     {[]string{node, socket, list("local", inner), "--pv-dir=[not looked at]"}, "local=" + inner, ""},
		"plain, no pool named":      {[]string{node, socket}, "legacy=/csi-data-dir", ""},
		"csi, PV_DIR alone":         {[]string{node, socket, space, csi, "--pv-dir=" + outer}, "legacy=" + outer, ""},
		"csi, PV_DIR beside":        {[]string{node, socket, space, csi, "--pv-dir=" + outer, list("local", inner)}, "local=" + inner, ""},
		"both, PV_DIR alone":        {[]string{node, socket, space, both, "--pv-dir=" + outer}, "legacy=" + outer, "legacy"},
		"both, one inside":          {[]string{node, socket, space, both, "--pv-dir=" + outer, list("local", inner)}, "local=" + inner + " hostpath=" + outer + "[csi]", "hostpath"},
		"both, one and the same":    {[]string{node, socket, space, both, "--pv-dir=" + outer + "/", list("local", outer)}, "local=" + outer, "local"},
		"hostPath, on its disk":     {[]string{node, "--pv-dir=" + outer, "--pv-dir-mount=" + dir}, "legacy=" + outer + " on " + dir, "legacy"},
		"hostPath, disk away":       {[]string{node, "--pv-dir=" + outer + "/no/pool", "--pv-dir-mount=" + outer}, "legacy=" + outer + "/no/pool on " + outer, "legacy"},
		"csi, on its disk":          {[]string{node, socket, space, csi, mounted}, "local=" + inner + " on " + outer, ""},
		"both, one with its disk":   {[]string{node, socket, space, both, "--pv-dir=" + inner, "--pv-dir-mount=" + outer, list("local", inner)}, "local=" + inner + " on " + outer, "local"},
		"hostPath, sidecars beside": {[]string{node, socket, "--provision=hostpath", "--pv-dir=" + outer, list("local", inner)}, "local=" + inner + " hostpath=" + outer + "[csi]", "hostpath"},
	} {
		o, err := Parse("test", row.args, &bytes.Buffer{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, d := range o.layout.dirs {
			text := d.Name + "=" + d.Path
			if d.Mount != "" {
				text += " on " + d.Mount
			}
			if others := slices.DeleteFunc(slices.Clone(d.inner), func(n string) bool { return n == snapshotsName }); len(others) > 0 {
				text += fmt.Sprint(others)
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != row.pools || strings.Join(o.layout.hostPath[contract.HostPathProvisioner], " ") != row.hostPath {
			t.Errorf("%s: %q with hostPath %v; want %q with %q", name, got, o.layout.hostPath, row.pools, row.hostPath)
		}
	}
	for name, row := range map[string]struct {
		args []string
		want string
	}{
		"neither":            {[]string{node, "--pv-dir=" + outer, "--provision=nfs"}, `is "nfs"; set it to hostpath, csi`},
		"nothing":            {[]string{node, "--pv-dir=" + outer, "--provision="}, "nothing is left to do"},
		"csi without driver": {[]string{node, "--pv-dir=" + outer, csi}, "set --endpoint"},
		"no namespace":       {[]string{node, socket, csi, "--pv-dir=" + outer}, "POD_NAMESPACE"},
		"no pool":            {[]string{node, socket, space, csi}, "PV_DIR"},
		"no hostPath pool":   {[]string{node, socket, space, both, list("local", inner)}, "PV_DIR"},
		"hostPath in a list": {[]string{node, socket, space, both, list("local", inner), `--pv-dir=[{"name":"a"}]`}, "list of pools"},
		"name taken":         {[]string{node, socket, space, both, list("hostpath", inner), "--pv-dir=" + outer}, "another name"},
		"another mount":      {[]string{node, socket, space, csi, strings.Replace(mounted, outer+`"}`, `/srv"}`, 1)}, "neither the pool's directory nor one above it"},
		"the root's mount":   {[]string{node, "--pv-dir=" + outer, "--pv-dir-mount=/"}, "neither the pool's directory"},
		"two mounts":         {[]string{node, socket, space, both, "--pv-dir=" + inner, "--pv-dir-mount=" + dir, mounted}, "for the same directory"},
		"pools for nobody":   {[]string{node, "--pv-dir=" + outer, list("local", inner)}, "--endpoint"},
		"no node":            {[]string{socket, space, csi, "--pv-dir=" + outer}, "NODE_NAME"},
	} {
		if _, err := Parse("test", row.args, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want words %q", name, err, row.want)
		}
	}
}

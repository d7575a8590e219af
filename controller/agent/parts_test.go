package agent

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/fake"
)

// What differs between the forms of the agent: one that sees no PVs restores what a deletion left
// aside, and the event about a CSIDriver that is gone has the command of the form.
func TestPartsOfTheForms(t *testing.T) {
	for name, row := range map[string]struct {
		args          []string
		restoresAside bool
		command       string // "" if the agent does not look at the CSIDriver
	}{
		"hostPath":         {[]string{"--pv-dir=POOL"}, false, ""},
		"CSI":              {[]string{"--provision=csi", "--endpoint=SOCKET", "--pv-dir=POOL", "--namespace=ns"}, false, "manifests/csi,"},
		"both":             {[]string{"--provision=hostpath,csi", "--endpoint=SOCKET", "--pv-dir=POOL", "--namespace=ns"}, false, "manifests/examples/both-modes,"},
		"migrating":        {[]string{"--provision=hostpath,csi", "--endpoint=SOCKET", "--pv-dir=POOL", "--namespace=ns", "--migrate-to-csi=run"}, false, "manifests/examples/migrate,"},
		"another kubelet":  {[]string{"--provision=csi", "--endpoint=SOCKET", "--pv-dir=POOL", "--namespace=ns", "--kubelet-dir=/data/kubelet"}, false, "manifests/examples/kubelet-dir,"},
		"beside a sidecar": {[]string{"--endpoint=SOCKET", "--datadir=[{\"name\":\"local\",\"path\":\"POOL\"}]"}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			args := []string{"--node-name=node-01"}
			for _, a := range row.args {
				args = append(args, strings.NewReplacer("POOL", filepath.Join(dir, "pool"), "SOCKET", "unix://"+dir+"/csi.sock").Replace(a))
			}
			o, err := Parse("test", args, &bytes.Buffer{})
			if err != nil {
				t.Fatal(err)
			}
			a, err := New(o, Outside{Client: fake.NewClientset()})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			for pool, m := range a.monitors {
				if m.RestoresAside != row.restoresAside {
					t.Errorf("pool %s: restores what a deletion left aside: %v", pool.Name(), m.RestoresAside)
				}
			}
			if (a.seen != nil) != (row.command != "") || len(a.monitors) == 0 {
				t.Errorf("checks the CSIDriver: %v, %d pools", a.seen != nil, len(a.monitors))
			}
			if got := a.installCommand(); row.command != "" && !strings.HasPrefix(got, "apply "+strings.TrimSuffix(row.command, ",")+" ") {
				t.Errorf("command %q, want %s", got, row.command)
			}
		})
	}
}

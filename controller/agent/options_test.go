package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// clean takes away what the machine's environment would decide.
func clean(t *testing.T) {
	for _, name := range []string{"NODE_NAME", "PV_DIR", "PV_DIR_MOUNT", "USE_NAMING_PREFIX", "PV_RECLAIM_POLICY", "DATADIR", "PROVISION", "POD_NAME", "POD_NAMESPACE",
		"MIGRATE_TO_CSI", "MIGRATE_USED", "COMPAT"} {
		t.Setenv(name, "")
	}
	os.Unsetenv("PROVISION") // empty, it says something; t.Setenv puts it back
}

// Whoever sets up an agent learns of everything that is required at once.
func TestMissingSettingsAreOneMessage(t *testing.T) {
	clean(t)
	const socket = "--endpoint=unix:///csi/csi.sock"
	for name, row := range map[string]struct {
		args []string
		want []string
	}{
		"hostPath":         {nil, []string{"NODE_NAME", "PV_DIR"}},
		"csi":              {[]string{socket, "--provision=csi"}, []string{"NODE_NAME", "DATADIR", "POD_NAMESPACE"}},
		"csi, no driver":   {[]string{"--provision=csi"}, []string{"--endpoint", "NODE_NAME", "DATADIR", "POD_NAMESPACE"}},
		"csi, one is set":  {[]string{socket, "--provision=csi", "--node-name=n"}, []string{"DATADIR", "POD_NAMESPACE"}},
		"csi, no capacity": {[]string{socket, "--provision=csi", "--publish-capacity=false"}, []string{"NODE_NAME", "DATADIR"}},
		"both":             {[]string{socket, "--provision=hostpath,csi"}, []string{"NODE_NAME", "PV_DIR", "POD_NAMESPACE"}},
		"plain":            {[]string{socket}, []string{"NODE_NAME"}},
	} {
		err := Run(t.Context(), "test", row.args, &bytes.Buffer{})
		if err == nil || ExitCode(err) != 2 {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text := err.Error()
		parts := strings.Split(text, "; ")
		for _, word := range row.want {
			if !slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(p, word) }) {
				t.Errorf("%s: %q does not name %s", name, text, word)
			}
		}
		// --publish-capacity=false is offered in a part of its own.
		parts = slices.DeleteFunc(parts, func(p string) bool { return strings.HasPrefix(p, "or ") })
		if len(parts) != len(row.want) {
			t.Errorf("%s: %q names %d settings, want %d", name, text, len(parts), len(row.want))
		}
	}
}

func TestDriverVersion(t *testing.T) {
	clean(t)
	driver := []string{"--endpoint=unix:///csi/csi.sock", "--nodeid=node-01"}
	for _, args := range [][]string{append(driver, "--version=v9"), append(driver, "--version", "v9")} {
		if o, err := parseOptions("test", args, &bytes.Buffer{}); err != nil || o.driver.version != "v9" {
			t.Errorf("%q: %v, %+v", args, err, o)
		}
	}
}

func TestEnvironmentSetsDefaults(t *testing.T) {
	clean(t)
	t.Setenv("NODE_NAME", "node-01")
	t.Setenv("PV_DIR", filepath.Join(t.TempDir(), "pool"))
	t.Setenv("USE_NAMING_PREFIX", "TRUE")
	t.Setenv("PV_RECLAIM_POLICY", "Retain")
	o, err := parseOptions("test", []string{"--directory-mode=2770", "--reserve=1Gi"}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if o.nodeName != "node-01" || !o.prefix || o.policy != "Retain" || o.reserveBytes != 1<<30 {
		t.Errorf("%+v", o)
	}
	if o.mode != 0o2770 {
		t.Errorf("mode %v", o.mode)
	}
}

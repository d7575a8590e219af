package agent

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
)

// clean takes away what the machine's environment would decide.
func clean(t *testing.T) {
	t.Setenv(settings.PodName, "")
	for _, s := range rows() {
		t.Setenv(s.Variable(), "")
		os.Unsetenv(s.Variable()) // an empty PROVISION is set, too; t.Setenv puts it back
	}
}

// rows returns the agent's settings.
func rows() (all []settings.Setting) {
	for _, section := range settings.Agent("test") {
		all = append(all, section.Settings...)
	}
	return all
}

func TestEverySettingHasATarget(t *testing.T) {
	flags := map[string]bool{}
	targets := (&Options{}).targets()
	for _, s := range rows() {
		flags[s.Flag] = true
		if targets[s.Flag] == nil {
			t.Errorf("the value of --%s goes nowhere", s.Flag)
		}
	}
	for flag := range targets {
		if !flags[flag] {
			t.Errorf("there is no --%s", flag)
		}
	}
}

// The operator checks one value at a time. No two of the values that it passes on may end its
// agents together.
func TestSettingsOfTheConfigMapFitTogether(t *testing.T) {
	clean(t)
	for name, value := range map[string]string{"NODE_NAME": "node-01", "PV_DIR": "/var/hpvolumes", settings.Provision: "hostpath,csi",
		"HPP_ENDPOINT": "unix:///csi/csi.sock", "POD_NAMESPACE": "ns"} {
		t.Setenv(name, value)
	}
	values := map[string]string{"HPP_RESERVE": "10Gi", "HPP_OVERCOMMIT": "2.5", "HPP_ENABLE_BTRFS_QUOTA": "true", "HPP_PURGE_RATE": "0x10", "HPP_COPY_RATE": "100Mi",
		"HPP_PUBLISH_CAPACITY": "False", "HPP_KUBE_API_QPS": "0.5", "HPP_METRICS_PER_VOLUME": "true", "HPP_CAPACITY": "filesystem",
		"HPP_SELINUX_LABEL": "auto", "HPP_ORPHANS": "delete", "PV_RECLAIM_POLICY": "Retain", "MIGRATE_USED": "true", "HPP_DIRECTORY_MODE": "0770",
		settings.MigrateToCSI: "run", "MIGRATE_FROM": "hostpath,rancher.io/local-path", "HPP_ORPHAN_GRACE": "0",
		"HPP_INLINE_VOLUMES": "legacy=1Gi", "HPP_TRASH_RETENTION": "720h", "HPP_TRASH_RETENTION_MAX": "1h"}
	for _, s := range rows() {
		if value := values[s.Variable()]; s.ConfigMap != (value != "") {
			t.Errorf("%s has the value %q here; may the ConfigMap have it: %v", s.Variable(), value, s.ConfigMap)
		}
	}
	for name, value := range values {
		t.Setenv(name, value)
	}
	o, err := Parse("v1", nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.purgeRate != 16 || o.copyRate.Value() != 100<<20 || o.qps != 0.5 || !o.wholeDisk || !o.orphans.remove || o.mode != 0o770 || o.migrate.mode != settings.MigrateRun ||
		len(o.migrate.others) != 2 || o.orphans.grace != 0 || o.provision.publish || o.reclaimPolicy != "Retain" {
		t.Errorf("%+v", o)
	}
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
		if o, err := Parse("test", args, &bytes.Buffer{}); err != nil || o.driver.version != "v9" {
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
	o, err := Parse("test", []string{"--directory-mode=2770", "--reserve=1Gi"}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if o.nodeName != "node-01" || !o.prefix || o.reclaimPolicy != "Retain" || o.reserve.String() != "1Gi" {
		t.Errorf("%+v", o)
	}
	if o.mode != 0o2770 {
		t.Errorf("mode %v", o.mode)
	}
}

func TestSettingsFromTheEnvironment(t *testing.T) {
	clean(t)
	t.Setenv("NODE_NAME", "node-01")
	t.Setenv("PV_DIR", t.TempDir())
	t.Setenv("USE_NAMING_PREFIX", "tRUE")
	t.Setenv("HPP_PURGE_RATE", "7")
	t.Setenv("HPP_KUBE_API_QPS", "3")
	t.Setenv("HPP_RESERVE", "")
	o, err := Parse("test", []string{"--kube-api-qps=4"}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if !o.prefix || o.purgeRate != 7 || o.qps != 4 || !o.reserve.IsZero() {
		t.Errorf("prefix %v, purge rate %d, requests per second %v, reserve %s", o.prefix, o.purgeRate, o.qps, &o.reserve)
	}
	t.Setenv("HPP_PURGE_RATE", "fast")
	if _, err := Parse("test", nil, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "HPP_PURGE_RATE") {
		t.Errorf("error %v, want one that names the variable", err)
	}
}

// An empty --compat counts as not given, and one that names nothing does not.
func TestClaimsWithoutProvision(t *testing.T) {
	for _, row := range []struct {
		compat, provision string
		want              string // of the provisioners; "" is an error
	}{
		{"", "-", "kubevirt.io/hostpath-provisioner"},
		{"local-path", "-", "rancher.io/local-path"},
		{"local-path", "hostpath", "kubevirt.io/hostpath-provisioner rancher.io/local-path"},
		{"local-path", "", "rancher.io/local-path"},
		{",", "-", ""},
		{"", "", ""},
	} {
		clean(t)
		if row.provision != "-" {
			t.Setenv(settings.Provision, row.provision)
		}
		var got []string
		o, err := Parse("test", []string{"--node-name=a", "--pv-dir=" + filepath.Join(t.TempDir(), "pool"), "--compat=" + row.compat}, io.Discard)
		if err == nil {
			for _, d := range o.provision.dialects {
				got = append(got, d.Provisioner)
			}
		}
		if strings.Join(got, " ") != row.want {
			t.Errorf("--compat=%s, PROVISION %s: %q, %v; want %q", row.compat, row.provision, got, err, row.want)
		}
	}
}

// Behind a sidecar the agent sees no PVs, with which undelete compares what it keeps.
func TestRetentionNeedsPVs(t *testing.T) {
	clean(t)
	driver := []string{"--endpoint=unix:///csi/csi.sock", "--nodeid=node-01", "--pv-dir=/var/hpvolumes"}
	for flag, bad := range map[string]bool{"--trash-retention=24h": true, "--trash-retention-max=1h": true, "--trash-retention=0": false, "--purge-rate=7": false} {
		_, err := Parse("test", append(driver, flag), io.Discard)
		if (err != nil) != bad || bad && !strings.Contains(err.Error(), "sees none in driver-only mode") {
			t.Errorf("%s: %v", flag, err)
		}
		o, err := Parse("test", append(driver, flag, "--provision=csi", "--namespace=ns"), io.Discard)
		if err != nil || o.retention.most == 0 {
			t.Errorf("%s with --provision: %v", flag, err)
		}
	}
}

package agent

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
)

func TestParseDataDirs(t *testing.T) {
	// As the existing operator writes it, with a pool inside another.
	all, err := ParseDataDirs(`[{"name":"local","path":"local-data-dir/csi","shared":false},
		{"name":"outer","path":"/srv/x/","snapshotPath":"/srv/x/snaps","snapshotProvider":"reflink"},
		{"name":"inner","path":"/srv/x/csi"}]`)
	if err != nil {
		t.Fatal(err)
	}
	reserveInner(all)
	for i, want := range []struct {
		name, path string
		inner      []string
	}{
		{"local", "/local-data-dir/csi", []string{"snapshots"}},
		{"outer", "/srv/x", []string{"snapshots", "snaps", "csi"}},
		{"inner", "/srv/x/csi", []string{"snapshots"}},
	} {
		if got := all[i]; got.Name != want.name || got.Path != want.path || !slices.Equal(got.inner, want.inner) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	for name, row := range map[string]struct{ text, want string }{
		"nothing":    {"", "JSON list"},
		"no list":    {"{}", "JSON list"},
		"empty":      {"[]", "no pool"},
		"no name":    {`[{"path":"/srv/a"}]`, "entry 1 has no name"},
		"no path":    {`[{"name":"a"}]`, `"a" has no path`},
		"same name":  {`[{"name":"a","path":"/srv/a"},{"name":"a","path":"/srv/b"}]`, `two pools have the name "a"`},
		"same path":  {`[{"name":"a","path":"/srv/a"},{"name":"b","path":"srv/./a/"}]`, "the same path /srv/a"},
		"wrong type": {`[{"name":1}]`, "JSON list"},
		"misspelt":   {`[{"name":"a","path":"/srv/a"},{"name":"b","path":"/srv/b","snapshotpath":"/s","capacty":1}]`, `unknown field "capacty"`},
		"more":       {`[{"name":"a","path":"/srv/a"}] []`, "JSON list"},
	} {
		if _, err := ParseDataDirs(row.text); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want words %q", name, err, row.want)
		}
	}
}

func TestDriverSettingsAreRefused(t *testing.T) {
	clean(t)
	// What the older driver's DaemonSet sets must not start the provisioner.
	t.Setenv("PV_DIR", `[{"name":"local","path":"x"}]`)
	dir := t.TempDir()
	endpoint, node := "--endpoint=unix://"+dir+"/csi.sock", "--nodeid=node-01"
	pool := `--datadir=[{"name":"legacy","path":"` + dir + `/pool"}]`
	exit := map[string]int{"taken port": 1, "metrics": 1, "no pair": 1} // the others are 2
	for name, row := range map[string]struct {
		args []string
		want string
	}{
		"no node":     {[]string{endpoint, pool}, "NODE_NAME"},
		"long node":   {[]string{endpoint, pool, "--nodeid=" + strings.Repeat("n", 64)}, "topology label"},
		"tcp":         {[]string{"--endpoint=tcp://:1", node, pool}, "tcp is not supported"},
		"no driver":   {[]string{endpoint, node, pool, "--drivername="}, "driver name"},
		"no version":  {[]string{endpoint, node, pool, "--version="}, "version"},
		"system path": {[]string{endpoint, node, `--datadir=[{"name":"a","path":"etc"}]`}, "/etc belongs to the operating system"},
		"kubelet":     {[]string{endpoint, node, pool, "--kubelet-dir=kubelet"}, "kubelet directory"},
		"taken port":  {[]string{endpoint, node, pool, "--http-address=256.0.0.1:1"}, "--http-address"},
		"metrics":     {[]string{endpoint, node, pool, "--metrics-address=256.0.0.1:1"}, "--metrics-address"},
		"no key":      {[]string{endpoint, node, pool, "--metrics-cert-file=/c"}, "without --metrics-key-file"},
		"no cert":     {[]string{endpoint, node, pool, "--metrics-key-file=/k"}, "without --metrics-cert-file"},
		"no pair": {[]string{endpoint, node, pool, "--metrics-address=127.0.0.1:0", "--metrics-cert-file=/no/c", "--metrics-key-file=/no/k"},
			"/no/c"},
	} {
		// What a row names comes last and wins.
		args := append([]string{"--metrics-address="}, row.args...)
		err := Run(context.Background(), "test", args, &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want words %q", name, err, row.want)
		}
		if got, want := ExitCode(err), cmp.Or(exit[name], 2); got != want {
			t.Errorf("%s: exit code %d after %v, want %d", name, got, err, want)
		}
	}
}

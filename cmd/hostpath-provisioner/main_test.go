package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/agent"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// clean takes away what the machine's environment would decide.
func clean(t *testing.T) {
	for _, name := range []string{"NODE_NAME", "PV_DIR", "PV_DIR_MOUNT", "USE_NAMING_PREFIX", "PV_RECLAIM_POLICY", "DATADIR", "PROVISION", "POD_NAME", "POD_NAMESPACE",
		"MIGRATE_TO_CSI", "MIGRATE_USED"} {
		t.Setenv(name, "")
	}
	os.Unsetenv("PROVISION") // empty, it says something; t.Setenv puts it back
}

func TestSettingsAreRefused(t *testing.T) {
	clean(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	node := "--node-name=node-01"
	pool := "--pv-dir=" + filepath.Join(dir, "pool")
	exit := map[string]int{ // the others are 2
		"parent missing": 1, "inspect nowhere": 1, "inspect no pool": 1, "plan of nobody": 1, "no configuration": 1,
	}
	for name, row := range map[string]struct {
		args []string
		want string
	}{
		"no node":          {[]string{pool}, "NODE_NAME"},
		"no directory":     {[]string{node}, "PV_DIR"},
		"root":             {[]string{node, "--pv-dir=/"}, `"/"`},
		"a file":           {[]string{node, "--pv-dir=" + file}, file},
		"parent missing":   {[]string{node, "--pv-dir=" + dir + "/a/b"}, dir + "/a"},
		"unknown flag":     {[]string{node, pool, "--no-such"}, "--no-such"},
		"unknown command":  {[]string{"serve"}, `"serve"`},
		"bad policy":       {[]string{node, pool, "--reclaim-policy=Recycle"}, `"Recycle"`},
		"policy of nobody": {[]string{"--endpoint=unix://" + dir + "/none/csi.sock", "--nodeid=n", "--reclaim-policy=Retain"}, "set reclaimPolicy in the classes"},
		"delete for none":  {[]string{"--endpoint=unix://" + dir + "/none/csi.sock", "--nodeid=n", "--orphans=delete"}, "--orphans=delete compares volumes"},
		"bad mode":         {[]string{node, pool, "--directory-mode=rwx"}, `"rwx"`},
		"bad capacity":     {[]string{node, pool, "--capacity=disk"}, "--capacity"},
		"bad reserve":      {[]string{node, pool, "--reserve=-1"}, `"-1"`},
		"bad overcommit":   {[]string{node, pool, "--overcommit=0"}, "--overcommit"},
		"no requests":      {[]string{node, pool, "--kube-api-qps=0"}, "--kube-api-qps"},
		"bad profiles":     {[]string{node, pool, "--pprof-address=6060"}, `"6060"`},
		"no driver":        {[]string{node, pool, "--kubelet-registration-path=/csi.sock"}, "--endpoint"},
		"migrate how":      {[]string{node, pool, "--migrate-to-csi=now"}, `is "now"; set it to off, plan`},
		"migrate alone":    {[]string{node, pool, "--migrate-to-csi=run"}, "--provision=hostpath,csi"},
		"plan of what":     {[]string{"migrate", "plan"}, `"plan" is no flag`},
		"plan of nobody":   {[]string{"migrate", "--http-address=127.0.0.1:1"}, "ask the agent of this container"},
		"bad TLS version":  {[]string{node, pool, "--metrics-tls-version=VersionTLS14"}, `is "VersionTLS14"; set it to VersionTLS10`},
		"TLS, no name":     {[]string{node, pool, "--metrics-tls-version=1.2"}, "--metrics-tls-version"},
		"not a number":     {[]string{node, pool, "--overcommit=NaN"}, "overcommit"},
		"version of what":  {[]string{"version", "--short"}, `"--short"`},
		"version, no end":  {[]string{node, "--version"}, "--version"},
		"inspect nothing":  {[]string{"inspect"}, "PV_DIR"},
		"inspect nowhere":  {[]string{"inspect", dir + "/none"}, "there is no directory"},
		"inspect as what":  {[]string{"inspect", "-o", "xml", "/a"}, `"xml"`},
		"inspect no pool":  {[]string{"inspect", dir}, "no pool"},
		"no configuration": {[]string{node, pool, "--kubeconfig=" + dir + "/none"}, "--kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			err := run(context.Background(), row.args, &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v; want one line with %s", err, row.want)
			}
			if got, want := agent.ExitCode(err), cmp.Or(exit[name], 2); got != want {
				t.Errorf("exit code %d after %v, want %d", got, err, want)
			}
			if _, err := os.Stat(filepath.Join(dir, "pool")); err == nil {
				t.Error("a directory was made")
			}
		})
	}
}

// The version is printed where no value follows; the CSI driver's flag has one.
func TestVersion(t *testing.T) {
	clean(t)
	defer func(before string) { version = before }(version)
	version = "v1.2.3"
	for _, args := range [][]string{{"version"}, {"--version"}} {
		var out bytes.Buffer
		if err := run(t.Context(), args, &out); err != nil || !strings.HasPrefix(out.String(), "hostpath-provisioner v1.2.3 ") ||
			strings.Count(out.String(), "\n") != 1 {
			t.Errorf("%q: %v, %q", args, err, out.String())
		}
	}
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	if err := run(context.Background(), []string{"--help"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"NODE_NAME", "PV_DIR", "USE_NAMING_PREFIX", "PV_RECLAIM_POLICY", "--http-address",
		"kubevirt.io/provisionOnNode", "inspect", "hostpath-provisioner migrate", "hostpath-provisioner version", "MIGRATE_TO_CSI", "/readyz", "Exit code"} {
		if !strings.Contains(out.String(), word) {
			t.Errorf("--help does not mention %s", word)
		}
	}
}

func TestInspect(t *testing.T) {
	clean(t)
	dir := filepath.Join(t.TempDir(), "pool")
	pool, err := volume.New(volume.Config{Path: dir, Holder: "the test"})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := pool.Open(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pvc-a", "pvc-b"} {
		if _, err := pool.Create(volume.Spec{Name: name, Bytes: 5 << 20, PV: name,
			Owner: record.Owner{Namespace: "default", Name: "data", UID: name}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := pool.Delete("pvc-b"); err != nil {
		t.Fatal(err)
	}

	var out bytes.Buffer
	if err := run(context.Background(), []string{"inspect", dir}, &out); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{dir, pool.ID(), "owned by the test", " available: ", "5Mi allocated to 1 volume", "pvc-a", "ready", "default/data", "TRASH", "pvc-b", "quotas    "} {
		if !strings.Contains(out.String(), word) {
			t.Errorf("no %q in\n%s", word, out.String())
		}
	}

	// As a shell's user names it.
	t.Chdir(filepath.Dir(dir))
	for _, relative := range []string{"pool", "./pool", "../" + filepath.Base(filepath.Dir(dir)) + "/pool"} {
		if err := run(context.Background(), []string{"inspect", relative}, &out); err != nil {
			t.Errorf("%s: %v", relative, err)
		}
	}

	out.Reset()
	t.Setenv("PV_DIR", dir)
	if err := run(context.Background(), []string{"inspect", "-o", "json"}, &out); err != nil {
		t.Fatal(err)
	}
	var report inspect.Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Volumes) != 1 || len(report.Trash) != 1 || report.Pool.ID != pool.ID() {
		t.Errorf("%+v", report)
	}

	// As a purge leaves it that could not remove the entry.
	record := filepath.Join(dir, ".hostpath-provisioner", "trash", report.Trash[0].ID+".json")
	data, err := os.ReadFile(record)
	if err == nil {
		err = os.WriteFile(record, bytes.Replace(data, []byte("{"), []byte(`{"stuck": "remove f: not permitted",`), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := run(context.Background(), []string{"inspect", dir}, &out); err != nil {
		t.Fatal(err)
	}
	if want := "stuck     " + report.Trash[0].ID + " in the trash: remove f: not permitted\n"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s", want, out.String())
	}
}

// The agent's container says which pools it has, in one variable or in two.
func TestInspectAllPools(t *testing.T) {
	for name, row := range map[string]struct {
		pvDir, dataDir string
		want           []string
	}{
		"one":           {"/a", "", []string{"/a"}},
		"list":          {"", `[{"name":"a","path":"/a"},{"name":"b","path":"b"}]`, []string{"/a", "/b"}},
		"both":          {"/a", `[{"name":"b","path":"/a/csi"}]`, []string{"/a", "/a/csi"}},
		"one and same":  {"/a", `[{"name":"b","path":"/a"}]`, []string{"/a"}},
		"older driver":  {`[{"name":"local","path":"local-data-dir/csi","shared":false}]`, "", []string{"/local-data-dir/csi"}},
		"one shared":    {"", `[{"name":"a","path":"/a","shared":true},{"name":"b","path":"b"}]`, []string{"/b"}},
		"none":          {"", "", nil},
		"not any pools": {"", "[]", nil},
	} {
		clean(t)
		t.Setenv("PV_DIR", row.pvDir)
		t.Setenv("DATADIR", row.dataDir)
		settings, _, err := poolsToInspect(nil)
		var got []string
		for _, s := range settings {
			got = append(got, s.Path)
		}
		if !slices.Equal(got, row.want) || (err == nil) != (row.want != nil) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, row.want)
		}
	}
}

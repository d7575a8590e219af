package main

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// The available space is that which the agent reports: with its reserve, and without what its other
// pools on the filesystem have allocated, also if only one pool is named.
func TestInspectAvailable(t *testing.T) {
	clean(t)
	const reserve = 64 << 20
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for i, path := range []string{a, b} {
		pool, err := volume.New(volume.Config{Path: path, Reserve: reserve, Holder: "the test"})
		if err != nil {
			t.Fatal(err)
		}
		if err := pool.Open(); err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		name := []string{"pvc-a", "pvc-b"}[i]
		if _, err := pool.Create(volume.Spec{Name: name, Bytes: int64(i+1) << 20, PV: name, Owner: record.Owner{Namespace: "default", Name: "data", UID: name}}); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("DATADIR", `[{"name":"fast","path":"`+a+`"},{"name":"slow","path":"`+b+`"}]`)
	for name, value := range map[string]string{"NODE_NAME": "node-01", "POD_NAMESPACE": "ns", "PROVISION": "csi", "HPP_ENDPOINT": "unix:///csi.sock", "HPP_RESERVE": "64Mi"} {
		t.Setenv(name, value)
	}
	var report inspect.Report
	var out bytes.Buffer
	if err := run(context.Background(), []string{"inspect", "-o", "json", a}, &out); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	s := report.Space
	if want := min(s.Free-reserve, s.Total-s.External-reserve-3<<20); report.Pool.Name != "fast" || s.Elsewhere != 2<<20 || s.Available != want {
		t.Errorf("pool %q: %+v, want %d available", report.Pool.Name, s, want)
	}
	out.Reset()
	if err := run(context.Background(), []string{"inspect"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"pool      fast, " + a, "pool      slow, " + b, " available: ", ", 2Mi to other pools on the filesystem", ", 64Mi reserved"} {
		if !strings.Contains(out.String(), words) {
			t.Errorf("no %q in\n%s", words, out.String())
		}
	}
}

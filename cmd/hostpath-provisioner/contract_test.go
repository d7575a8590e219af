package main

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/agent/orphans"
	"kubevirt.io/hostpath-provisioner/controller/disks"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// What inspect prints of real pools is decoded, and written again, without a difference.
func TestInspectRoundTrip(t *testing.T) {
	clean(t)
	dirs := []string{filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")}
	for _, path := range dirs {
		pool, err := volume.New(volume.Config{Path: path, Holder: "the test"})
		if err != nil {
			t.Fatal(err)
		}
		if err := pool.Open(); err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		owner := record.Owner{Namespace: "shop", Name: "data", UID: "u"}
		if _, err := pool.Create(volume.Spec{Name: "pvc-1", Bytes: 1 << 20, PV: "pvc-1", Owner: owner}); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := run(context.Background(), append([]string{"inspect", "-o", "json"}, dirs...), &out); err != nil {
		t.Fatal(err)
	}
	all, err := inspect.Decode(strings.NewReader(out.String()))
	if err != nil || len(all) != 2 {
		t.Fatalf("%d reports, error %v, of\n%s", len(all), err, out.String())
	}
	again := ""
	for i, r := range all {
		if r.Version != inspect.Version || r.Pool.Path != dirs[i] || len(r.Volumes) != 1 || r.Volumes[0].Owner.Name != "data" {
			t.Errorf("%+v", r)
		}
		data, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		again += escaped(data) + "\n"
	}
	if again != out.String() {
		t.Errorf("inspect prints\n%s\nand written again it is\n%s", out.String(), again)
	}
}

// The plugin of kubectl reads what the agents print, field by field.
func TestPluginReadsLists(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	same[orphans.Orphan, agents.Orphan](t, orphans.Orphan{Pool: "/p", PoolUUID: "u", Name: "v", Bytes: 1, PV: "pv", Claim: "a/b",
		ReclaimPolicy: "Retain", Since: now, Why: "gone", Kept: "kept"})
	same[disks.Report, agents.Device](t, disks.Report{Device: "/dev/sdb", Paths: []string{"/dev/disk"}, ID: "id", Bytes: 1,
		State: disks.Wiping, Why: "why", PV: "pv", Retry: now, Confirm: "a=b", Wiped: 1, Verified: 2, WipeBytes: 3})
}

// same checks that the JSON of a value has no field that the other type lacks.
func same[From, To any](t *testing.T, value From) {
	t.Helper()
	want, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var to To
	decoder := json.NewDecoder(bytes.NewReader(want))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&to); err != nil {
		t.Fatalf("%T: %v", to, err)
	}
	got, err := json.Marshal(to)
	if err != nil {
		t.Fatal(err)
	}
	var wanted, read map[string]any
	if err := json.Unmarshal(want, &wanted); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got, &read); err != nil {
		t.Fatal(err)
	}
	for key, value := range wanted {
		text, _ := json.Marshal(value)
		if also, _ := json.Marshal(read[key]); string(also) != string(text) {
			t.Errorf("%T: %s is %s, want %s", to, key, also, text)
		}
	}
}

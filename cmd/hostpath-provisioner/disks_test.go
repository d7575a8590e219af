package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/agent"
	"kubevirt.io/hostpath-provisioner/controller/disks"
)

// devicesServer answers as the process of the container does, and returns its address.
func devicesServer(t *testing.T, reports []disks.Report) (address string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != disks.Path {
			http.NotFound(w, r)
			return
		}
		if err := json.NewEncoder(w).Encode(reports); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func TestInspectDisks(t *testing.T) {
	address := devicesServer(t, []disks.Report{
		{Device: "/dev/disk/by-id/a", ID: "wwn-1", Bytes: 10 << 30, State: disks.Wiping, PV: "local-n-a", Wiped: 100, Verified: 50, WipeBytes: 100},
		{Device: "/dev/b\x1b[2J", Bytes: 512, State: disks.Refused, Why: "it carries an xfs filesystem"},
		{Device: "/dev/e\u200b", State: disks.Refused},
		{Device: "/dev/d", State: disks.Error, Why: "it fails", Retry: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		{Device: "/dev/c", State: disks.Unclear, PV: "local-n-c", Confirm: disks.AnnConfirmed + "=naa.5"},
		{Device: "/dev/f", State: disks.Bound, PV: "local-n-f", Owner: "uid-1"},
	})
	for format, want := range map[string][]string{
		"table": {"DEVICE", "/dev/disk/by-id/a  ", "wwn-1", "10Gi", "wiping 75%", "local-n-a", `"/dev/b\x1b[2J"`, "refused", "it carries an xfs filesystem", "it fails; tried again at 2026-01-02T03:04:05Z",
			"\n  kubectl annotate --overwrite pv local-n-c hostpath-provisioner.kubevirt.io/disk-confirmed=naa.5\n",
			"\n  kubectl patch pv local-n-f --type=merge -p '{\"metadata\":{\"ownerReferences\":null," +
				"\"annotations\":{\"hostpath-provisioner.kubevirt.io/node-uid\":\"uid-1\"}}}'\n"},
		"json": {`"device": "/dev/disk/by-id/a"`, `"device": "/dev/e\u200b"`, `"state": "refused"`, `"wipeBytes": 100`},
		"yaml": {"- bytes: 10737418240", "  device: /dev/disk/by-id/a", "  state: wiping"},
	} {
		var out strings.Builder
		if err := run(t.Context(), []string{"disks", "inspect", "-o", format, "--metrics-addr", address}, &out); err != nil {
			t.Errorf("%s: %v", format, err)
		}
		for _, words := range want {
			if !strings.Contains(out.String(), words) {
				t.Errorf("%s: no %q in\n%s", format, words, out.String())
			}
		}
	}
}

// A process whose configuration is invalid offers nothing, and inspect says why, in every format.
func TestInspectDisksOfAFailedPass(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(disks.FailureHeader, "ConfigMap disks/all: dir: is required")
		_, _ = w.Write([]byte("[]"))
	}))
	t.Cleanup(server.Close)
	for _, format := range []string{"table", "json", "yaml"} {
		var out strings.Builder
		err := run(t.Context(), []string{"disks", "inspect", "-o", format, "--metrics-addr", strings.TrimPrefix(server.URL, "http://")}, &out)
		if err == nil || !strings.Contains(err.Error(), "ConfigMap disks/all: dir: is required") || out.Len() == 0 {
			t.Errorf("%s: %v, printed %q", format, err, out.String())
		}
	}
}

// Mistakes are the caller's, and the error names what is right.
func TestDisksUsage(t *testing.T) {
	t.Setenv("LP_NODE_NAME", "")
	t.Setenv("LP_NAMESPACE_NAME", "")
	for _, args := range [][]string{
		{"disks"}, {"disks", "--node-name=n"}, {"disks", "inspekt"}, {"disks", "inspect", "-o", "xml"}, {"disks", "inspect", "x"}, {"disks", "inspect", "--nope"},
	} {
		if err := run(t.Context(), args, &strings.Builder{}); err == nil || agent.ExitCode(err) != 2 || !strings.Contains(err.Error(), "disks") {
			t.Errorf("%q: %v", args, err)
		}
	}
	var help strings.Builder
	if err := run(t.Context(), []string{"disks", "--help"}, &help); err != nil || !strings.Contains(help.String(), "disks inspect") {
		t.Errorf("--help: %v: %s", err, help.String())
	}
}

package migrate

import (
	"os"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
)

// The plan that docs/migration.md shows is one as it is printed, with reasons as they are given.
func TestMigrationPageShowsAPlan(t *testing.T) {
	directory := func(pv string) string { return "/var/hpvolumes/" + pv }
	r := Report{Node: "node-01", Mode: settings.MigratePlan}
	for _, e := range []Entry{
		{PV: "pvc-35aaaf25-d060-407c-957a-0db5f42b3042", Claim: "shop/data-db-0", To: "csi", Verdict: Waiting,
			Reason: "pod shop/db-0 uses it; it is migrated when the pod is gone, or now with --migrate-used"},
		{PV: "pvc-406ded47-3769-4f65-84ac-bc3574b6502c", Claim: "shop/uploads", To: "csi", Verdict: Ready},
		{PV: "pvc-46d261c2-d163-4fe1-bb0f-c94ff72f96c4", Claim: "vms/disk-1", To: "csi", Verdict: Refused,
			Reason: `the PV has finalizers of other controllers: ["backup.example.com/hold"]`},
		{PV: "pvc-593af6ba-0879-426e-8151-3602ad5bad7d", Claim: "vms/disk-2", Verdict: Migrated},
	} {
		e.Directory = directory(e.PV)
		r.Entries = append(r.Entries, e)
	}
	var out strings.Builder
	if err := r.Print(&out); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../docs/migration.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if line = "    " + strings.TrimRight(line, " \n") + "\n"; !strings.Contains(string(page), line) {
			t.Errorf("docs/migration.md lacks the line\n%s", line)
		}
	}
}

package migrate

import (
	"strings"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A PV that was tried alone keeps its annotation, which keeps it from going back with the others:
// the plan says so.
func TestPlanNamesTheAnnotationThatStays(t *testing.T) {
	s := ordinary(openPool(t))
	_, csi, _, _ := served(settings.MigrateRun).verdict(s)
	old, err := encodePV(s.pv)
	if err != nil {
		t.Fatal(err)
	}
	s.pv, s.v.Migration = csi, &record.Migration{Step: record.MigrationDone, To: toCSI, Old: old}
	for value, row := range map[string]map[settings.MigrateMode]string{
		"run": {settings.MigrateBack: "kubectl annotate pv " + pvName + " " + contract.AnnMigrate + "-", settings.MigrateRun: "", settings.MigratePlan: "", settings.MigrateAnnotated: ""},
		"off": {settings.MigrateBack: "kubectl annotate pv " + pvName + " " + contract.AnnMigrate + "-", settings.MigrateRun: ""},
		"":    {settings.MigrateRun: "", settings.MigrateAnnotated: ""},
	} {
		delete(s.pv.Annotations, contract.AnnMigrate)
		if value != "" {
			s.pv.Annotations[contract.AnnMigrate] = value
		}
		for mode, words := range row {
			if _, _, verdict, reason := served(mode).verdict(s); verdict != Migrated || (reason == "") != (words == "") || !strings.Contains(reason, words) {
				t.Errorf("annotation %q, mode %s: %s, %q; want %q", value, mode, verdict, reason, words)
			}
		}
	}
}

// A plan without PVs says whether there are none, or none were checked; and how old it is.
func TestPlanSaysWhatItKnows(t *testing.T) {
	for mode, want := range map[settings.MigrateMode]string{settings.MigrateOff: "this mode checks no other PVs", settings.MigratePlan: "no PV that is, or was, a hostPath PV"} {
		var out strings.Builder
		if err := (Report{Mode: mode}).Print(&out); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v, %s", mode, err, out.String())
		}
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if got := (Report{Checked: now.Add(-7 * time.Second)}).Age(now); got != "checked 7s ago; pods that start or end are noticed within 16s" {
		t.Error(got)
	}
	if got := (Report{}).Age(now); got != "the agent has not checked yet" {
		t.Error(got)
	}
}

package conformance

import (
	"slices"
	"strings"
	"testing"
)

// report is one of Ginkgo, with a spec of each outcome and one of another driver.
const report = `[{"SpecReports": [
	{"ContainerHierarchyTexts": ["External Storage [Driver: kubevirt.io.hostpath-provisioner]", "volumes"], "LeafNodeText": "stores data",
	 "State": "passed", "RunTime": 2000000000},
	{"ContainerHierarchyTexts": ["External Storage [Driver: kubevirt.io.hostpath-provisioner]", "volumes"], "LeafNodeText": "grows",
	 "State": "failed", "Failure": {"Message": "timed out\nstack"}},
	{"ContainerHierarchyTexts": ["External Storage [Driver: kubevirt.io.hostpath-provisioner]", "volumes"], "LeafNodeText": "is a block",
	 "State": "skipped", "Failure": {"Message": "Driver kubevirt.io.hostpath-provisioner doesn't support Block -- skipping"}},
	{"ContainerHierarchyTexts": ["External Storage [Driver: kubevirt.io.hostpath-provisioner]", "[Slow] volumes"], "LeafNodeText": "waits",
	 "State": "skipped"},
	{"ContainerHierarchyTexts": ["CSI Mock"], "LeafNodeText": "stores data", "State": "passed"}
]}]`

func read(t *testing.T) []Spec {
	t.Helper()
	specs, err := Read(strings.NewReader(report))
	if err != nil {
		t.Fatal(err)
	}
	return specs
}

func TestRead(t *testing.T) {
	var got []string
	for _, s := range read(t) {
		got = append(got, []string{"passed", "failed", "skipped", "left"}[s.Outcome]+": "+s.Name+": "+s.Why)
	}
	want := []string{"passed: volumes stores data: ", "failed: volumes grows: timed out",
		"skipped: volumes is a block: Driver kubevirt.io.hostpath-provisioner doesn't support Block -- skipping",
		"left: [Slow] volumes waits: "}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if _, err := Read(strings.NewReader("no report")); err == nil {
		t.Error("no report was read")
	}
}

// Whatever is not as people have written it down is a fault.
func TestFaults(t *testing.T) {
	const ran, excluded = "volumes stores data\n", "\\[Slow\\] | long: minutes each\n"
	for name, row := range map[string]struct {
		ran, excluded string
		specs         func([]Spec) []Spec
		want          string // part of the one fault, none if it is empty
	}{
		"good":        {ran, excluded, func(s []Spec) []Spec { return slices.Delete(s, 1, 2) }, ""},
		"failed":      {ran, excluded, func(s []Spec) []Spec { return s }, "failed: volumes grows: timed out"},
		"not in list": {"", excluded, func(s []Spec) []Spec { return slices.Delete(s, 1, 2) }, "missing from ran.txt: volumes stores data"},
		"renamed": {ran, excluded, func(s []Spec) []Spec { return slices.Delete(s, 0, 2) },
			"in ran.txt, and did not pass: volumes stores data"},
		"capability is gone": {ran + "volumes is a block\n", excluded, func(s []Spec) []Spec { return slices.Delete(s, 1, 2) },
			"in ran.txt, and did not pass: volumes is a block"},
		"not excluded": {ran, "", func(s []Spec) []Spec { return slices.Delete(s, 1, 2) }, "neither run nor excluded: [Slow] volumes waits"},
		"skipped for another reason": {ran, excluded, func(s []Spec) []Spec {
			s = slices.Delete(s, 1, 2)
			s[1].Why = "no node was ready"
			return s
		}, "no capability of the driver: volumes is a block: no node was ready"},
	} {
		l, err := parse("# a comment\n\n"+row.ran, row.excluded)
		if err != nil {
			t.Fatal(err)
		}
		got := l.Faults(row.specs(read(t)))
		if row.want == "" && len(got) > 0 || row.want != "" && (len(got) != 1 || !strings.Contains(got[0], row.want)) {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

// A full run has the specs that only take long, and a form those that only another does without.
func TestFor(t *testing.T) {
	l, err := parse("", `\[Slow\] | long: minutes each`+"\n"+`\[Disruptive\] | no ssh`+"\n"+`immediate | form csi: no node is chosen`+"\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		form string
		full bool
		want string
	}{
		{"csi", false, `\[Slow\]|\[Disruptive\]|immediate`},
		{"csi-sidecars", false, `\[Slow\]|\[Disruptive\]`},
		{"csi-sidecars", true, `\[Disruptive\]`},
	} {
		if got := l.For(row.form, row.full).Skip(); got != row.want {
			t.Errorf("%s, full %v: %q, want %q", row.form, row.full, got, row.want)
		}
	}
}

// The lists of the tree can be read, name no spec twice, and give a reason for all that is left out.
func TestCommitted(t *testing.T) {
	l, err := Committed()
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Ran) < 30 || !slices.IsSorted(l.Ran) || len(slices.Compact(slices.Clone(l.Ran))) != len(l.Ran) {
		t.Errorf("ran.txt has %d specs; each stands once, in order", len(l.Ran))
	}
	for _, bad := range []string{"no bar", "a | ", "( | not an expression"} {
		if _, err := parse("", bad); err == nil {
			t.Errorf("excluded.txt: %q was read", bad)
		}
	}
}

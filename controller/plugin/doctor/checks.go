package doctor

import (
	"slices"
	"strings"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
)

// Verdict is what a check found.
type Verdict string

// The verdicts.
const (
	OK       Verdict = "ok"
	Warning  Verdict = "warning"  // it will hurt
	Critical Verdict = "critical" // it hurts: claims, pods or volumes do not work
	Unknown  Verdict = "unknown"  // it could not be read
)

// Row is one result of a check.
type Row struct {
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	// Object is what the verdict is about; "" for the whole cluster.
	Object string `json:"object,omitempty"`
	Why    string `json:"why,omitempty"`
	Fix    string `json:"fix,omitempty"`
	// Page is the page of the repository about it.
	Page string `json:"page"`
}

// finding is a Row without its check.
type finding struct {
	verdict          Verdict
	object, why, fix string
}

// check is one question.
type check struct {
	name, page string
	of         func(f *Facts) []finding
}

// checks are those that only read, in the order of their rows.
var checks = []check{
	{"agents", "docs/troubleshooting.md", agentsRun},
	{"operator", "docs/operator.md", operator},
	{"permissions", "docs/troubleshooting.md", accounts},
	{"kubelet", "docs/troubleshooting.md", kubelet},
	{"driver", "docs/troubleshooting.md", driver},
	{"priority-quota", "docs/install.md", priorityQuota},
	{"versions", "docs/install.md", versions},
	{"pools", "docs/operations.md", pools},
	{"space", "docs/runbooks/HPPPoolAlmostFull.md", poolSpace},
	{"volume-health", "docs/runbooks/HPPVolumeAbnormal.md", abnormal},
	{"disks", "docs/raw-disks.md", disks},
	{"quotas", "docs/quotas.md", quotas},
	{"system-disk", "docs/runbooks/HPPSharingPoolPathWithOS.md", systemDisk},
	{"certificates", "docs/runbooks/HPPCertificateExpiring.md", certificates},
	{"classes", "docs/storage-classes.md", classes},
	{"default-class", "docs/storage-classes.md", defaultClass},
	{"volumes", "docs/node-gone.md", volumes},
	{"claims", "docs/troubleshooting.md", claims},
	{"clocks", "docs/troubleshooting.md", clocks},
	{"kubernetes", "docs/support.md", serverVersion},
}

// checksOf returns the checks that the facts are for: what was not measured is not ok.
func checksOf(f *Facts) []check {
	if f.Measured == nil {
		return checks
	}
	return append(slices.Clip(checks), check{"controller-manager", "docs/performance.md", controllerManager})
}

// named is how many objects a row names.
const named = 5

// Run returns the rows of the checks: what each found, what it could not read, or ok. Findings that
// differ in the object alone are one row.
func Run(f *Facts) (rows []Row) {
	f.by = nil // of facts that were changed
	for _, c := range checksOf(f) {
		found := c.of(f)
		if len(found) == 0 {
			found = []finding{{verdict: OK}}
		}
		for _, m := range merged(found) {
			rows = append(rows, Row{c.name, m.verdict, m.object, m.why, m.fix, c.page})
		}
	}
	return rows
}

// merged joins the objects of findings that are otherwise the same.
func merged(found []finding) (all []finding) {
	objects, seen := map[finding][]string{}, map[finding]bool{}
	for _, m := range found {
		key := m
		key.object = ""
		if _, has := objects[key]; !has {
			all = append(all, key)
			objects[key] = []string{}
		}
		if m.object != "" && !seen[m] {
			seen[m] = true
			objects[key] = append(objects[key], m.object)
		}
	}
	for i := range all {
		all[i].object = events.Names(objects[all[i]], named)
	}
	return all
}

// unread returns a finding for each reason why something could not be read.
func unread(reasons ...string) (all []finding) {
	for _, r := range reasons {
		if r != "" {
			all = append(all, finding{verdict: Unknown, why: r})
		}
	}
	return all
}

// Has reports whether a row has the verdict.
func Has(rows []Row, v Verdict) bool {
	return slices.ContainsFunc(rows, func(r Row) bool { return r.Verdict == v })
}

// Short returns the rows for people: findings first, the most severe before the others, and what is
// unknown once for each reason. Rows that are ok are left out unless all is set.
func Short(rows []Row, all bool) (short []Row) {
	for _, v := range []Verdict{Critical, Warning, OK} {
		for _, r := range rows {
			if r.Verdict == v && (v != OK || all) {
				short = append(short, r)
			}
		}
	}
	at := map[string]int{}
	for _, r := range rows {
		if r.Verdict != Unknown {
			continue
		}
		key := r.Object + "\n" + r.Why
		if i, seen := at[key]; seen {
			if !slices.Contains(strings.Split(short[i].Check, ", "), r.Check) {
				short[i].Check += ", " + r.Check
				short[i].Page = ""
			}
			continue
		}
		at[key] = len(short)
		short = append(short, r)
	}
	return short
}

package simulation

import "strings"

// known are the defects that are found and not mended yet. A run that ends with one of them is no
// failure; the mend removes the row.
var known = []struct{ rule, text, why string }{
	{"BYTES", "the data of claim default/old-", "the PV of a copied directory is adopted before it is Released, and then may delete the copy"},
	{"SILENT", "and another agent has its pool", "a claim of a class that only this agent serves waits silently while an agent of another form has the pool"},
	{"BUSY", "get persistentvolumeclaims", "an agent that migrates reads the claim of each Released PV at every check"},
}

// Known says which defect a violation is that is known already, "" if it is new.
func Known(v Violation) string {
	for _, k := range known {
		if k.rule == v.Rule && strings.Contains(v.Text, k.text) {
			return k.why
		}
	}
	return ""
}

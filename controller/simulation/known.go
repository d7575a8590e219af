package simulation

import "strings"

// known are the defects that are found and not mended yet. A run that ends with one of them is no
// failure; the mend removes the row.
var known = []struct{ rule, text, why string }{
	{"STUCK", "and no pool is to be there", "a pvcTemplate that is removed leaves its holder; or the disk waits for agents that a rollout does not replace"},
	{"SILENT", "and no agent runs on its node", "an agent is ready only if its pools are, so that a rollout ends where a disk is missing"},
	{"ROLLOUT", "; a pool moves", "an agent is ready only if its pools are: that of a pool that moves to another path waits for the agents that wait for it"},
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

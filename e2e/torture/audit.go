package torture

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Verdict is the result of a campaign.
type Verdict struct {
	Operations, Kills int64
	Moves             int64 // PVs that were replaced
	Undeleted         int64 // volumes that came back
	Copied            int64 // volumes that are copies
	Findings          []Finding
	// Trouble are failures besides findings: of the campaign itself, of an agent that ended at the
	// wrong time, or a data race.
	Trouble []string
}

// Clean reports whether there is no finding and no trouble.
func (v Verdict) Clean() bool { return len(v.Findings)+len(v.Trouble) == 0 }

// String returns the verdict as one line.
func (v Verdict) String() string {
	count := map[Kind]int{}
	for _, f := range v.Findings {
		count[f.Kind]++
	}
	more := ""
	if v.Moves > 0 {
		more = fmt.Sprintf(" moves %d", v.Moves)
	}
	if v.Undeleted > 0 {
		more += fmt.Sprintf(" undeleted %d", v.Undeleted)
	}
	if v.Copied > 0 {
		more += fmt.Sprintf(" copied %d", v.Copied)
	}
	return fmt.Sprintf("operations %d kills %d%s lost %d leaked %d double %d", v.Operations, v.Kills, more, count[Lost],
		count[Leaked], count[Double])
}

// find adds a finding.
func (c *campaign) find(kind Kind, format string, args ...any) {
	c.mu.Lock()
	before := len(c.found)
	c.found.add(kind, format, args...)
	isNew := len(c.found) > before
	c.mu.Unlock()
	if isNew {
		c.Logf("FOUND %s: %s", kind, fmt.Sprintf(format, args...))
	}
}

// audit waits until there is no finding, deletes everything, and waits until nothing is left. It
// returns the findings that remain after either wait; after the first it leaves everything as it
// is.
func (c *campaign) audit() {
	c.settle("everything has to settle", Judge)
	if len(c.found) > 0 {
		return
	}
	for _, t := range c.tenants {
		for _, cl := range t.claims {
			if !cl.deleted {
				t.drop(cl)
			}
			cl.policy = corev1.PersistentVolumeReclaimDelete
		}
	}
	c.settle("everything has to go", func(s Sight) []Finding {
		c.releaseAll(s) // also PVs that were created while claims were deleted
		c.emptyKept(s)
		return slices.Concat(Judge(s), Rest(s))
	})
}

// releaseAll sets the policy of retained PVs to Delete.
func (c *campaign) releaseAll(s Sight) {
	for _, pv := range s.PVs {
		if pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain && pv.DeletionTimestamp == nil {
			if err := c.patchPolicy(pv.Name, corev1.PersistentVolumeReclaimDelete); err != nil {
				c.Logf("release PV %s: %v", pv.Name, err) // a PV that stays is a finding
			}
		}
	}
}

// settle observes until judge has no finding, or until the time is over.
func (c *campaign) settle(what string, judge func(Sight) []Finding) {
	c.Logf("%s", what)
	begin, said := time.Now(), time.Time{}
	for {
		sight, err := c.observe()
		var found []Finding
		if err != nil {
			found = []Finding{{Leaked, fmt.Sprintf("cannot observe: %v", err)}}
		} else {
			found = judge(sight)
		}
		spent := time.Since(begin).Round(time.Second)
		switch {
		case len(found) == 0:
			fmt.Fprintf(c.Out, "%s: it has, after %s\n", what, spent)
			return
		case spent > c.Settle:
			c.keep(sight)
			for _, f := range found {
				c.find(f.Kind, "%s", f.What)
			}
			return
		case time.Since(said) > 5*time.Second:
			fmt.Fprintf(c.Out, "%s: %s; %d things are not yet as they should be, such as %.120s ...\n", what, spent, len(found),
				found[0].What)
			said = time.Now()
		}
		if !pause(c.Context(), time.Second) {
			c.Fatal("interrupted")
		}
	}
}

// keep writes the last observation beside the logs.
func (c *campaign) keep(s Sight) {
	data, err := json.MarshalIndent(s, "", " ")
	if err == nil {
		err = os.WriteFile(filepath.Join(c.Dir, "logs", "seen.json"), data, 0o600)
	}
	if err != nil {
		c.Errorf("keep what was seen: %v", err)
	}
}

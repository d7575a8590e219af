package identity

import (
	"strings"
	"testing"
)

func TestWhoseVolume(t *testing.T) {
	own := Name{Mark: "it", Value: "here", Own: true}
	names := func(value string) Name { return Name{Mark: "mark " + value, Value: value} }
	exists, gone, unknown, none := names("exists"), names("gone"), names("unknown"), Name{}
	other := func(n Name) Existence {
		if n.Own || n.Value == "" {
			t.Errorf("asked about %+v", n)
		}
		return map[string]Existence{"exists": Exists, "gone": Absent}[n.Value]
	}
	for what, row := range map[string]struct {
		pv   PV
		want Answer
		why  string // part of it
	}{
		"all marks":                          {PV{Volume: true, NodeUID: true, Label: own, Annotations: []Name{own}, Affinity: own}, Ours, ""},
		"a volume, and its Node's UID":       {PV{Volume: true, NodeUID: true}, Ours, ""},
		"a volume, and the label":            {PV{Volume: true, Label: own}, Ours, ""},
		"a volume, and an annotation":        {PV{Volume: true, Annotations: []Name{own}}, Ours, ""},
		"a volume, and the affinity":         {PV{Volume: true, Affinity: own}, Ours, ""},
		"a Node made again":                  {PV{Volume: true, Label: own, Affinity: own}, Ours, ""},
		"nothing but a volume":               {PV{Volume: true}, Unclear, "no mark"},
		"no volume":                          {PV{NodeUID: true, Label: own, Affinity: own}, Unclear, "no volume"},
		"nothing":                            {PV{}, Foreign, "no mark"},
		"another node's":                     {PV{Label: exists, Affinity: exists}, Foreign, `"exists"`},
		"the disk moved to another node":     {PV{Volume: true, Label: exists, Annotations: []Name{exists}, Affinity: exists}, Unclear, "no mark"},
		"moved, and labelled by hand":        {PV{Volume: true, Label: own, Affinity: exists}, Unclear, `mark exists is "exists", which is another`},
		"label overwritten with a node":      {PV{Volume: true, Label: exists, Affinity: own}, Ours, ""},
		"label overwritten with nothing":     {PV{Volume: true, Label: gone, Affinity: own}, Ours, ""},
		"label lost":                         {PV{Volume: true, Label: none, Annotations: []Name{own}, Affinity: own}, Ours, ""},
		"label of another, no affinity":      {PV{Volume: true, NodeUID: true, Label: exists}, Unclear, `"exists"`},
		"annotation overwritten with a node": {PV{Volume: true, Label: own, Annotations: []Name{exists}, Affinity: own}, Unclear, `"exists"`},
		"annotation of a gone node":          {PV{Volume: true, Label: own, Annotations: []Name{gone}, Affinity: own}, Ours, ""},
		"annotation lost":                    {PV{Volume: true, Annotations: []Name{none}, Affinity: own}, Ours, ""},
		"hostname changed":                   {PV{Volume: true, NodeUID: true, Label: own, Annotations: []Name{own}, Affinity: gone}, Ours, ""},
		"hostname of another node":           {PV{Volume: true, NodeUID: true, Label: own, Annotations: []Name{own}, Affinity: exists}, Unclear, `"exists"`},
		"hostname that may not be asked":     {PV{Volume: true, NodeUID: true, Label: own, Affinity: unknown}, Unclear, "may be another node"},
		"one machine":                        {PV{Volume: true, Unpinned: true, Annotations: []Name{own}}, Ours, ""},
		"one machine, no annotation":         {PV{Volume: true, Unpinned: true, NodeUID: true, Label: own}, Unclear, "neither"},
		"adopted by the annotation":          {PV{Volume: true, Adoption: true, Annotations: []Name{own}}, Ours, ""},
		"adopted by the affinity":            {PV{Volume: true, Adoption: true, Affinity: own}, Ours, ""},
		"not adopted by the label":           {PV{Volume: true, Adoption: true, Label: own, NodeUID: true}, Unclear, "neither"},
		"not adopted from a gone node":       {PV{Volume: true, Adoption: true, Annotations: []Name{gone}, Affinity: own}, Unclear, `"gone"`},
		"adopted, whatever the label":        {PV{Volume: true, Adoption: true, Label: gone, Annotations: []Name{own}, Affinity: own}, Ours, ""},
		"not adopted from another":           {PV{Volume: true, Adoption: true, Annotations: []Name{own}, Affinity: exists}, Unclear, `"exists"`},
	} {
		got := WhoseVolume(row.pv, other)
		if got.Answer != row.want || !strings.Contains(got.Why, row.why) || (got.Why == "") != (row.want == Ours) {
			t.Errorf("%s: %v, want %v with %q", what, got, row.want, row.why)
		}
	}
}

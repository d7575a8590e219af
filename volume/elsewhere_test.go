package volume_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
)

// A pool of other nodes is not founded, and not missing. If it is here all the same, or PVs of it are,
// it is opened, or missing. Without the labels of the node nothing is founded.
func TestPoolsOfOtherNodes(t *testing.T) {
	other := configured(t, volume.Config{Path: filepath.Join(t.TempDir(), "pool")})
	ok(t, other.Open())
	theirs := other.ID()
	ok(t, other.Close())
	for name, row := range map[string]struct {
		selected  pooldir.Selection
		found     string
		want      pooldir.Expected
		text      string // of the error, "" for an open pool
		elsewhere bool
	}{
		"selected, absent":          {pooldir.Selected, "absent", pooldir.Expected{}, "", false},
		"absent":                    {pooldir.NotSelected, "absent", pooldir.Expected{}, "not here", true},
		"empty directory":           {pooldir.NotSelected, "empty", pooldir.Expected{}, "not here", true},
		"directory of other data":   {pooldir.NotSelected, "data", pooldir.Expected{}, "not here", true},
		"a pool":                    {pooldir.NotSelected, "pool", pooldir.Expected{}, "", false},
		"a pool, it is expected":    {pooldir.NotSelected, "pool", pooldir.Expected{IDs: []string{theirs}}, "", false},
		"absent, a PV names it":     {pooldir.NotSelected, "absent", pooldir.Expected{IDs: []string{theirs}}, "probably not mounted", false},
		"absent, an older PV":       {pooldir.NotSelected, "absent", pooldir.Expected{Volumes: []string{"v"}}, "none is in place", false},
		"older PV, in place":        {pooldir.NotSelected, "volume", pooldir.Expected{Volumes: []string{"v"}}, "", false},
		"not known, absent":         {pooldir.Unknown, "absent", pooldir.Expected{}, "not here; a pool that is not there yet is not made", false},
		"not known, a pool":         {pooldir.Unknown, "pool", pooldir.Expected{}, "", false},
		"not known, a PV names it":  {pooldir.Unknown, "absent", pooldir.Expected{IDs: []string{theirs}}, "probably not mounted", false},
		"not known, a pool damaged": {pooldir.Unknown, "damaged", pooldir.Expected{}, "cannot be read", false},
		"damaged":                   {pooldir.NotSelected, "damaged", pooldir.Expected{}, "cannot be read", false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pool")
			switch row.found {
			case "empty":
				mkdir(t, path)
			case "data", "volume":
				write(t, filepath.Join(path, "v", "data"), "precious")
			case "pool":
				copyTree(t, other.Path(), path)
			case "damaged":
				write(t, filepath.Join(path, private, "pool.json"), "{")
			}
			is := row.selected
			p := configured(t, volume.Config{Path: path, Expected: func() pooldir.Expected { return row.want },
				Selected: func() (pooldir.Selection, string) { return is, "not here" }})
			err := p.Open()
			if (err == nil) != (row.text == "") || err != nil && !strings.Contains(err.Error(), row.text) {
				t.Errorf("%v, want %q", err, row.text)
			}
			if got := p.Elsewhere() != ""; got != row.elsewhere || got != (p.NotOffered() != "") {
				t.Errorf("elsewhere %q, not offered %q", p.Elsewhere(), p.NotOffered())
			}
			if (p.NotSelected() != "") != (row.selected == pooldir.NotSelected) {
				t.Errorf("not selected: %q", p.NotSelected())
			}
			if row.text != "" && row.found != "pool" && row.found != "damaged" && there(filepath.Join(path, private)) {
				t.Error("something was made")
			}
			if row.found == "absent" && row.text != "" && there(path) {
				t.Error("the directory was made")
			}
			if !row.elsewhere {
				return
			}
			is = pooldir.Selected // the node got the label
			ok(t, p.Ready())
			id := p.ID()
			is = pooldir.NotSelected // and lost it
			if ok(t, p.Ready()); p.ID() != id || p.Elsewhere() != "" || p.NotSelected() == "" {
				t.Errorf("after the label went: %q, elsewhere %q", p.ID(), p.Elsewhere())
			}
		})
	}
}

// A pool whose disk goes after it was open stays this node's, whatever its labels are.
func TestPoolOfOtherNodesThatWasOpen(t *testing.T) {
	is := pooldir.Selected
	path := filepath.Join(t.TempDir(), "pool")
	p := configured(t, volume.Config{Path: path, Selected: func() (pooldir.Selection, string) { return is, "not here" }})
	ok(t, p.Open())
	is = pooldir.NotSelected
	ok(t, os.Rename(path, path+"-away"))
	if err := p.Ready(); err == nil || !strings.Contains(err.Error(), "this process opened pool") || p.Elsewhere() != "" {
		t.Errorf("%v, elsewhere %q", err, p.Elsewhere())
	}
}

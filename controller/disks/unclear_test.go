package disks

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A disk without an ID was moved to another slot, given to a claim there, and moved back. It was the disk
// of the first PV, as anybody can see, and a person who confirms that gives the claim's data away: the
// command has to name the other PV, and is not one to be copied from a list.
func TestPlanRival(t *testing.T) {
	for name, row := range map[string]struct {
		other func(n *node)
		rival bool
	}{
		"none":            {func(*node) {}, false},
		"bound":           {func(n *node) { n.detach(n.made(pvB, device("/dev/b", 2, ""), corev1.VolumeBound), 0) }, true},
		"released":        {func(n *node) { n.detach(n.made(pvB, device("/dev/b", 2, ""), corev1.VolumeReleased), 0) }, true},
		"without a claim": {func(n *node) { n.detach(n.made(pvB, device("/dev/b", 2, ""), corev1.VolumeAvailable), 0) }, false},
		"with an ID":      {func(n *node) { n.detach(n.made(pvB, device("/dev/b", 2, diskB), corev1.VolumeBound), 0) }, false},
		"there":           {func(n *node) { n.made(pvB, device("/dev/b", 2, ""), corev1.VolumeBound) }, false},
		"of another size": {func(n *node) {
			d := device("/dev/b", 2, "")
			d.Bytes = 800
			n.detach(n.made(pvB, d, corev1.VolumeBound), 0)
		}, false},
		"found at another path": {func(n *node) {
			n.detach(n.made(pvB, device("/dev/b", 2, ""), corev1.VolumeBound), 0)
			n.attach(device("/dev/c", 2, ""))
		}, false},
	} {
		n := emptyNode(t)
		n.made(pvA, device("/dev/a", 1, ""), corev1.VolumeReleased)
		n.at["/dev/a"] = device("/dev/a", 9, "")
		row.other(n)
		found := false
		for _, d := range plan(n.found) {
			if d.pv == nil || d.pv.Name != pvA {
				continue
			}
			found = true
			text := d.warnings[len(d.warnings)-1].message
			if named := strings.Contains(text, "and not that of PV "+pvB+", whose device /dev/b is gone"); named != row.rival ||
				(d.report.Confirm == "") != row.rival || !strings.Contains(text, AnnConfirmed+"=boot/9") {
				t.Errorf("%s: confirm %q, %s", name, d.report.Confirm, text)
			}
		}
		if !found {
			t.Errorf("%s: no decision about the PV", name)
		}
	}
}

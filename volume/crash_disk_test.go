//go:build disk || vm

package volume_test

import (
	"testing"

	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// limiting are the scenes that set quotas or free them.
var limiting = map[string]bool{"create": true, "expand": true, "undo": true, "delete": true, "purge": true}

// limitCrash plays the scenes on a filesystem with quotas: then they are as recorded, and none
// is left over. A copy of a pool would not have them.
func limitCrash(t *testing.T, d quotaDisk) {
	g := d.ground(dieHere)
	t.Run("scenes", func(t *testing.T) {
		for _, s := range scenes {
			if limiting[s.name] || !d.slow {
				t.Run(s.name, func(t *testing.T) {
					if d.method == quota.MethodBtrfs { // elsewhere, g.swept counts the leftovers of all scenes
						t.Parallel()
					}
					g.play(t, s)
				})
			}
		}
	})
	d.empty(t)
}

func (d quotaDisk) ground(die dying) ground {
	least := map[string]int{"create": 10, "expand": 5, "purge": 13}
	if d.method == quota.MethodBtrfs {
		least = map[string]int{"create": 12, "expand": 7, "purge": 4, "drop and purge": 6, "clone": 20}
	}
	starts := map[string]bool{"expand": true, "clone": !d.slow}
	for name := range limiting {
		starts[name] = starts[name] || !d.slow
	}
	var settle func()
	if d.lags {
		settle = d.settle
	}
	return ground{
		limit: record.QuotaRequired, settle: settle, path: d.newPath, least: least, die: die,
		starts: starts,
		limits: unlike,
		swept: func() []breach {
			if d.method == quota.MethodBtrfs {
				return nil // the kernel has them until it freed the space
			}
			return d.unswept()
		},
	}
}

// empty fails the test where something is left once the kernel is done.
func (d quotaDisk) empty(t *testing.T) {
	t.Helper()
	d.settle()
	purge(t, d.pool(t))
	d.swept(t)
}

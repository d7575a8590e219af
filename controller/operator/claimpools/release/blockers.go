package release

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// tellWithin is how old the list of what uses a pool may be in a condition. It decides nothing.
const tellWithin = 10 * time.Minute

// Blockers has, from pass to pass, a PV that kept each holder. As long as that one needs the holder,
// a pass reads it alone, and not all PVs and pods of the cluster. The zero value has none.
type Blockers struct{ of map[place]blocker }

// place is where a holder is.
type place struct{ pool, node, path string }

func placeOf(h poolrecord.Holder) place { return place{h.Pool, h.Node, h.Path} }

// blocker is a PV that needed a holder when it was to end.
type blocker struct {
	pv string
	// why names all that needed the holder, as they were listed before until.
	why   string
	until time.Time
}

// kept returns why the holder stays, "" if the PV that kept it is gone, needs it no more, or is not
// known: then all have to be read.
func (p *Pass) kept(ctx context.Context, h poolrecord.Holder, at identity.Holder) (why string, err error) {
	k, found := p.Blockers.of[placeOf(h)]
	if !found || !p.Now().Before(k.until) {
		return "", nil
	}
	var pv corev1.PersistentVolume
	switch err := p.Live.Get(ctx, client.ObjectKey{Name: k.pv}, &pv); {
	case client.IgnoreNotFound(err) != nil:
		return "", fmt.Errorf("read PV %s: %w", k.pv, err)
	case err != nil:
		return "", nil
	}
	if u, ok := identity.UseOfPV(&pv); ok {
		for _, at.Pool = range p.poolsAt(h) {
			if at.MayEnd([]identity.Use{u}).Answer != identity.Ours {
				return k.why, nil
			}
		}
	}
	return "", nil
}

// blocks has the next passes ask for one of the PVs that keep the holder, if there is one.
func (p *Pass) blocks(h poolrecord.Holder, at identity.Holder, why string) {
	for _, u := range p.snapshot.uses {
		if u.PV == "" || at.MayEnd([]identity.Use{u}).Answer == identity.Ours {
			continue
		}
		if p.Blockers.of == nil {
			p.Blockers.of = map[place]blocker{}
		}
		p.Blockers.of[placeOf(h)] = blocker{u.PV, why, p.Now().Add(tellWithin)}
		return
	}
}

package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// mostClaims bounds a tenant's living claims, mostKept its deleted claims with a retained PV.
	mostClaims, mostKept = 5, 2
	// mebibyte is the unit of sizes: claims have 1 to largest. All tenants' claims take about as
	// much as three disks have.
	mebibyte, largest = 1 << 20, 36
	// largestCopied is for those that are copied: full disks have no room for large ones but by chance.
	largestCopied = 3
)

// tenant creates and uses volumes, one action after another.
type tenant struct {
	*campaign
	number int
	rng    *rand.Rand
	made   int
	claims []*claim // all that were ever created
}

// work acts until the context ends, and finishes the last action.
func (t *tenant) work(ctx context.Context) {
	for pause(ctx, between(t.rng, 10*time.Millisecond, 250*time.Millisecond)) {
		t.act()
		t.operations.Add(1)
	}
}

// those returns the claims for which f is true.
func (t *tenant) those(f func(*claim) bool) (list []*claim) {
	for _, cl := range t.claims {
		if f(cl) {
			list = append(list, cl)
		}
	}
	return list
}

// act does one action.
func (t *tenant) act() {
	living := t.those(func(cl *claim) bool { return !cl.deleted })
	kept := t.those(func(cl *claim) bool { return cl.deleted && cl.policy == corev1.PersistentVolumeReclaimRetain })
	gone := t.those(func(cl *claim) bool {
		return cl.undeletes && cl.deleted && !cl.asked && cl.policy == corev1.PersistentVolumeReclaimDelete &&
			cl.directory != "" && len(cl.files) > 0 // no pool keeps an empty volume
	})
	switch {
	case len(kept) > mostKept:
		t.release(kept[0])
		return
	case len(gone) > 0 && len(living) < mostClaims && t.rng.IntN(3) == 0:
		t.undelete(gone[t.rng.IntN(len(gone))])
		return
	case len(living) == 0 || len(living) < mostClaims && t.rng.IntN(6) == 0:
		t.ask()
		return
	}
	cl := living[t.rng.IntN(len(living))]
	if cl.directory == "" {
		switch t.see(cl); {
		case cl.directory == "" && cl.from == nil && t.rng.IntN(10) == 0, cl.directory == "" && t.rng.IntN(40) == 0:
			t.drop(cl)
		case cl.directory != "" && cl.from != nil:
			t.copied.Add(1)
			t.check(cl)
		}
		return
	}
	if cl.copied && len(cl.files) > 0 && cl.size < 1<<30 && len(living) < mostClaims && t.rng.IntN(4) == 0 {
		t.copy(cl)
		return
	}
	if t.Migrate && t.rng.IntN(4) == 0 {
		t.move(cl)
		return
	}
	switch t.rng.IntN(20) {
	case 0, 1, 2:
		t.drop(cl)
	case 3, 4:
		t.setPolicy(cl, other(cl.policy))
		t.Logf("%s: policy %s", cl.name, cl.policy)
	case 5, 6:
		t.askMore(cl)
	case 7, 8, 9:
		t.check(cl)
	default:
		t.use(cl)
	}
}

func other(p corev1.PersistentVolumeReclaimPolicy) corev1.PersistentVolumeReclaimPolicy {
	if p == corev1.PersistentVolumeReclaimRetain {
		return corev1.PersistentVolumeReclaimDelete
	}
	return corev1.PersistentVolumeReclaimRetain
}

// ask creates a claim. Some are deleted at once, or soon.
func (t *tenant) ask() {
	k := t.kinds[t.rng.IntN(len(t.kinds))]
	t.made++
	cl := &claim{kind: k, name: fmt.Sprintf("t%d-%d", t.number, t.made), policy: k.policy,
		size: 1 + t.rng.Int64N(largest*mebibyte)}
	if k.copied {
		cl.size = 1 + t.rng.Int64N(largestCopied*mebibyte)
	}
	node := ""
	if k.annotated {
		node = t.nodes[t.rng.IntN(len(t.nodes))].Name
	}
	t.make(cl, node)
	t.claims = append(t.claims, cl)
	t.Logf("%s: %s, %d bytes on %q, UID %s", cl.name, cl.class, cl.size, node, cl.uid)
	if t.rng.IntN(8) == 0 {
		pause(t.Context(), between(t.rng, 0, 300*time.Millisecond))
		t.drop(cl)
	}
}

// askMore raises a request, sometimes beyond what there is.
func (t *tenant) askMore(cl *claim) {
	size := cl.size + t.rng.Int64N(8*mebibyte)
	if t.rng.IntN(10) == 0 {
		size += 1 << 30
	}
	if cl.size > 1<<30 {
		return // the API server allows a lower request only down to the present size, which may be this one
	}
	t.grow(cl, size)
	t.Logf("%s: grow to %d", cl.name, size)
}

// drop checks the claim's data and deletes the claim.
func (t *tenant) drop(cl *claim) {
	if cl.directory != "" && t.rng.IntN(2) == 0 {
		t.check(cl)
	}
	t.remove(cl)
	t.Logf("%s: deleted, policy %s, directory %q", cl.name, cl.policy, cl.directory)
}

// release gives up a retained volume.
func (t *tenant) release(cl *claim) {
	t.check(cl)
	t.setPolicy(cl, corev1.PersistentVolumeReclaimDelete)
	t.Logf("%s: released", cl.name)
}

// use writes a file into the volume, or removes one.
func (t *tenant) use(cl *claim) {
	if len(cl.files) > 0 && t.rng.IntN(5) == 0 {
		last := len(cl.files) - 1
		name := cl.files[last]
		cl.files = slices.Delete(cl.files, last, last+1) // even if the removal fails
		t.unexpect(cl, name)
		t.Logf("%s: remove %s: %v", cl.name, name, removeFile(cl.directory, name))
		return
	}
	data := make([]byte, 1+t.rng.IntN(1+int(min(cl.size, mebibyte)/4)))
	fill(t.rng, data)
	name, err := writeFile(cl.directory, data)
	if err == nil {
		cl.files = append(cl.files, name)
	}
	t.Logf("%s: write %s, %d bytes: %v", cl.name, name, len(data), err)
}

// check reads the files.
func (t *tenant) check(cl *claim) {
	if !cl.kept() {
		return
	}
	for _, what := range damaged(cl) {
		t.find(Lost, "while the campaign ran: %s", what)
	}
}

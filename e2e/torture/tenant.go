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
	// mostClaims is how many living claims one tenant has, mostKept how many deleted ones whose PV is kept.
	mostClaims, mostKept = 5, 2
	// mebibyte is the unit of sizes: claims have 1 to largest of them. All tenants' claims are about what three disks hold.
	mebibyte, largest = 1 << 20, 36
)

// tenant makes volumes and uses them, one thing after the other.
type tenant struct {
	*campaign
	number int
	rng    *rand.Rand
	made   int
	claims []*claim // all that were ever made
}

// work ends with the context, and nothing is half done then.
func (t *tenant) work(ctx context.Context) {
	for pause(ctx, between(t.rng, 10*time.Millisecond, 250*time.Millisecond)) {
		t.act()
		t.operations.Add(1)
	}
}

// those are the claims of which f is true.
func (t *tenant) those(f func(*claim) bool) (list []*claim) {
	for _, cl := range t.claims {
		if f(cl) {
			list = append(list, cl)
		}
	}
	return list
}

// act does one thing.
func (t *tenant) act() {
	living := t.those(func(cl *claim) bool { return !cl.deleted })
	kept := t.those(func(cl *claim) bool { return cl.deleted && cl.policy == corev1.PersistentVolumeReclaimRetain })
	switch {
	case len(kept) > mostKept:
		t.release(kept[0])
		return
	case len(living) == 0 || len(living) < mostClaims && t.rng.IntN(6) == 0:
		t.ask()
		return
	}
	cl := living[t.rng.IntN(len(living))]
	if cl.directory == "" {
		if t.see(cl); cl.directory == "" && t.rng.IntN(10) == 0 {
			t.drop(cl)
		}
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

// ask makes a claim. Some are deleted again at once, or nearly so.
func (t *tenant) ask() {
	k := t.kinds[t.rng.IntN(len(t.kinds))]
	t.made++
	cl := &claim{kind: k, name: fmt.Sprintf("t%d-%d", t.number, t.made), policy: k.policy, size: 1 + t.rng.Int64N(largest*mebibyte)}
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

// askMore asks for more, now and then for more than there is.
func (t *tenant) askMore(cl *claim) {
	size := cl.size + t.rng.Int64N(8*mebibyte)
	if t.rng.IntN(10) == 0 {
		size += 1 << 30
	}
	if cl.size > 1<<30 {
		return // lower is allowed down to what it has, which may be this by now for all we know
	}
	t.grow(cl, size)
	t.Logf("%s: grow to %d", cl.name, size)
}

// drop deletes the claim, and looks at its data before.
func (t *tenant) drop(cl *claim) {
	if cl.directory != "" && t.rng.IntN(2) == 0 {
		t.check(cl)
	}
	t.remove(cl)
	t.Logf("%s: deleted, policy %s, directory %q", cl.name, cl.policy, cl.directory)
}

// release gives up what was kept.
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
		cl.files = slices.Delete(cl.files, last, last+1) // whatever becomes of it
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

// check reads what was written.
func (t *tenant) check(cl *claim) {
	if !cl.kept() {
		return
	}
	for _, what := range damaged(cl) {
		t.find(Lost, "while the campaign ran: %s", what)
	}
}

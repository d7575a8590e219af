package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// A reused is a volume with data, whose PV is to have another claim.
type reused struct {
	*harness.Scene
	a     *harness.Agent
	first *corev1.PersistentVolumeClaim
	pv    *corev1.PersistentVolume // as it was first
}

// eachShape runs a test for a hostPath volume and for a CSI one.
func eachShape(t *testing.T, test func(*testing.T, *reused)) {
	t.Helper()
	for _, class := range []string{harness.ClassImmediate, harness.ClassCSI} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			s := env.Scene(t)
			node := s.Node("01")
			o := bothModes("off")
			o.DataDir = harness.Datadir(harness.LocalPool, node.Pool)
			r := &reused{Scene: s, a: s.Agent(node, o)}
			r.first = s.Create(harness.Claim{Name: "data", Class: class, Node: hostPathOnly(class, node), Selected: node.Name})
			r.pv = s.Bound(r.first)
			s.Write(r.directory(), "data", []byte("precious"))
			recorded(s, r.a.Pool, r.first)
			test(t, r)
		})
	}
}

func hostPathOnly(class string, node harness.Node) string {
	if class == harness.ClassCSI {
		return ""
	}
	return node.Name
}

func (r *reused) directory() string { return filepath.Join(r.a.Pool, r.pv.Name) }

// keep sets the policy to Retain, and lets the first claim go.
func (r *reused) keep() {
	r.Helper()
	r.policy(corev1.PersistentVolumeReclaimRetain)
	r.Delete(r.first)
	r.Released(r.pv.Name)
}

func (r *reused) policy(p corev1.PersistentVolumeReclaimPolicy) {
	r.Helper()
	r.PatchPV(r.pv.Name, fmt.Sprintf(`{"spec":{"persistentVolumeReclaimPolicy":%q}}`, p))
}

// claim makes one of that name, in the namespace of a scene, which asks for the PV.
func (r *reused) claim(s *harness.Scene, name string) *corev1.PersistentVolumeClaim {
	r.Helper()
	return s.Create(harness.Claim{Name: name, Class: r.pv.Spec.StorageClassName, Edit: func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName = r.pv.Name
	}})
}

// give lets the PV wait for a claim, which need not be there.
func (r *reused) give(namespace, name string) {
	r.Helper()
	r.PatchPV(r.pv.Name, fmt.Sprintf(`{"spec":{"claimRef":{"uid":null,"resourceVersion":null,"namespace":%q,"name":%q}}}`, namespace, name))
}

// stays returns nil where PV and data are there.
func (r *reused) stays() error {
	if now := r.PV(r.pv.Name); now.UID != r.pv.UID || now.DeletionTimestamp != nil {
		return fmt.Errorf("PV %s, was %s; deleted %v", now.UID, r.pv.UID, now.DeletionTimestamp)
	}
	data, err := os.ReadFile(filepath.Join(r.directory(), "data"))
	if err == nil && string(data) != "precious" {
		err = fmt.Errorf("the data is %q", data)
	}
	return err
}

// isOf returns nil where the volume is recorded for the claim.
func (r *reused) isOf(claim *corev1.PersistentVolumeClaim) error {
	return firstError(r.stays(), owned(r.Scene, r.a, r.pv.Name, r.pv.Name, claim, false))
}

// quiet returns nil where no agent found anything wrong with the PV and the claims.
func (r *reused) quiet(claims ...*corev1.PersistentVolumeClaim) error {
	errs := []error{r.Unwarned(r.pv.UID)}
	for _, c := range claims {
		errs = append(errs, r.Unwarned(c.UID))
	}
	return firstError(errs...)
}

// goes checks that everything goes without a warning.
func (r *reused) goes(claims ...*corev1.PersistentVolumeClaim) {
	r.Helper()
	r.Gone(r.pv.Name)
	r.Eventually("empty pool", func() error { return empty(r.Scene, r.a) })
	if err := r.quiet(claims...); err != nil {
		r.Error(err)
	}
}

// What an administrator does to use kept data again: the UID out of the claimRef, and a claim that
// asks for the PV, of the same name or another one in another namespace. From then on it is that
// claim's volume: it grows, and goes by its policy.
func TestReuse(t *testing.T) {
	t.Parallel()
	for what, name := range map[string]string{"the same name": "data", "another namespace": "restored"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			eachShape(t, func(t *testing.T, r *reused) {
				r.keep()
				home := r.Scene
				if name != r.first.Name {
					home = env.Scene(t)
				}
				r.give(home.Namespace, name)
				r.Eventually("available", func() error { return phase(r, corev1.VolumeAvailable) })
				r.Holds(r.a, "it waits", func() error { return firstError(r.quiet(), r.isOf(r.first)) })

				next := r.claim(home, name)
				r.Eventually("bound", func() error { return home.IsBound(next) })
				r.Eventually("given", func() error { return r.isOf(next) })
				ask(home, next, "16Mi")
				r.Eventually("grown", func() error {
					if v, pv := r.a.Volume(r.pv.Name), r.PV(r.pv.Name); v.Bytes != 16<<20 || pv.Spec.Capacity.Storage().Value() != 16<<20 {
						return fmt.Errorf("volume %+v, PV %s", v, pv.Spec.Capacity.Storage())
					}
					return nil
				})
				r.policy(corev1.PersistentVolumeReclaimDelete)
				home.Delete(next)
				r.goes(next)
			})
		})
	}
}

func phase(r *reused, want corev1.PersistentVolumePhase) error {
	if got := r.PV(r.pv.Name).Status.Phase; got != want {
		return fmt.Errorf("PV %s, want %s", got, want)
	}
	return nil
}

// The claim waits already, and policy and claimRef are set with one edit: for a moment the PV is
// Released, and is to be deleted.
func TestReuseAtOnce(t *testing.T) {
	t.Parallel()
	eachShape(t, func(_ *testing.T, r *reused) {
		r.keep()
		next := r.claim(r.Scene, "restored")
		r.PatchPV(r.pv.Name, fmt.Sprintf(`{"spec":{"persistentVolumeReclaimPolicy":"Delete",
			"claimRef":{"uid":null,"resourceVersion":null,"namespace":%q,"name":"restored"}}}`, r.Namespace))
		r.Eventually("given", func() error { return r.isOf(next) })
		r.Holds(r.a, "it stays", func() error { return firstError(r.isOf(next), r.quiet(next)) })
		r.Delete(next)
		r.goes(next)
	})
}

// While the agent is away the volume gets another claim, and that goes, too.
func TestReuseUnseen(t *testing.T) {
	t.Parallel()
	eachShape(t, func(_ *testing.T, r *reused) {
		r.keep()
		r.a.Stop()
		r.give(r.Namespace, "restored")
		next := r.claim(r.Scene, "restored")
		r.Eventually("bound", func() error { return firstError(r.IsBound(next), phase(r, corev1.VolumeBound)) })
		r.Delete(next)
		r.Released(r.pv.Name)
		r.a.Restart()
		r.a.AwaitReady()
		r.Eventually("recorded", func() error { return r.isOf(next) })
		r.Holds(r.a, "kept", func() error { return firstError(r.isOf(next), r.quiet(next)) })
		r.a.Stop()
		r.give(r.Namespace, "again")
		third := r.claim(r.Scene, "again")
		r.Eventually("bound", func() error { return firstError(r.IsBound(third), phase(r, corev1.VolumeBound)) })
		r.policy(corev1.PersistentVolumeReclaimDelete)
		r.Delete(third)
		r.Released(r.pv.Name)
		r.a.Restart()
		r.goes(next, third)
	})
}

// As long as the first claim is there, the volume is its own, whatever the PV says.
func TestReuseRefused(t *testing.T) {
	t.Parallel()
	eachShape(t, func(_ *testing.T, r *reused) {
		pod := r.Pod(r.first.Name, r.a.Node.Hostname)
		r.Scheduled(pod)
		next := r.claim(r.Scene, "thief")
		binding := r.Queue(r.a, harness.QueuePVs)
		r.PatchPV(r.pv.Name, fmt.Sprintf(`{"spec":{"claimRef":{"resourceVersion":null,"name":"thief","uid":%q}}}`, next.UID))
		r.Eventually("bound", func() error { return r.IsBound(next) })
		r.Until("it waits", binding.TriedAgain, func() error { return firstError(r.isOf(r.first), r.quiet(r.first, next)) })
		r.Delete(next)
		r.Released(r.pv.Name) // its policy is Delete
		r.Holds(r.a, "it stays", func() error { return r.isOf(r.first) })
		r.DeletePod(pod)
		r.Delete(r.first)
		r.Gone(r.pv.Name)
		r.Eventually("empty pool", func() error { return empty(r.Scene, r.a) })
	})
}

// The claimRef is spoilt, which makes the PV Released, and corrected: for a moment the PV is as one
// whose claim went.
func TestReuseCorrected(t *testing.T) {
	t.Parallel()
	eachShape(t, func(_ *testing.T, r *reused) {
		refer := func(uid string) {
			r.PatchPV(r.pv.Name, fmt.Sprintf(`{"spec":{"claimRef":{"uid":%q}}}`, uid))
		}
		refer("0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0")
		r.Released(r.pv.Name)
		r.AwaitWarning(r.a, r.pv.UID, harness.ReasonRefused, "still there")
		refer(string(r.first.UID))
		r.Eventually("bound", func() error { return phase(r, corev1.VolumeBound) })
		r.Holds(r.a, "it stays", func() error { return r.isOf(r.first) })
		r.Delete(r.first)
		r.Gone(r.pv.Name)
	})
}

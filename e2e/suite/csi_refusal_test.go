package suite

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// Each row spoils one field of a claim that would be served, or of its class.
func TestCSINotOffered(t *testing.T) {
	t.Parallel()
	s, a := csiNode(t)
	served := csiBound(s, a)
	good := s.PV(harness.PVName(served))
	recorded(s, a.Pool, served)
	before := s.Tree(a.Pool)
	edit := func(f func(*corev1.PersistentVolumeClaimSpec)) harness.Claim {
		return harness.Claim{Edit: func(c *corev1.PersistentVolumeClaim) { f(&c.Spec) }}
	}
	parameter := func(key, value string) func(*storagev1.StorageClass) {
		return func(c *storagev1.StorageClass) { c.Parameters[key] = value }
	}
	attributes := "gold"
	t.Cleanup(func() { // when all rows are over
		wantTreeBack(s, a.Pool, before) // once the volumes of CatchUp have left the trash
		if err := handleOf(a.Pool, good); err != nil {
			t.Error(err)
		}
	})
	for _, test := range []struct {
		name  string
		claim harness.Claim
		class func(*storagev1.StorageClass)
		words []string
	}{
		{"block", harness.Claim{VolumeMode: corev1.PersistentVolumeBlock}, nil, []string{`\bBlock\b`, `\bFilesystem\b`}},
		{"many writers", harness.Claim{Mode: corev1.ReadWriteMany}, nil, []string{`\bReadWriteMany\b`, `\bReadWriteOnce or ReadWriteOncePod\b`}},
		{"many readers", harness.Claim{Mode: corev1.ReadOnlyMany}, nil, []string{`\bReadOnlyMany\b`, `\bReadWriteOnce or ReadWriteOncePod\b`}},
		{"selector", edit(func(c *corev1.PersistentVolumeClaimSpec) {
			c.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "fast"}}
		}), nil, []string{`spec\.selector`, `spec\.volumeName`}},
		{"data source", edit(func(c *corev1.PersistentVolumeClaimSpec) {
			c.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "golden-image"}
		}), nil, []string{`golden-image`, `does not exist: create it`}},
		{"attributes", edit(func(c *corev1.PersistentVolumeClaimSpec) { c.VolumeAttributesClassName = &attributes }), nil,
			[]string{`volumeAttributesClassName "gold"`, `without it`}},
		{"far too big", harness.Claim{Size: "1Ei"}, nil, []string{`\brequested 1152921504606846976\b`, `request less`}},
		{"class parameter", harness.Claim{}, parameter("storagepool", "local"), []string{`"storagepool"`, `"storagePool"`, `create it again`}},
		{"secret", harness.Claim{}, parameter("csi.storage.k8s.io/provisioner-secret-name", "key"),
			[]string{`unknown parameters \["csi\.storage\.k8s\.io/provisioner-secret-name"\]`, `create it again`}},
		{"mount option", harness.Claim{}, func(c *storagev1.StorageClass) { c.MountOptions = []string{"noatime", "discard"} },
			[]string{`"discard"`, `noatime`, `create it again`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			mine := env.Scene(t)
			test.claim.Class, test.claim.Selected = mine.CSIClass("spoilt", test.class), a.Node.Name
			claim := mine.Create(test.claim)
			if test.name == "attributes" && claim.Spec.VolumeAttributesClassName == nil {
				t.Skip("claims of this Kubernetes version have no such field")
			}
			if test.name == "far too big" { // the one refusal that another node might not share
				back := func() error { return givenBack(mine, claim, test.words...) }
				mine.Eventually("given back", back)
				mine.Holds(a, "given back", back)
				return
			}
			mine.AwaitWarning(a, claim.UID, harness.ReasonFailed, test.words...)
			if err := mine.IsPending(claim); err != nil {
				t.Error(err)
			}
		})
	}
}

// A pool whose disk is away attracts no claims, and those that come are given back. By itself it
// goes on once the disk is back; nothing was founded in its place.
func TestCSIDiskAway(t *testing.T) {
	t.Parallel()
	for name, restarted := range map[string]bool{"unmounted": false, "not mounted after a restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := env.Scene(t)
			node := s.Node("01")
			disk := s.Disk("ext4", diskSize)
			disk.Mount(node.Pool)
			a := s.Agent(node, local(node))
			kept, deleted := csiBound(s, a), csiBound(s, a)
			published := func(b int64) bool { return b > diskSize<<19 }
			s.Eventually("published", func() error { return s.CapacityIs(harness.ClassCSI, node, published) })

			if restarted {
				a.Stop()
			}
			s.Unmount(node.Pool)
			if restarted {
				a.Restart()
			}
			a.AwaitUnready("not mounted")
			s.Eventually("no capacity", func() error {
				return s.CapacityIs(harness.ClassCSI, node, func(b int64) bool { return b == 0 })
			})
			before := s.Tree(node.Pool)
			deletions := s.Queue(a, harness.QueueVolumes)
			s.Delete(deleted)
			waiting := s.Create(harness.Claim{Class: harness.ClassCSI})
			pod := s.Pod(waiting.Name, node.Hostname)
			sent := s.Create(harness.Claim{Class: harness.ClassCSI, Selected: node.Name})
			s.Eventually("given back", func() error {
				return givenBack(s, sent, node.Name, "not ready", s.PV(harness.PVName(kept)).Annotations[harness.AnnPool])
			})
			s.Eventually("the scheduler found no node", func() error { return unfit(s, pod) })
			s.Until("disk away", deletions.TriedAgain, func() error {
				if now := s.Tree(node.Pool); now != before {
					return fmt.Errorf("changed in its place:\n%s\nbefore:\n%s", now, before)
				}
				if s.IsGone(harness.PVName(deleted)) == nil {
					return fmt.Errorf("the PV of the deleted claim is gone, its data is not")
				}
				return s.IsPending(waiting) // with an event if no other node publishes space for the class
			})
			disk.Mount(node.Pool)
			a.AwaitReady()
			s.Eventually("published again", func() error { return s.CapacityIs(harness.ClassCSI, node, published) })
			s.Scheduled(pod)
			s.Bound(waiting)
			s.Gone(harness.PVName(deleted))
			if err := s.PathOf(a, kept); err != nil {
				t.Error(err)
			}
		})
	}
}

// csiBound is a claim of the agent's node that is bound.
func csiBound(s *harness.Scene, a *harness.Agent) *corev1.PersistentVolumeClaim {
	s.Helper()
	claim := s.Create(harness.Claim{Class: harness.ClassCSI, Selected: a.Node.Name})
	s.Bound(claim)
	return claim
}

// givenBack returns nil where the scheduler may choose again, and one warning says why, in these words.
func givenBack(s *harness.Scene, claim *corev1.PersistentVolumeClaim, words ...string) error {
	s.Helper()
	if on := s.Read(claim).Annotations[harness.AnnSelectedNode]; on != "" {
		return fmt.Errorf("the claim is still for %s", on)
	}
	return firstError(s.IsPending(claim), s.WarnedAgain(claim.UID, harness.ReasonFailed, words...)) // giving it back may meet another write
}

package suite

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// verdict returns nil where that is the agent's answer for its one volume.
func (h *hosted) verdict(want string) error {
	return h.a.MetricIs(1, "kubevirt_hpp_migration_volumes", fmt.Sprintf("verdict=%q", want))
}

// stays checks that the volume keeps its first PV, with the answer.
func (h *hosted) stays(verdict string) {
	h.Helper()
	h.Eventually(verdict, func() error { return h.verdict(verdict) })
	h.Checked(h.a)
	h.Once("the PV stays", func() error {
		if pv := h.PV(h.pv.Name); pv.UID != h.pv.UID {
			return fmt.Errorf("PV %s, was %s", pv.UID, h.pv.UID)
		}
		return h.verdict(verdict)
	})
	h.wantSame()
}

// A volume waits for the pod that has it, unless it is told not to.
func TestMigrateUsed(t *testing.T) {
	t.Parallel()
	t.Run("waits", func(t *testing.T) {
		t.Parallel()
		s, a := migrating(t)
		h := newHosted(s, a)
		pod := s.Pod(h.claim.Name, a.Node.Hostname)
		s.Scheduled(pod)
		a.Stop()
		a.RestartAs(bothModes("run"))
		h.stays("waiting")
		s.DeletePod(pod)
		s.Eventually("migrated", h.isCSI)
		h.wantSame()
	})
	t.Run("does not wait", func(t *testing.T) {
		t.Parallel()
		s, a := migrating(t)
		h := newHosted(s, a)
		pod := s.Pod(h.claim.Name, a.Node.Hostname)
		s.Scheduled(pod)
		a.Stop()
		a.RestartAs(bothModes("run", "--migrate-used"))
		s.Eventually("migrated", h.isCSI)
		h.wantSame()
		now, err := env.Client.CoreV1().Pods(s.Namespace).Get(s.Context(), pod.Name, metav1.GetOptions{})
		if err != nil || now.UID != pod.UID || now.DeletionTimestamp != nil {
			t.Errorf("pod %+v, %v", now.ObjectMeta, err)
		}
	})
}

// Volumes that are kept are migrated too, and stay what they are: of a claim, of one that is gone,
// and of one to come, which gets the volume when it does.
func TestMigrateKept(t *testing.T) {
	t.Parallel()
	for _, phase := range []corev1.PersistentVolumePhase{corev1.VolumeBound, corev1.VolumeReleased, corev1.VolumeAvailable} {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			s, a := migrating(t)
			h := newHosted(s, a)
			s.PatchPV(h.pv.Name, `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
			if phase != corev1.VolumeBound {
				s.Delete(h.claim)
				s.Released(h.pv.Name)
			}
			if phase == corev1.VolumeAvailable {
				// Without a name, claims of other tests would take it.
				s.PatchPV(h.pv.Name, `{"spec":{"claimRef":{"uid":null,"resourceVersion":null,"name":"to-come"}}}`)
			}
			a.Stop()
			a.RestartAs(bothModes("run"))
			s.Eventually("migrated", func() error {
				pv, err := h.now()
				if err == nil && (pv.Spec.CSI == nil || pv.Status.Phase != phase || pv.Annotations[annPolicy] != "" ||
					pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain) {
					err = fmt.Errorf("PV %s: %+v, annotations %v", pv.Status.Phase, pv.Spec, pv.Annotations)
				}
				return firstError(err, h.verdict("migrated"))
			})
			h.wantSame()
			if phase == corev1.VolumeAvailable {
				next := s.Create(harness.Claim{Name: "to-come", Edit: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = h.pv.Name }})
				s.Eventually("given", func() error { return owned(s, a, h.pv.Name, h.pv.Name, next, false) })
				h.wantSame()
			}
		})
	}
}

// PVs of the provisioner before this one say the whole disk, and have a directory with the claim's
// name in front or not.
func TestMigrateOlder(t *testing.T) {
	t.Parallel()
	for name, prefix := range map[string]string{"plain name": "", "name with the claim's": "data-"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := env.Scene(t)
			node := s.Node("01")
			s.KnowsDriver(node)
			a := s.Later(node, bothModes("run"))
			claim := s.Create(harness.Claim{Name: "data", Node: node.Name, Size: "16Mi"})
			h := &hosted{Scene: s, a: a, claim: claim, pv: older(s, olderPV(s, a, claim, prefix+harness.PVName(claim)))}
			s.Bound(claim)
			h.inode = h.find()
			a.Restart()
			a.AwaitReady()
			s.Eventually("migrated", h.isCSI)
			h.wantSame()
			if has := s.PV(h.pv.Name).Spec.Capacity.Storage(); has.String() != "16Mi" {
				t.Errorf("the PV has %s, want what the claim asks for", has)
			}
			s.Delete(claim)
			s.Gone(h.pv.Name)
			s.Eventually("directory gone", func() error { return harness.Missing(h.pv.Spec.HostPath.Path) })
		})
	}
}

// An agent that may not ask what it has to know moves nothing and says what to apply; it goes on
// when it may.
func TestMigrateWithoutRole(t *testing.T) {
	t.Parallel()
	s, a := migrating(t)
	h := newHosted(s, a)
	a.Stop()
	kubeconfig, err := env.Plane.ServiceAccountKubeconfig(t.Context(), s.Namespace, "reduced")
	if err != nil {
		t.Fatal(err)
	}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.Namespace, Name: "reduced"}}
	grant := func(suffix, role string) {
		_, err := env.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: s.Name + suffix}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	grant("", "hostpath-provisioner-csi")
	o := bothModes("run")
	o.Kubeconfig = kubeconfig
	a.RestartAs(o)
	h.stays("waiting")
	grant("-migrate", "hostpath-provisioner-migrate")
	s.Eventually("migrated", h.isCSI)
	h.wantSame()
}

// An agent that is given another node's name has not that node's pool, and moves none of its
// volumes.
func TestMigrateWrongNode(t *testing.T) {
	t.Parallel()
	s, a := migrating(t)
	h := newHosted(s, a)
	o := bothModes("run")
	o.Pool = s.Path("pools", "elsewhere")
	wrong := s.Start(a.Node, o)
	wrong.AwaitUnready("pool")
	other := s.Node("02")
	s.KnowsDriver(other)
	s.Checked(s.Agent(other, bothModes("run")))
	s.Checked(wrong)
	s.Once("the PV stays", func() error {
		if pv := s.PV(h.pv.Name); pv.UID != h.pv.UID || pv.Spec.PersistentVolumeReclaimPolicy != h.pv.Spec.PersistentVolumeReclaimPolicy {
			return fmt.Errorf("PV %+v", pv)
		}
		if m := a.Volume(h.pv.Name).Migration; m != nil {
			return errors.New("a journal was begun")
		}
		return nil
	})
	h.wantSame()
}

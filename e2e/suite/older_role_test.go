package suite

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// olderRules are what the operator of the provisioner before this one allows it.
var olderRules = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"persistentvolumes"}, Verbs: []string{"get", "list", "watch", "create", "delete"}},
	{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims"}, Verbs: []string{"get", "list", "watch", "update"}},
	{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"storageclasses"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"list", "watch", "create", "update", "patch"}},
	{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}},
}

// limited is the kubeconfig of an account with a ClusterRole of the scene's name and these rules.
func limited(s *harness.Scene, rules []rbacv1.PolicyRule) (kubeconfig string, role *rbacv1.ClusterRole) {
	s.Helper()
	meta := metav1.ObjectMeta{Name: s.Name}
	role, err := s.Client.RbacV1().ClusterRoles().Create(s.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	if err == nil {
		kubeconfig, err = s.Plane.ServiceAccountKubeconfig(s.Context(), s.Namespace, "reduced")
	}
	if err == nil {
		_, err = s.Client.RbacV1().ClusterRoleBindings().Create(s.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: s.Name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.Namespace, Name: "reduced"}},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		s.Fatal(err)
	}
	return kubeconfig, role
}

// The image is swapped in under the older operator's ClusterRole: claims are served, volumes go,
// those of older PVs too, and readyz names what is missing and what is off. Once the ClusterRole is
// applied the agent does the rest by itself.
func TestOlderClusterRole(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	kubeconfig, role := limited(s, olderRules)
	a := s.Later(s.Node("01"), harness.Options{Kubeconfig: kubeconfig, Flags: []string{"--orphans=delete", "--orphan-grace=0s", "--v=1"}})
	var before []*corev1.PersistentVolumeClaim // claims of the provisioner before this one
	for range 3 {
		claim := s.Create(harness.Claim{Node: a.Node.Name})
		older(s, olderPV(s, a, claim, harness.PVName(claim)))
		s.Bound(claim)
		before = append(before, claim)
	}
	s.Delete(before[0]) // while no provisioner runs
	s.Released(harness.PVName(before[0]))
	a.Restart()
	a.AwaitUnready(`missing: patch persistentvolumes \(.*finalizer.*\), patch persistentvolumeclaims/status \(.*grow.*\), ` +
		`get namespaces kube-system \(.*orphans.*\), get events \([^)]*\); apply the ClusterRole`)

	// No cluster is known, and no claim: nothing shows that the PV is not one that was applied from
	// a backup.
	released := s.PV(harness.PVName(before[0]))
	s.AwaitWarning(a, released.UID, harness.ReasonDelete, annDeleteVolume+"="+string(released.UID))
	s.PatchPV(released.Name, `{"metadata":{"annotations":{"`+annDeleteVolume+`":"`+string(released.UID)+`"}}}`)
	s.Gone(released.Name)
	s.Delete(before[1])
	s.Gone(harness.PVName(before[1]))
	annotated, scheduled := s.Create(harness.Claim{Node: a.Node.Name}), s.Create(harness.Claim{Class: harness.ClassDelayed, Selected: a.Node.Name})
	for _, claim := range []*corev1.PersistentVolumeClaim{annotated, scheduled} {
		if pv := s.Bound(claim); slices.Contains(pv.Finalizers, finalizer) {
			t.Errorf("PV %s has finalizers %v, and nobody could remove ours", pv.Name, pv.Finalizers)
		}
	}
	big := s.Create(harness.Claim{Class: harness.ClassDelayed, Selected: a.Node.Name, Size: "1Pi"})
	s.Eventually("given back", func() error {
		if on := s.Read(big).Annotations[harness.AnnSelectedNode]; on != "" {
			return s.NotYet(big.UID, "the claim is still for %s", on)
		}
		return nil
	})
	s.Delete(annotated)
	s.Gone(harness.PVName(annotated))
	lost := filled(s, a, harness.Claim{})
	s.Delete(lost)
	s.Gone(harness.PVName(lost))

	s.Holds(a, "what is left stays", func() error {
		return firstError(s.IsBound(scheduled), s.IsBound(before[2]), s.Unwarned(s.PV(harness.PVName(before[2])).UID))
	})
	if n := len(a.Inspect().Volumes); n != 2 {
		t.Errorf("%d volumes, want 2", n)
	}
	unknownOrphanStays(s, a)

	full, err := s.Client.RbacV1().ClusterRoles().Get(t.Context(), "hostpath-provisioner", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	role.Rules = full.Rules
	if _, err := s.Client.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Eventually("ready", a.Ready)
	s.Eventually("the rest is done", func() error {
		now, first := s.PV(harness.PVName(before[2])), s.PV(harness.PVName(scheduled))
		record, err := os.ReadFile(recordPath(a.Pool, first.Name))
		switch {
		case err != nil:
			return err
		case now.Labels[harness.LabelNode] != a.Node.Name:
			return fmt.Errorf("labels %v", now.Labels)
		case !slices.Contains(first.Finalizers, finalizer):
			return fmt.Errorf("finalizers %v", first.Finalizers)
		case !strings.Contains(string(record), clusterID(s)):
			return fmt.Errorf("the cluster is not in the record %s", record)
		}
		return nil
	})
	for _, claim := range []*corev1.PersistentVolumeClaim{scheduled, before[2]} {
		s.Delete(claim)
		s.Gone(harness.PVName(claim))
	}
}

// unknownOrphanStays: nobody can tell of which cluster an orphan was, so it stays whatever is asked
// for.
func unknownOrphanStays(s *harness.Scene, a *harness.Agent) {
	s.Helper()
	orphan := filled(s, a, harness.Claim{})
	a.Stop()
	s.Delete(orphan)
	s.ClaimGone(orphan)
	s.ForcePVAway(harness.PVName(orphan))
	a.Restart()
	s.Eventually("orphan kept", func() error {
		if err := intact(a, orphan); err != nil {
			s.Fatal(err)
		}
		if !strings.Contains(a.Log(), "An orphan is kept") {
			return errors.New("nothing was said of it")
		}
		return orphans(a, "record", 1)
	})
}

package suite

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// names reports whether the message has the number, as a whole.
func names(message string, number int64) bool {
	return regexp.MustCompile(`\b` + strconv.FormatInt(number, 10) + `\b`).MatchString(message)
}

func TestNotOffered(t *testing.T) {
	t.Parallel()
	s, a := oneNode(t)
	only := `\bReadWriteOnce\b`
	options := s.Class("options", func(c *storagev1.StorageClass) {
		delayed := storagev1.VolumeBindingWaitForFirstConsumer
		c.VolumeBindingMode, c.MountOptions = &delayed, []string{"noatime"}
	})
	for _, test := range []struct {
		name  string
		claim harness.Claim
		words []string
	}{
		{"mount option", harness.Claim{Class: options}, []string{`\bnoatime\b`, `create it again without`}},
		{"block", harness.Claim{VolumeMode: corev1.PersistentVolumeBlock}, []string{`\bBlock\b`, `\bFilesystem\b`}},
		{"many writers", harness.Claim{Mode: corev1.ReadWriteMany}, []string{`\bReadWriteMany\b`, only}},
		{"many readers", harness.Claim{Mode: corev1.ReadOnlyMany}, []string{`\bReadOnlyMany\b`, only}},
		{"one pod", harness.Claim{Mode: corev1.ReadWriteOncePod}, []string{`\bReadWriteOncePod\b`, only}},
		{"block, for a pod", harness.Claim{VolumeMode: corev1.PersistentVolumeBlock, Class: harness.ClassDelayed}, []string{`\bFilesystem\b`}},
		{"many writers, for a pod", harness.Claim{Mode: corev1.ReadWriteMany, Class: harness.ClassDelayed}, []string{only}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			mine := *s
			mine.TB = t
			if test.claim.Class == "" {
				test.claim.Node = a.Node.Name
			}
			claim := mine.Create(test.claim)
			if test.claim.Class != "" {
				mine.Pod(claim.Name, a.Node.Hostname)
			}
			mine.AwaitWarning(a, claim.UID, harness.ReasonFailed, test.words...)
			if err := mine.IsPending(claim); err != nil {
				t.Error(err)
			}
			if mine.PathOf(a, claim) == nil {
				t.Error("a directory was made")
			}
		})
	}
}

// A PV of the claim's name that is somebody else's is neither taken for ours nor touched; when it
// goes, so does the wait.
func TestForeignPVOfTheName(t *testing.T) {
	t.Parallel()
	s, a := oneNode(t)
	a.Stop()
	claim := s.Create(harness.Claim{Node: a.Node.Name})
	pvs := env.Client.CoreV1().PersistentVolumes()
	foreign, err := pvs.Create(t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: harness.PVName(claim)},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "somebody-elses", AccessModes: claim.Spec.AccessModes,
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/somebody/elses"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a.Restart()
	a.AwaitReady()
	s.Eventually("event", func() error {
		for _, e := range s.Events(claim.UID) {
			if e.Ours() && e.Type == corev1.EventTypeWarning && regexp.MustCompile(foreign.Name).MatchString(e.Message) {
				return nil
			}
		}
		return context.DeadlineExceeded
	})
	const conflict, post = `code="409"`, `method="POST"`
	refused := metric(s, a, "rest_client_requests_total", conflict, post)
	s.Eventually("the agent tried to save its PV again", func() error {
		if now := metric(s, a, "rest_client_requests_total", conflict, post); now == refused {
			return fmt.Errorf("%d conflicts, as before", now)
		}
		return nil
	})
	s.Once("the foreign PV's name is taken", func() error { return s.IsPending(claim) })
	now := s.PV(foreign.Name)
	if now.UID != foreign.UID || !slices.Equal(now.Finalizers, foreign.Finalizers) || len(now.Labels)+len(now.Annotations) != 0 {
		t.Errorf("the foreign PV was changed: %+v", now)
	}
	if err := pvs.Delete(t.Context(), foreign.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Bound(claim)
	wantTree(s, a.Pool, harness.PVName(claim))
}

// An agent that came with a newer version meets a ClusterRole that nobody has applied again.
func TestMissingPermission(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	roles := env.Client.RbacV1().ClusterRoles()
	role, err := roles.Get(t.Context(), "hostpath-provisioner", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var rules []rbacv1.PolicyRule
	for _, r := range role.DeepCopy().Rules {
		if slices.Contains(r.Resources, "persistentvolumes") {
			r.Verbs = slices.DeleteFunc(r.Verbs, func(v string) bool { return v == "patch" })
		}
		if !slices.Contains(r.Resources, "persistentvolumeclaims/status") {
			rules = append(rules, r)
		}
	}
	kubeconfig, reduced := limited(s, rules)
	missing := `missing: patch persistentvolumes \([^)]*\), patch persistentvolumeclaims/status \([^)]*\);`
	a := s.Start(s.Node("01"), harness.Options{Kubeconfig: kubeconfig})
	a.AwaitUnready(missing)
	if !regexp.MustCompile(missing).MatchString(a.Log()) {
		t.Errorf("the log does not match %q", missing)
	}
	reduced.Rules = role.Rules
	if _, err := roles.Update(t.Context(), reduced, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	a.AwaitReady()
}

package nodes

import (
	"archive/zip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// row is what doctor -o json prints of a check.
type row struct{ Check, Verdict, Object, Why string }

func diagnose(s *harness.Scene, args ...string) (rows []row, code int) {
	s.Helper()
	out, printed, code := hpp(s, append([]string{"doctor", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &rows); err != nil || printed != "" {
		s.Fatalf("doctor: code %d: %v: %s%s", code, err, out, printed)
	}
	return rows, code
}

// What doctor reads through the API server and the kubelets is there on a real cluster, and is
// unknown for those who may only look. Tests beside this one break claims and classes, so those
// checks are not looked at.
func TestPluginDoctor(t *testing.T) {
	withAgents(t)
	s := newScene(t)
	healthy := []string{"operator", "permissions", "priority-quota", "versions", "certificates", "clocks", "kubernetes"}
	var rows []row
	precious := availablePV(s)
	s.Eventually("doctor", func() error { // agents of other tests come and go
		var code int
		if rows, code = diagnose(s, "--measure", "-n", s.Namespace); code < 0 || code > 2 {
			t.Fatalf("code %d", code)
		}
		for _, r := range rows {
			if r.Verdict == "unknown" {
				return fmt.Errorf("for the administrator %s is unknown: %s: %s", r.Check, r.Object, r.Why)
			}
		}
		return checkRows(rows, healthy, "ok")
	})
	if pv := s.PV(precious); pv.Status.Phase != corev1.VolumeAvailable || pv.Spec.ClaimRef != nil {
		t.Errorf("a claim of the measure was bound to an available PV: %+v", pv)
	}
	if i := slices.IndexFunc(rows, func(r row) bool { return r.Check == "controller-manager" }); !strings.Contains(rows[i].Why, "behind after 80 claims") {
		t.Errorf("the measure is %+v", rows[i])
	}
	left, err := s.Client.CoreV1().PersistentVolumeClaims(s.Namespace).List(t.Context(), metav1.ListOptions{})
	must(s, "list claims", err)
	if len(left.Items) != 0 {
		t.Errorf("the measure left %d claims", len(left.Items))
	}
	looking(s)
	support(s)
}

// availablePV creates a PV without a class that any claim of a byte fits, and that would be deleted
// with its data after it.
func availablePV(s *harness.Scene) string {
	s.Helper()
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: s.Name + "-available"}, Spec: corev1.PersistentVolumeSpec{
		Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp/" + s.Name}}}}
	_, err := s.Client.CoreV1().PersistentVolumes().Create(s.Context(), pv, metav1.CreateOptions{})
	must(s, "create PV", err)
	s.Cleanup(func() {
		_ = s.Client.CoreV1().PersistentVolumes().Delete(context.Background(), pv.Name, metav1.DeleteOptions{})
	})
	s.Eventually("PV available", func() error {
		if phase := s.PV(pv.Name).Status.Phase; phase != corev1.VolumeAvailable {
			return fmt.Errorf("PV is %s", phase)
		}
		return nil
	})
	return pv.Name
}

// checkRows returns an error unless each row of the checks has the verdict.
func checkRows(rows []row, checks []string, verdict string) error {
	var wrong []string
	for _, r := range rows {
		if slices.Contains(checks, r.Check) && r.Verdict != verdict {
			wrong = append(wrong, r.Check+" is "+r.Verdict+": "+r.Object+": "+r.Why)
		}
	}
	if len(wrong) > 0 {
		return failure(strings.Join(wrong, "\n"))
	}
	return nil
}

type failure string

func (e failure) Error() string { return string(e) }

// looking runs doctor as a user with the role of those who look: what they may not reach is unknown,
// and nothing else is.
func looking(s *harness.Scene) {
	s.Helper()
	_, err := kubectl("", "apply", "-k", filepath.Join(root, "manifests", "plugin"))
	must(s, "roles", err)
	user := "looks-" + s.Name
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{GenerateName: "hpp-view-"},
		RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "kubectl-hpp-view"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: user}}}
	made, err := s.Client.RbacV1().ClusterRoleBindings().Create(s.Context(), binding, metav1.CreateOptions{})
	must(s, "role binding", err)
	defer func() {
		must(s, "delete role binding", s.Client.RbacV1().ClusterRoleBindings().Delete(s.Context(), made.Name, metav1.DeleteOptions{}))
	}()
	s.Eventually("doctor of who may look", func() error { // the authorizer learns of the binding
		rows, _ := diagnose(s, "--as", user)
		for _, r := range rows {
			forbidden := strings.HasPrefix(r.Why, "may not run commands in the agents' pods") || strings.HasPrefix(r.Why, "may not get pods/proxy")
			if r.Verdict == "unknown" && !forbidden {
				return failure(r.Check + ": " + r.Why)
			}
		}
		return checkRows(rows, []string{"pools", "space", "quotas", "system-disk", "certificates"}, "unknown")
	})
}

// support checks that a report has what two nodes have.
func support(s *harness.Scene) {
	s.Helper()
	file := filepath.Join(s.TempDir(), "report.zip")
	if out, printed, code := hpp(s, "report", "-f", file); code != 0 || !strings.HasPrefix(out, file+": ") {
		s.Fatalf("report: code %d: %s%s", code, out, printed)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		s.Errorf("the report: %v, %v", info, err)
	}
	archive, err := zip.OpenReader(file)
	must(s, "open the report", err)
	defer archive.Close()
	count, text := map[string]int{}, ""
	for _, f := range archive.File {
		dir, _, _ := strings.Cut(f.Name, "/")
		count[dir]++
		r, err := f.Open()
		must(s, f.Name, err)
		data, err := io.ReadAll(r)
		must(s, f.Name, err)
		if f.Name == "MANIFEST.txt" {
			text = string(data)
		}
	}
	if count["inspect"] < 2 || count["metrics"] < 2 || count["logs"] < 2 || count["objects"] < 15 || count["doctor.json"] != 1 {
		s.Errorf("the report has %v:\n%s", count, text)
	}
}

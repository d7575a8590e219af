package nodes

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// hpp runs the plugin as the cluster's administrator, and returns what it printed and its exit code.
func hpp(s *harness.Scene, args ...string) (out, printed string, code int) {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), filepath.Join(root, "bin", "linux-"+runtime.GOARCH, "kubectl-hpp"),
		append([]string{"--kubeconfig", local.ControlPlane().Kubeconfig(), "--timeout", "1m"}, args...)...) // of a busy machine
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		must(s, "kubectl-hpp", err)
	}
	return stdout.String(), stderr.String(), code
}

// The plugin on the real cluster: agents answer through the API server and the kubelets.
func TestPlugin(t *testing.T) {
	withAgents(t)
	s := newScene(t)
	bound := s.Bound(s.Create(harness.Claim{Node: one.Name}))
	claims := map[string]string{
		"class":  s.Create(harness.Claim{Class: "no-such-class"}).Name,
		"size":   s.Create(harness.Claim{Node: one.Name, Size: "8Pi"}).Name,
		"node":   s.Create(harness.Claim{Node: "node-99"}).Name,
		"nobody": s.Create(harness.Claim{}).Name,
		"pod":    s.Create(harness.Claim{Class: harness.ClassDelayed}).Name,
		"bound":  bound.Spec.ClaimRef.Name,
	}
	for claim, want := range map[string][]string{
		"class":  {"class no-such-class does not exist"},
		"size":   {"8Pi are requested", one.Name},
		"node":   {`names node "node-99", which does not exist`},
		"nobody": {"no node is named for this claim"},
		"pod":    {"waits for the first pod that uses the claim", one.Name, other.Name, "ready"},
		"bound":  {"its volume is on node " + one.Name + ": PV " + bound.Name + ", /var/hpvolumes/" + bound.Name, "the annotation kubevirt.io/provisionOnNode of the claim names the node", "directory " + bound.Name + " of /var/hpvolumes"},
	} {
		var out string
		s.Eventually("explain "+claim, func() error { // once what it reads is there
			var code int
			var printed string
			if out, printed, code = hpp(s, "explain", claims[claim], "-n", s.Namespace); code != 0 || printed != "" {
				t.Fatalf("explain %s: code %d: %s", claim, code, printed)
			}
			return containsAll(out, want)
		})
		if claim == "bound" && strings.Contains(out, "✗") {
			t.Errorf("a bound claim has a cause:\n%s", out)
		}
	}

	out, printed, code := hpp(s, "status")
	if err := containsAll(out, []string{" agents ready, ", one.Name, other.Name, "█"}); err != nil || code != 0 || printed != "" {
		t.Errorf("status: code %d: %v\n%s%s", code, err, out, printed)
	}
	type pool struct {
		Path  string
		Total int64
	}
	var status struct {
		Nodes []struct {
			Name, Ready string
			Pools       []pool
		}
		Unknown []string
	}
	out, _, _ = hpp(s, "status", "-o", "json")
	if err := json.Unmarshal([]byte(out), &status); err != nil || len(status.Nodes) != 2 || status.Unknown != nil {
		t.Errorf("status -o json: %v\n%s", err, out)
	}
	for _, n := range status.Nodes { // other tests have agents and pools of their own there
		if n.Ready != "yes" || !slices.ContainsFunc(n.Pools, func(p pool) bool { return p.Path == "/var/hpvolumes" && p.Total > 0 }) {
			t.Errorf("status -o json of %s: %s", n.Name, out)
		}
	}
	tenant(s, claims["bound"])
}

// tenant runs the plugin as a user who may only read claims of the namespace.
func tenant(s *harness.Scene, claim string) {
	s.Helper()
	user := "tenant-" + s.Name
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims"}, Verbs: []string{"get"}}}}
	_, err := s.Client.RbacV1().Roles(s.Namespace).Create(s.Context(), role, metav1.CreateOptions{})
	must(s, "role", err)
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "reader"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: user}}}
	_, err = s.Client.RbacV1().RoleBindings(s.Namespace).Create(s.Context(), binding, metav1.CreateOptions{})
	must(s, "role binding", err)
	s.Eventually("a tenant's explain", func() error { // the authorizer learns of the role
		out, printed, _ := hpp(s, "explain", claim, "-n", s.Namespace, "--as", user)
		return containsAll(out+printed, []string{"may not get persistentvolumes", "may not list nodes", "may not list pods", "may not list events"})
	})
	out, _, code := hpp(s, "status", "--as", user)
	if err := containsAll(out, []string{"agents unknown", "may not list nodes", "may not list pods"}); err != nil || code != 0 || strings.Contains(out, "no agent") {
		s.Errorf("a tenant's status: code %d: %v\n%s", code, err, out)
	}
}

func containsAll(text string, parts []string) error {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return errors.New("no " + part + " in\n" + text)
		}
	}
	return nil
}

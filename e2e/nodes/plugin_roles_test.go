package nodes

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// pluginUser runs the plugin with the rights of one of the roles of docs/plugin.md.
type pluginUser struct {
	name string
	// unknown matches what a command says that this user has no right to; nil if nothing is unknown to him.
	unknown *regexp.Regexp
	// codes are the exit codes that he may see.
	codes string
}

// Every command, as each kind of user: one who has a role in a namespace only, one who looks at the
// cluster, and one who also runs commands in the agents' pods. Nobody gets a wrong answer, and what is
// unknown to him has its reason in each format.
func TestPluginRoles(t *testing.T) {
	withAgents(t)
	s := newScene(t)
	claim := s.Create(harness.Claim{Node: one.Name})
	s.Bound(claim)
	if _, err := kubectl("", "apply", "-k", filepath.Join(root, "manifests", "plugin")); err != nil {
		t.Fatal(err)
	}
	tenant, view, admin := pluginUser{"tenant-" + s.Name, regexp.MustCompile(`may not (get|list|create) `), "01"},
		pluginUser{"view-" + s.Name, regexp.MustCompile(`may not (run commands in the agents' pods|get pods/proxy)`), "0"}, pluginUser{"admin-" + s.Name, nil, "0"}
	bindRole(s, s.Namespace, tenant.name, "view") // of Kubernetes
	for _, u := range []pluginUser{view, admin} {
		bindRole(s, "", u.name, "kubectl-hpp-view")
	}
	bindRole(s, harness.Namespace, admin.name, "kubectl-hpp-admin")

	ns := " -n " + s.Namespace
	agents := []string{ // what needs the agents' answers
		"df", "pools", "top", "volumes" + ns, "volumes" + ns + " -o wide", "node " + one.Name, "orphans", "trash",
		"recover --all --dry-run", "status --timeout=20s",
	}
	lists := []string{"explain " + claim.Name + ns, "migrate status" + ns, "disks", "doctor", "report" + ns, "version"}
	for _, u := range []pluginUser{tenant, view, admin} {
		s.Eventually(u.name+" has his roles", func() error {
			out, printed, _ := hpp(s, "explain", claim.Name, "-n", s.Namespace, "--as", u.name)
			if strings.Contains(out+printed, "may not get persistentvolumeclaims") {
				return errors.New(out + printed)
			}
			return nil
		})
		for _, command := range agents {
			if err := u.answers(s, command, true); err != nil {
				t.Errorf("%s: %s: %v", u.name, command, err)
			}
			if strings.HasPrefix(command, "volumes") || strings.HasPrefix(command, "recover") {
				continue // -o is given, or has no JSON
			}
			if err := u.answersJSON(s, command); err != nil {
				t.Errorf("%s: %s -o json: %v", u.name, command, err)
			}
		}
		for _, command := range lists {
			if err := u.answers(s, command, false); err != nil {
				t.Errorf("%s: %s: %v", u.name, command, err)
			}
		}
	}
}

// answers runs a command. If it needs the agents, this user reads why something is unknown, or nothing is.
func (u pluginUser) answers(s *harness.Scene, command string, needsAgents bool) error {
	args := append(strings.Split(command, " "), "--as", u.name)
	if strings.HasPrefix(command, "report") {
		args = append(args, "--force", "--file", filepath.Join(s.TempDir(), "report.zip"))
	}
	out, printed, code := hpp(s, args...)
	text := out + printed
	switch {
	case !strings.Contains(u.codes, fmt.Sprint(code)) && !judges(command, code):
		return fmt.Errorf("code %d: %s", code, text)
	case strings.Contains(text, "goroutine ") || text == "":
		return fmt.Errorf("no answer: %q", text)
	case u.unknown == nil && strings.Contains(text, "may not "):
		return fmt.Errorf("a right is missing: %s", text)
	case u.unknown != nil && needsAgents && !u.unknown.MatchString(text):
		return fmt.Errorf("nothing says what is unknown: %s", text)
	}
	return nil
}

// judges reports whether a command exits with this code because of what it found, or could not find out.
// doctor also finds what other tests have made meanwhile, and 2 is for what is critical.
func judges(command string, code int) bool {
	return code == 1 && strings.HasPrefix(command, "recover") || (code == 1 || code == 2) && command == "doctor"
}

// answersJSON runs a command, whose output is JSON with the reason of what is unknown.
func (u pluginUser) answersJSON(s *harness.Scene, command string) error {
	out, printed, code := hpp(s, append(strings.Split(command, " "), "-o", "json", "--as", u.name)...)
	switch {
	case code != 0: // and nothing that could be taken for an answer
		if out != "" || printed == "" {
			return fmt.Errorf("code %d: %q, %q", code, out, printed)
		}
	case !json.Valid([]byte(out)):
		return fmt.Errorf("no JSON: %s", out)
	case u.unknown == nil && strings.Contains(out, "may not "):
		return fmt.Errorf("a right is missing: %s", out)
	case u.unknown != nil && !u.unknown.MatchString(out):
		return fmt.Errorf("nothing says what is unknown: %s%s", out, printed)
	}
	return nil
}

// bindRole gives a user a ClusterRole, in a namespace or, without one, in the cluster.
func bindRole(s *harness.Scene, namespace, user, role string) {
	s.Helper()
	meta := metav1.ObjectMeta{Name: user + "-" + role}
	ref := rbacv1.RoleRef{Kind: "ClusterRole", Name: role}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: user}}
	var err error
	if namespace == "" {
		_, err = s.Client.RbacV1().ClusterRoleBindings().Create(s.Context(),
			&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
	} else {
		_, err = s.Client.RbacV1().RoleBindings(namespace).Create(s.Context(),
			&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
	}
	must(s, "bind "+role, err)
	s.Cleanup(func() {
		args := []string{"delete", "--ignore-not-found", "clusterrolebinding", meta.Name}
		if namespace != "" {
			args = []string{"-n", namespace, "delete", "--ignore-not-found", "rolebinding", meta.Name}
		}
		if _, err := kubectl("", args...); err != nil {
			s.Error(err)
		}
	})
}

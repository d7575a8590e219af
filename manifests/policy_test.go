package manifests_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// policies are those of manifests/policy that hold the agents of directories, by the one resource
// that each is for. The processes that offer disks have others.
func policies(t *testing.T) map[string]*admissionv1.ValidatingAdmissionPolicy {
	t.Helper()
	found := map[string]*admissionv1.ValidatingAdmissionPolicy{}
	for _, p := range all[*admissionv1.ValidatingAdmissionPolicy](t, "policy") {
		if p.Name == disksName || p.Name == leasesPolicy {
			continue
		}
		rules := p.Spec.MatchConstraints.ResourceRules
		if len(rules) != 1 || len(rules[0].APIGroups) != 1 {
			t.Fatalf("%s: rules %v, want one", p.Name, rules)
		}
		found[rules[0].APIGroups[0]+"/"+rules[0].Resources[0]] = p
	}
	return found
}

// Whatever a role lets agents write is looked at, but for events.
func TestPoliciesCoverWhatAgentsWrite(t *testing.T) {
	operation := map[string]admissionv1.OperationType{
		"create": admissionv1.Create, "update": admissionv1.Update, "patch": admissionv1.Update, "delete": admissionv1.Delete,
	}
	want := map[string][]admissionv1.OperationType{}
	rules := slices.Concat(one[*rbacv1.ClusterRole](t, "legacy").Rules, one[*rbacv1.ClusterRole](t, "csi").Rules,
		one[*rbacv1.Role](t, "csi").Rules)
	for _, r := range rules {
		key := r.APIGroups[0] + "/" + r.Resources[0]
		for _, verb := range r.Verbs {
			if op := operation[verb]; op != "" && key != "/events" && !slices.Contains(want[key], op) {
				want[key] = append(want[key], op)
			}
		}
	}
	got := map[string][]admissionv1.OperationType{}
	for _, p := range policies(t) {
		rule := p.Spec.MatchConstraints.ResourceRules[0]
		for _, resource := range rule.Resources {
			got[rule.APIGroups[0]+"/"+resource] = rule.Operations
		}
	}
	for _, list := range []map[string][]admissionv1.OperationType{want, got} {
		for _, ops := range list {
			slices.Sort(ops)
		}
	}
	if !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("the policies look at %v, agents write %v", got, want)
	}
}

// An administrator who lists no directories admits those of the forms, and no others.
func TestPolicyKnowsThePools(t *testing.T) {
	var want []string
	for _, at := range append(slices.Collect(maps.Keys(localPathForms)), "legacy", "single-node", "examples/both-modes") {
		_, c := agent(t, at)
		want = append(want, environment(c)["PV_DIR"])
	}
	slices.Sort(want)
	vars := policies(t)["/persistentvolumes"].Spec.Variables
	i := slices.IndexFunc(vars, func(v admissionv1.Variable) bool { return v.Name == "dirs" })
	if i < 0 {
		t.Fatal("the policy has no variable dirs")
	}
	text, _, _ := strings.Cut(vars[i].Expression, ".split")
	got := regexp.MustCompile(`/[a-z0-9/-]+`).FindAllString(text, -1)
	slices.Sort(got)
	if want = slices.Compact(want); !slices.Equal(got, want) {
		t.Errorf("the policy knows %q, want %q", got, want)
	}
}

// A policy that is not in force everywhere, or lets pass what it cannot judge, holds nobody.
func TestPoliciesAreInForce(t *testing.T) {
	bindings := map[string]*admissionv1.ValidatingAdmissionPolicyBinding{}
	for _, b := range all[*admissionv1.ValidatingAdmissionPolicyBinding](t, "policy") {
		bindings[b.Spec.PolicyName] = b
	}
	for _, p := range policies(t) {
		b := bindings[p.Name]
		if b == nil || !slices.Contains(b.Spec.ValidationActions, admissionv1.Deny) || b.Spec.MatchResources != nil {
			t.Errorf("%s: binding %+v, want one that denies everywhere", p.Name, b)
			continue
		}
		c := p.Spec.MatchConstraints
		if *p.Spec.FailurePolicy != admissionv1.Fail || c.NamespaceSelector != nil || c.ObjectSelector != nil ||
			len(c.ExcludeResourceRules) != 0 || !slices.Equal(c.ResourceRules[0].APIVersions, []string{"*"}) {
			t.Errorf("%s: lets something pass unseen: %+v", p.Name, p.Spec)
		}
		if (p.Spec.ParamKind == nil) != (b.Spec.ParamRef == nil) {
			t.Errorf("%s: parameters of kind %v, from %v", p.Name, p.Spec.ParamKind, b.Spec.ParamRef)
		}
		for _, v := range p.Spec.Validations {
			if v.Message+v.MessageExpression == "" || v.Reason == nil || *v.Reason != metav1.StatusReasonForbidden {
				t.Errorf("%s: %s: refuses without words, or calls it %v", p.Name, v.Expression, v.Reason)
			}
		}
	}
	hostnames := one[*corev1.ConfigMap](t, "policy")
	ref := bindings[policies(t)["/persistentvolumes"].Name].Spec.ParamRef
	if ref == nil || ref.Name != hostnames.Name || ref.Namespace != hostnames.Namespace ||
		ref.ParameterNotFoundAction == nil || *ref.ParameterNotFoundAction != admissionv1.DenyAction {
		t.Errorf("parameters %+v, want %s/%s, and no passing without it", ref, hostnames.Namespace, hostnames.Name)
	}
}

// All three hold the same accounts, by the same words for who they are.
func TestPoliciesHoldTheAgents(t *testing.T) {
	quoted := regexp.MustCompile(`matches\(\s*'([^']+)'\)$`)
	var node []string
	for _, p := range policies(t) {
		if len(p.Spec.MatchConditions) != 1 || p.Spec.MatchConditions[0].Name != "agent" {
			t.Fatalf("%s: conditions %v, want the agents alone", p.Name, p.Spec.MatchConditions)
		}
		pattern := quoted.FindStringSubmatch(p.Spec.MatchConditions[0].Expression)
		if pattern == nil || !strings.HasPrefix(p.Spec.MatchConditions[0].Expression, "request.userInfo.username.") {
			t.Fatalf("%s: condition %s", p.Name, p.Spec.MatchConditions[0].Expression)
		}
		is := regexp.MustCompile(pattern[1])
		for user, want := range map[string]bool{
			"system:serviceaccount:" + name + ":" + account:         true,
			"system:serviceaccount:" + name + ":" + csiAccount:      true,
			"system:serviceaccount:elsewhere:" + account:            true,
			"system:serviceaccount:" + name + ":" + account + "s":   false,
			"system:serviceaccount:" + name + ":" + name + "-other": false,
			"system:admin": false,
		} {
			if is.MatchString(user) != want {
				t.Errorf("%s: holds %s: %v, want %v", p.Name, user, !want, want)
			}
		}
		for _, v := range p.Spec.Variables {
			if v.Name == "node" {
				node = append(node, v.Expression)
			}
		}
	}
	if slices.Sort(node); len(node) != 3 || len(slices.Compact(node)) != 1 {
		t.Errorf("the agent's node is %q, want the same in all three", node)
	}
}

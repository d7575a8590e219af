package manifests_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/operator/removal"
)

// The chart's check before an upgrade knows which volumes the agents of each form serve and by which
// names it finds them, and its role may read these.
func TestUpgradeCheckKnowsTheForms(t *testing.T) {
	renders, err := filepath.Glob("../e2e/chart/renders/*.yaml")
	if err != nil || len(renders) < 19 {
		t.Fatalf("%d renders, %v", len(renders), err)
	}
	forms := map[string]bool{}
	for _, file := range renders {
		r := upgradeOf(t, file)
		form := strings.TrimPrefix(r.command[slices.IndexFunc(r.command, func(a string) bool { return strings.HasPrefix(a, "--form=") })], "--form=")
		forms[form] = true
		if workload := removal.Workloads[form]; workload != "" && !slices.Equal(r.names, []string{workload}) || workload == "" && len(r.names) > 0 {
			t.Errorf("%s: form %s has the workloads %q, and the check takes %q", file, form, r.names, workload)
		}
		want := removal.Upgrade{Form: form}.Serves()
		slices.Sort(want)
		if slices.Sort(r.served); !slices.Equal(r.served, want) {
			t.Errorf("%s: the agents serve %q, and the check takes %q for form %s", file, r.served, want, form)
		}
		for _, arg := range []string{"--upgrade", "--release=hostpath-provisioner", "--namespace=hostpath-provisioner"} {
			if !slices.Contains(r.command, arg) {
				t.Errorf("%s: the Job runs %q, without %s", file, r.command, arg)
			}
		}
		if want := append(slices.Clone(removal.Agents), removal.Operator); !slices.Equal(r.readable, want) {
			t.Errorf("%s: the Job may read %q, want %q", file, r.readable, want)
		}
		for _, name := range r.names {
			if !slices.Contains(r.readable, name) {
				t.Errorf("%s: the check does not find %s", file, name)
			}
		}
	}
	if len(forms) != 7 {
		t.Errorf("forms %v have renders", forms)
	}
}

// upgraded is what of a render an upgrade is about.
type upgraded struct {
	names, served     []string // of agents and operator
	command, readable []string // of the Job, and of its role
}

func upgradeOf(t *testing.T, file string) (r upgraded) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq("\n"+string(data), "\n---\n") {
		var o struct{ Kind string }
		into := func(target any) {
			if err := yaml.Unmarshal([]byte(document), target); err != nil {
				t.Fatal(err)
			}
		}
		switch into(&o); o.Kind {
		case "ClusterRole":
			var role rbacv1.ClusterRole
			if into(&role); role.Name == "hostpath-provisioner-removal" {
				for _, rule := range role.Rules {
					r.readable = append(r.readable, rule.ResourceNames...)
				}
			}
		case "Job":
			var job batchv1.Job
			if into(&job); job.Annotations["helm.sh/hook"] == "pre-upgrade,pre-rollback" {
				r.command = job.Spec.Template.Spec.Containers[0].Command
			}
		case "DaemonSet":
			var agents appsv1.DaemonSet
			if into(&agents); agents.Name != "hostpath-provisioner-disks" {
				r.names = append(r.names, agents.Name)
				r.served = contract.ServedVolumes(contract.AgentContainer(&agents.Spec.Template.Spec))
			}
		case "Deployment":
			var operator appsv1.Deployment
			into(&operator)
			r.names = append(r.names, operator.Name)
		}
	}
	return r
}

package removal

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
)

// Upgrade is a release of the chart that is about to get another form, or other settings.
type Upgrade struct {
	// Release and Namespace are those of the release. Objects of other releases, and those that no
	// release has, stay whatever the form is.
	Release, Namespace string
	// Form is the form after the upgrade.
	Form string
	// Env has the settings of the agents after the upgrade that the form does not set itself.
	Env map[string]string
}

// Agents are the names of the DaemonSets of agents that a release may have.
var Agents = []string{installed.DaemonSetName, "hostpath-provisioner", "hostpath-provisioner-local-path"}

// Operator is the name of the operator's Deployment.
const Operator = "hostpath-provisioner-operator"

// Workloads has the name of each form's DaemonSet or Deployment.
var Workloads = map[string]string{
	"csi": installed.DaemonSetName, "both": installed.DaemonSetName, "legacy": "hostpath-provisioner",
	"single-node": "hostpath-provisioner", "local-path": "hostpath-provisioner-local-path", "operator": Operator,
}

// CheckRelease is Check for a release of the chart whose last revision has the form. It also returns an
// error if the release has a workload of another form. Helm makes a revision of an upgrade that was
// refused or failed, and would remove the objects of that one, without its own check for what runs.
func CheckRelease(ctx context.Context, from client.Reader, release, namespace, form string) error {
	u := Upgrade{Release: release, Namespace: namespace}
	for _, name := range append(slices.Clone(Agents), Operator) {
		if name == Workloads[form] {
			continue
		}
		var o client.Object = &appsv1.DaemonSet{}
		if name == Operator {
			o = &appsv1.Deployment{}
		}
		switch has, err := u.has(ctx, from, name, o); {
		case err != nil:
			return err
		case has:
			return fmt.Errorf("the last upgrade of release %s was refused or failed, and %s is that of an earlier revision: "+
				"roll back to the revision that helm history has as deployed, and remove the release then", release, name)
		}
	}
	return Check(ctx, from, form)
}

// settings are those of the agents of each form that decide which volumes they serve.
var settings = map[string]map[string]string{
	"csi":         {"HPP_ENDPOINT": "unix:///csi/csi.sock", "PROVISION": "csi"},
	"both":        {"HPP_ENDPOINT": "unix:///csi/csi.sock", "PROVISION": "hostpath,csi"},
	"legacy":      {},
	"single-node": {"COMPAT": "hostpath"},
	"local-path":  {"COMPAT": "local-path"},
}

// Serves returns the provisioners whose volumes the agents of the form serve, none for a form
// without agents.
func (u Upgrade) Serves() []string {
	form, agents := settings[u.Form]
	if !agents {
		return nil
	}
	c := &corev1.Container{}
	for _, env := range []map[string]string{u.Env, form} { // the first of a name counts
		for name, value := range env {
			c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
		}
	}
	return contract.ServedVolumes(c)
}

// Check returns an error that names what needs agents, or an operator, that the release has and that
// the upgrade removes: PVs, pods with inline volumes that have not ended, or HostPathProvisioner
// resources. The operator installs agents of each kind, so an upgrade to it removes none.
func (u Upgrade) Check(ctx context.Context, from client.Reader) error {
	if u.Form == "operator" {
		return nil
	}
	var operator appsv1.Deployment
	switch has, err := u.has(ctx, from, Operator, &operator); {
	case err != nil:
		return err
	case has:
		return Check(ctx, from, "operator")
	}
	removed, err := u.removed(ctx, from)
	if err != nil || len(removed) == 0 {
		return err
	}
	users, err := usersOf(ctx, from, removed)
	if err != nil || len(users) == 0 {
		return err
	}
	return fmt.Errorf("no agent of the form serves %s, which these need: %s; migrate them first, "+
		"or use a form that serves them", strings.Join(removed, " and "), events.Names(users, events.Listed))
}

// removed returns the provisioners that agents of the release serve, and those of the form do not.
func (u Upgrade) removed(ctx context.Context, from client.Reader) (names []string, err error) {
	after := u.Serves()
	for _, name := range Agents {
		var agents appsv1.DaemonSet
		has, err := u.has(ctx, from, name, &agents)
		if err != nil {
			return nil, err
		}
		c := contract.AgentContainer(&agents.Spec.Template.Spec)
		if !has || c == nil {
			continue
		}
		for _, p := range contract.ServedVolumes(c) {
			if !slices.Contains(after, p) && !slices.Contains(names, p) {
				names = append(names, p)
			}
		}
	}
	return names, nil
}

// has reads an object, and reports whether it is there and Helm's annotations say that it is the
// release's.
func (u Upgrade) has(ctx context.Context, from client.Reader, name string, o client.Object) (bool, error) {
	switch err := from.Get(ctx, client.ObjectKey{Namespace: u.Namespace, Name: name}, o); {
	case client.IgnoreNotFound(err) != nil:
		return false, fmt.Errorf("read %T %s/%s: %w", o, u.Namespace, name, err)
	case err != nil:
		return false, nil
	}
	a := o.GetAnnotations()
	return a["meta.helm.sh/release-name"] == u.Release && a["meta.helm.sh/release-namespace"] == u.Namespace, nil
}

// usersOf returns the PVs, and the pods with inline volumes that have not ended, that need one of the
// provisioners.
func usersOf(ctx context.Context, from client.Reader, provisioners []string) (users []string, err error) {
	err = installed.EachPV(ctx, from, func(pv *corev1.PersistentVolume) {
		if slices.Contains(provisioners, contract.VolumeProvisioner(pv)) {
			users = append(users, "PV "+pv.Name)
		}
	})
	if err != nil {
		return nil, err
	}
	err = installed.EachPod(ctx, from, func(pod *corev1.Pod) {
		inline := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.CSI != nil && slices.Contains(provisioners, v.CSI.Driver)
		})
		if inline && pod.Spec.NodeName != "" && !contract.PodEnded(pod) {
			users = append(users, "pod "+pod.Namespace+"/"+pod.Name)
		}
	})
	slices.Sort(users)
	return users, err
}

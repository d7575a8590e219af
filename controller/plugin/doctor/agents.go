package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	hpp "kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/permissions"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
)

// agentsRun checks that each node that shall have an agent has one, which is ready.
func agentsRun(f *Facts) []finding {
	all := unread(f.Agents.Unknown, f.DaemonSets.Unknown, f.Nodes.Unknown)
	if len(all) == 0 && len(f.Agents.Items) == 0 && len(f.DaemonSets.Items) == 0 {
		return []finding{{Critical, "", "no agent of hostpath-provisioner runs in this cluster",
			"install it: see docs/install.md"}}
	}
	for i := range f.DaemonSets.Items {
		d := &f.DaemonSets.Items[i]
		object, fix := "DaemonSet "+d.Namespace+"/"+d.Name, fmt.Sprintf("kubectl -n %s describe daemonset %s",
			d.Namespace, d.Name)
		switch want, has := d.Status.DesiredNumberScheduled, d.Status.CurrentNumberScheduled; {
		case want == 0:
			all = append(all, finding{Warning, object, "its nodeSelector selects no node", fix})
		case has < want:
			all = append(all, finding{Critical, object, fmt.Sprintf("it has pods on %d of %d nodes", has, want), fix})
		}
	}
	for _, a := range f.Agents.Items {
		if a.Unmarked != "" {
			all = append(all, finding{Unknown, "node " + a.Node, fmt.Sprintf("pod %s/%s is %s", a.Namespace, a.Pod, a.Unmarked),
				"update the agents, or leave the other program's pods as they are: see docs/plugin.md"})
		}
		n := f.node(a.Node)
		switch {
		case n != nil && !contract.NodeReady(n):
			all = append(all, finding{Critical, "node " + a.Node, "the node is not ready, so its volumes cannot be reached",
				"kubectl describe node " + a.Node})
		case !a.Ready:
			all = append(all, finding{Critical, "node " + a.Node, "pod " + a.Pod + " is not ready: " + a.Why,
				fmt.Sprintf("kubectl -n %s describe pod %s", a.Namespace, a.Pod)})
		}
	}
	return all
}

// operator checks the conditions of the operator's resources.
func operator(f *Facts) []finding {
	all := unread(f.Resources.Unknown)
	bad := map[hpp.ConditionType]corev1.ConditionStatus{hpp.Degraded: corev1.ConditionTrue,
		hpp.Available: corev1.ConditionFalse, hpp.Stalled: corev1.ConditionTrue}
	for i := range f.Resources.Items {
		cr := &f.Resources.Items[i]
		for _, c := range cr.Status.Conditions {
			if c.Status == bad[c.Type] && c.Status != "" {
				all = append(all, finding{Critical, "HostPathProvisioner " + cr.Name,
					fmt.Sprintf("it is %s=%s: %s: %s", c.Type, c.Status, c.Reason, c.Message),
					"kubectl describe hostpathprovisioner " + cr.Name})
				break // the others have the same cause
			}
		}
	}
	if len(f.Resources.Items) == 0 {
		return all
	}
	all = append(all, unread(f.Operators.Unknown)...)
	ready := slices.ContainsFunc(f.Operators.Items, func(p corev1.Pod) bool { return contract.PodReady(&p) })
	if f.Operators.Known() && !ready {
		all = append(all, finding{Critical, "", "there is a HostPathProvisioner, and no pod of the operator is ready",
			"kubectl get pods -A -l name=hostpath-provisioner-operator"})
	}
	return all
}

// accounts checks what the agents' service accounts may do.
func accounts(f *Facts) []finding {
	all := unread(f.Agents.Unknown)
	for _, a := range f.Accounts {
		if a.Unknown != "" {
			all = append(all, finding{Unknown, "", a.Unknown, ""})
		}
		if len(a.Missing) > 0 {
			all = append(all, finding{Critical, "ServiceAccount " + a.Namespace + "/" + a.Name,
				permissions.Lacks(a.Missing).Error(),
				"kubectl apply -k of the form that is installed, in the agents' version"})
		}
	}
	return all
}

const anotherDirectory = "the kubelet has another directory than /var/lib/kubelet: see manifests/examples/kubelet-dir"

// kubelet checks that the kubelet of each node has registered the driver of its agent.
func kubelet(f *Facts) []finding {
	all := unread(f.Agents.Unknown, f.CSINodes.Unknown, f.Events.Unknown)
	for _, a := range f.Agents.Items {
		if m := f.typeCheck(a); m != "" {
			all = append(all, finding{Critical, "node " + a.Node, "the pod of its agent does not start: " + m, anotherDirectory})
			continue
		}
		runs := a.Ready || strings.HasPrefix(a.Why, cluster.CheckFails)
		if a.Driver == "" || !runs || !f.CSINodes.Known() || cluster.HasDriver(f.index().registered[a.Node], a.Driver) {
			continue
		}
		all = append(all, finding{Critical, "node " + a.Node, "the kubelet has not registered driver " + a.Driver +
			" of its agent, so no pod with its volumes starts there", anotherDirectory})
	}
	return all
}

// driver checks that the CSIDriver of the agents exists, and that pods do not wait for an attacher. It
// is all that shows it where a sidecar serves the claims.
func driver(f *Facts) []finding {
	all := unread(f.Agents.Unknown)
	for _, a := range f.Agents.Items {
		if a.Driver == "" {
			continue
		}
		if !f.Drivers.Known() {
			return unread(f.Drivers.Unknown)
		}
		d := f.Drivers.Find(func(d *storagev1.CSIDriver) bool { return d.Name == a.Driver })
		switch {
		case d == nil:
			all = append(all, finding{Critical, "CSIDriver " + a.Driver,
				"it does not exist, so pods with its volumes wait for " +
					"an attacher, and the scheduler ignores what nodes have available",
				"kubectl apply -k of the form that is installed makes it again"})
		case contract.WaitsForAttacher(d):
			all = append(all, finding{Critical, "CSIDriver " + a.Driver,
				"it has not attachRequired: false, so pods with its volumes wait for an attacher",
				"the field cannot be changed: replace the object by that of the form that is installed (kubectl replace --force)"})
		}
	}
	return all
}

// typeCheck returns the message of the event that a directory of the kubelet is not there, "" if the
// agent is ready or there is none.
func (f *Facts) typeCheck(a cluster.Agent) string {
	if a.Ready {
		return ""
	}
	e := f.Events.Find(func(e *corev1.Event) bool {
		return e.InvolvedObject.Kind == "Pod" && e.InvolvedObject.Name == a.Pod && e.InvolvedObject.UID == a.UID &&
			strings.Contains(e.Message, "hostPath type check failed")
	})
	if e == nil {
		return ""
	}
	return strings.TrimSpace(e.Message)
}

// priorityQuota finds namespaces in which no pod of a critical priority class may be created, as on
// GKE in a namespace without a ResourceQuota for these classes.
func priorityQuota(f *Facts) []finding {
	all := unread(f.DaemonSets.Unknown, f.Events.Unknown)
	for i := range f.DaemonSets.Items {
		d := &f.DaemonSets.Items[i]
		if d.Status.CurrentNumberScheduled >= d.Status.DesiredNumberScheduled && d.Status.DesiredNumberScheduled > 0 {
			continue
		}
		if f.Events.Find(func(e *corev1.Event) bool {
			return e.InvolvedObject.Kind == "DaemonSet" && e.InvolvedObject.Name == d.Name && e.Namespace == d.Namespace &&
				strings.Contains(e.Message, "insufficient quota to match these scopes")
		}) != nil {
			all = append(all, finding{Critical, "namespace " + d.Namespace,
				"the namespace has no ResourceQuota for the priority class of the agents, so their pods are refused",
				"apply the ResourceQuota of the manifests, quota.yaml, in the namespace"})
		}
	}
	return all
}

// versions finds agents of more than one image in an installation, which has a namespace of its own.
func versions(f *Facts) []finding {
	all := unread(f.Agents.Unknown)
	installations := map[string]map[string][]string{}
	for _, a := range f.Agents.Items {
		if key := a.Namespace + " " + a.Process; a.Container != "" {
			if installations[key] == nil {
				installations[key] = map[string][]string{}
			}
			installations[key][a.Image] = append(installations[key][a.Image], a.Node)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(installations)) {
		nodes := installations[key]
		if len(nodes) < 2 {
			continue
		}
		var parts []string
		for _, image := range slices.Sorted(maps.Keys(nodes)) {
			parts = append(parts, image+" on "+events.FirstNames(nodes[image]))
		}
		all = append(all, finding{Warning, "", "the agents have different images: " + strings.Join(parts, "; "),
			"wait until the rollout is done (kubectl rollout status), or look at the pods of the older image"})
	}
	return all
}

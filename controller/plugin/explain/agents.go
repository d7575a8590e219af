package explain

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
)

// agentOn sets the state of the node's agent for the claim's class, and what is wrong with it.
func (e *explanation) agentOn(n *corev1.Node, j *Node) {
	if !e.Agents.Known() {
		return
	}
	provisioner := ""
	if e.Class.It != nil {
		provisioner = e.Class.It.Provisioner
	}
	var there, serving *cluster.Agent
	for _, a := range e.by.agents[j.Name] {
		there = a
		if (provisioner == "" || a.Serves(provisioner)) && (serving == nil || rank(a) > rank(serving)) {
			serving = a
		}
	}
	switch {
	case there == nil:
		j.Agent = "none"
		what, do := e.whyNoAgent(n)
		j.lacks("agent", do, "%s", what)
	case serving == nil:
		j.Agent = "none"
		j.lacks("agent", "add it to PROVISION or COMPAT of the agents' DaemonSet, or use a class of another provisioner",
			"its agent serves %s, and not %s", strings.Join(there.Provisioners, ", "), provisioner)
	case serving.Unmarked != "": // it may serve the claim, or be another program
		j.Agent = "unknown"
	case !serving.Ready:
		j.Agent = "not ready"
		// An agent is not ready if one of its pools is not. It answers, and serves the others.
		if !e.answers(j.Name) {
			j.lacks("agent", fmt.Sprintf("kubectl -n %s describe pod %s", serving.Namespace, serving.Pod),
				"its agent is not ready: %s",
				serving.Why)
		}
	default:
		j.Agent = "ready"
		if e.Class.It != nil && !isDialect(provisioner) && e.CSINodes.Known() &&
			!cluster.HasDriver(e.by.registered[j.Name], provisioner) {
			j.Agent = "not registered"
			j.lacks("registration", "if the kubelet's directory is not /var/lib/kubelet, see manifests/examples/kubelet-dir",
				"its kubelet has not registered the driver")
		}
	}
}

// rank orders the agents of a node: one that is ready serves the claim while another starts or ends, and
// one without the mark may be no agent.
func rank(a *cluster.Agent) int {
	switch {
	case a.Unmarked != "":
		return 0
	case !a.Ready:
		return 1
	}
	return 2
}

// whyNoAgent says why no agent runs on a node, and what to do: the rules of a DaemonSet leave the
// node out, or its pod is missing.
func (e *explanation) whyNoAgent(n *corev1.Node) (what, do string) {
	const none = "no agent runs there"
	i := slices.IndexFunc(e.DaemonSets.Items, func(d appsv1.DaemonSet) bool {
		return e.Class.It == nil || slices.Contains(cluster.ServedBy(&d.Spec.Template.Spec), e.Class.It.Provisioner)
	})
	if i < 0 {
		return none, "kubectl get daemonsets -A -l app.kubernetes.io/part-of=hostpath-provisioner lists those of the agents"
	}
	d := &e.DaemonSets.Items[i]
	if n != nil {
		// DaemonSets tolerate the taints of a node that is not ready or cordoned.
		n = n.DeepCopy()
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool {
			return strings.HasPrefix(t.Key, "node.kubernetes.io/")
		})
		if why := excludes(&corev1.Pod{Spec: d.Spec.Template.Spec}, n); why != "" {
			return fmt.Sprintf("%s: DaemonSet %s leaves the node out: %s", none, d.Name, why), fmt.Sprintf(
				"let the DaemonSet's pods run there: kubectl -n %s edit daemonset %s, or spec.workload of the operator's "+
					"HostPathProvisioner", d.Namespace, d.Name)
		}
	}
	return fmt.Sprintf("%s, although DaemonSet %s should have one", none, d.Name),
		fmt.Sprintf("kubectl -n %s describe daemonset %s", d.Namespace, d.Name)
}

// answers reports whether the agent of a node has reported a pool, or publishes space in that of
// the class.
func (e *explanation) answers(node string) bool {
	if e.Class.It != nil {
		if c := e.by.published[node]; c != nil && c.Capacity.Sign() > 0 {
			return true
		}
	}
	return e.reported(node)
}

// reported reports whether an agent of the node has reported a pool.
func (e *explanation) reported(node string) bool {
	return slices.ContainsFunc(e.by.pools[node], func(p *agents.Pools) bool { return len(p.Reports) > 0 })
}

// excludes says why a pod may not run on the node, whatever storage it has; "" if it may, or if
// there is no pod.
func excludes(pod *corev1.Pod, n *corev1.Node) string {
	if pod == nil || pod.Spec.NodeName == n.Name {
		return ""
	}
	whose := "its"
	if pod.Name != "" {
		whose = "pod " + pod.Name + "'s"
	}
	for key, value := range pod.Spec.NodeSelector {
		if has, ok := n.Labels[key]; !ok || has != value {
			return fmt.Sprintf("%s nodeSelector is %s=%s", whose, key, value)
		}
	}
	if may, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(n); err != nil || !may {
		return whose + " affinity leaves the node out"
	}
	own := slices.DeleteFunc(slices.Clone(n.Spec.Taints),
		func(t corev1.Taint) bool { return ofKubernetes[t.Key].what != "" })
	if taint := repels(own, pod); taint != nil {
		return fmt.Sprintf("%s tolerations lack the node's taint %s", whose, taint.ToString())
	}
	return ""
}

// repels returns a taint that keeps the pod away, nil if there is none.
func repels(taints []corev1.Taint, pod *corev1.Pod) *corev1.Taint {
	taint, found := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), taints, pod.Spec.Tolerations,
		func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }, true)
	if !found {
		return nil
	}
	return &taint
}

// ofKubernetes are the taints that Kubernetes sets for a condition of the node: the node is what is
// wrong, and not the tolerations of the pod. do is about the node whose name follows.
var ofKubernetes = map[string]struct{ what, do string }{
	corev1.TaintNodeNotReady:      {"it is not ready", "kubectl describe node "},
	corev1.TaintNodeUnreachable:   {"it is not ready", "kubectl describe node "},
	corev1.TaintNodeUnschedulable: {"it is cordoned", "kubectl uncordon "},
	corev1.TaintNodeMemoryPressure: {"it has too little free memory (MemoryPressure)",
		"kubectl describe node "},
	corev1.TaintNodeDiskPressure: {"the disk of its kubelet is nearly full (DiskPressure)",
		"free space there: kubectl describe node "},
	corev1.TaintNodePIDPressure: {"it has too many processes (PIDPressure)",
		"kubectl describe node "},
	corev1.TaintNodeNetworkUnavailable: {"its network is not ready", "kubectl describe node "},
	corev1.TaintNodeOutOfService: {"it is out of service",
		"remove the taint when the machine is back: kubectl describe node "},
	"node.cloudprovider.kubernetes.io/uninitialized": {"its cloud provider has not initialized it",
		"kubectl describe node "},
	"node.cloudprovider.kubernetes.io/shutdown": {"its machine is shut down", "kubectl describe node "},
}

// conditions adds what keeps every pod from a node, as the taints that Kubernetes sets for that have
// it. Agents serve a node that was chosen, whatever its taints are.
func (e *explanation) conditions(n *corev1.Node, pod *corev1.Pod, j *Node) {
	if pod == nil {
		pod = &corev1.Pod{} // it may come, and tolerates nothing
	}
	seen := map[string]bool{}
	for _, l := range j.Lacks {
		seen[l.What] = true
	}
	add := func(taint corev1.Taint) {
		about := ofKubernetes[taint.Key]
		if about.what == "" || seen[about.what] || repels([]corev1.Taint{taint}, pod) == nil {
			return
		}
		seen[about.what] = true
		j.lacks(about.what, about.do+n.Name, "%s", about.what)
	}
	if n.Spec.Unschedulable { // before the node controller has set the taint
		add(corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	for _, taint := range n.Spec.Taints {
		add(taint)
	}
}

// allowed reports whether the class's topologies, if it has any, have the node.
func allowed(c *storagev1.StorageClass, n *corev1.Node) bool {
	if c == nil || len(c.AllowedTopologies) == 0 {
		return true
	}
	has := func(e corev1.TopologySelectorLabelRequirement) bool {
		value, ok := n.Labels[e.Key]
		if e.Key == contract.TopologyNode && !ok { // a label of nodes whose kubelet has registered the driver
			value = n.Name
		}
		return slices.Contains(e.Values, value)
	}
	return slices.ContainsFunc(c.AllowedTopologies, func(term corev1.TopologySelectorTerm) bool {
		return !slices.ContainsFunc(term.MatchLabelExpressions,
			func(e corev1.TopologySelectorLabelRequirement) bool { return !has(e) })
	})
}

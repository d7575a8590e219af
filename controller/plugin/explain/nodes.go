package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
)

// Node is what a node has for the claim.
type Node struct {
	Name  string `json:"name"`
	Ready string `json:"ready"`
	Agent string `json:"agent"`
	Pool  string `json:"pool,omitempty"`
	// Available is in bytes; nil if it is not known.
	Available *int64 `json:"available,omitempty"`
	// Excluded says why the pod of the claim may not run there, whatever the node has; "" if it may.
	Excluded string `json:"excluded,omitempty"`
	// Lacks is what keeps the node from holding the volume; empty if nothing does.
	Lacks []string `json:"lacks,omitempty"`
}

// candidatesOf judges the node of that name, or all if it is "", and adds the cause if none can
// hold the volume.
func (e *explanation) candidatesOf(name string) {
	var lacking []Node
	excluded, fit := 0, 0
	for i := range e.Nodes.Items {
		n := &e.Nodes.Items[i]
		if name != "" && n.Name != name || name == "" && n.Labels[corev1.LabelOSStable] == "windows" {
			continue
		}
		judged := e.judge(n.Name, e.pod())
		switch {
		case judged.Excluded != "":
			excluded++
		case len(judged.Lacks) > 0:
			lacking = append(lacking, judged)
		default:
			fit++
		}
		e.answer.Nodes = append(e.answer.Nodes, judged)
	}
	which := ""
	if excluded > 0 {
		which = fmt.Sprintf(", of those that pod %s may use,", e.pod().Name)
	}
	switch {
	case fit > 0 || len(e.answer.Nodes) == 0:
	case len(lacking) == 0:
		e.add(Cause, "correct the nodeSelector or the affinity of the pod", "pod %s may not use %s: %s", e.pod().Name,
			events.Count(excluded, "node"), e.answer.Nodes[0].Excluded)
	case len(lacking) == 1:
		e.add(Cause, e.remedy(lacking), "node %s%s cannot hold the volume: %s", lacking[0].Name, onlyOne(which),
			strings.Join(lacking[0].Lacks, "; "))
	default:
		e.add(Cause, e.remedy(lacking), "none of the %d nodes%s can hold the volume: %s", len(lacking), which, commonest(lacking))
	}
}

func onlyOne(which string) string { return strings.Replace(which, ", of those", ", the only one", 1) }

// pod returns a pod that uses the claim, nil if there is none.
func (e *explanation) pod() *corev1.Pod {
	if len(e.Users.Items) == 0 {
		return nil
	}
	return &e.Users.Items[0]
}

// judge finds what the node lacks for the claim. A pod that will use it must tolerate the node's
// taints.
func (e *explanation) judge(name string, pod *corev1.Pod) Node {
	j := Node{Name: name, Ready: "unknown", Agent: "unknown"}
	lacks := func(format string, args ...any) { j.Lacks = append(j.Lacks, fmt.Sprintf(format, args...)) }
	if n := e.nodeNamed(name); n != nil {
		j.Ready = "yes"
		if !contract.NodeReady(n) {
			j.Ready = "no"
			lacks("it is not ready: kubectl describe node %s", name)
		}
		if n.Spec.Unschedulable && e.PV.It == nil {
			lacks("it is cordoned")
		}
		j.Excluded = excludes(pod, n)
		if !allowed(e.Class.It, n) {
			lacks("the class's allowedTopologies leave it out")
		}
	}
	// What a node has published stays when its agent goes.
	if j.Agent = e.agentOn(name, lacks); e.PV.It == nil && j.Agent != "none" {
		e.space(&j, lacks)
	}
	return j
}

// agentOn describes the agent of a node for the claim's class.
func (e *explanation) agentOn(node string, lacks func(string, ...any)) string {
	if !e.Agents.Known() {
		return "unknown"
	}
	a := e.Agents.Find(func(a *cluster.Agent) bool {
		return a.Node == node && a.Process == cluster.NodeAgent && (e.Class.It == nil || a.Serves(e.Class.It.Provisioner))
	})
	switch {
	case a == nil:
		lacks("no agent that serves the class runs there: the nodeSelector and tolerations of the DaemonSet, or PROVISION")
		return "none"
	case !a.Ready:
		// An agent is not ready if one of its pools is not. It answers, and serves the others.
		if !e.answers(node) {
			lacks("its agent is not ready: %s: kubectl -n %s describe pod %s", a.Why, a.Namespace, a.Pod)
		}
		return "not ready"
	case e.Class.It != nil && !isDialect(e.Class.It.Provisioner) && e.CSINodes.Known() && !e.registered(node):
		lacks("the kubelet has not registered the driver: is its directory another than the agent's --kubelet-dir?")
		return "not registered"
	}
	return "ready"
}

// answers reports whether the agent of a node has reported a pool, or publishes space in that of
// the class.
func (e *explanation) answers(node string) bool {
	if e.Class.It != nil {
		if c := e.published(node); c != nil && c.Capacity.Sign() > 0 {
			return true
		}
	}
	return slices.ContainsFunc(e.Pools, func(p agents.Pools) bool { return p.Agent.Node == node && len(p.Reports) > 0 })
}

// registered reports whether the kubelet of the node has the driver of the class.
func (e *explanation) registered(node string) bool {
	c := e.CSINodes.Find(func(c *storagev1.CSINode) bool { return c.Name == node })
	if c == nil {
		return false
	}
	for _, d := range c.Spec.Drivers {
		if d.Name == e.Class.It.Provisioner {
			return true
		}
	}
	return false
}

// space sets the pool and what it has available: as the agent reports it, or as it is published.
func (e *explanation) space(j *Node, lacks func(string, ...any)) {
	c := e.Class.It
	if c == nil {
		return
	}
	csi := !isDialect(c.Provisioner)
	if csi {
		j.Pool = contract.PoolName(c.Parameters)
	}
	if r, asked := e.report(j, csi); asked {
		if r == nil {
			lacks("%s", e.noPool(j))
			return
		}
		j.Pool, j.Available = r.Pool.Name, &r.Space.Available
		if r.Space.NoInodes {
			lacks("the filesystem of pool %s has no free inodes", j.Pool)
		}
		if r.Pool.NoQuotas != "" && c.Parameters[contract.QuotaParameter] == "required" {
			lacks("the class requires a quota, and pool %s enforces none: %s", j.Pool, r.Pool.NoQuotas)
		}
	} else if csi && e.Capacities.Known() && e.Agents.Known() {
		published := e.published(j.Name)
		if published == nil {
			if j.Agent == "ready" {
				lacks("it publishes no capacity for the class: it has no pool %s, or the pool is not ready", j.Pool)
			}
			return
		}
		bytes := contract.WholeBytes(published.Capacity)
		if j.Available = &bytes; bytes == 0 && e.notReady(j.Name) != "" {
			lacks("%s", e.notReady(j.Name))
			return
		}
	}
	if j.Available != nil && *j.Available < e.answer.Size {
		lacks("%s are requested, and %s are available in pool %s", contract.Size(e.answer.Size), contract.Size(*j.Available), j.Pool)
	}
}

// report returns the report of the pool that the class names, or else the one with the most space.
// asked is false if the agent of the node was not asked, or did not answer.
func (e *explanation) report(j *Node, byName bool) (most *inspect.Report, asked bool) {
	for _, p := range e.Pools {
		if p.Agent.Node != j.Name || p.Problem != "" && len(p.Reports) == 0 {
			continue
		}
		asked = true
		for i := range p.Reports {
			r := &p.Reports[i]
			if (!byName || r.Pool.Name == j.Pool) && (most == nil || r.Space.Available > most.Space.Available) {
				most = r
			}
		}
	}
	return most, asked
}

// noPool says why a node that was asked reports no pool for the class: it has none, or the pool is
// not ready.
func (e *explanation) noPool(j *Node) string {
	var names []string
	for _, p := range e.Pools {
		if p.Agent.Node != j.Name {
			continue
		}
		if p.Problem != "" {
			return cmp.Or(e.notReady(j.Name), p.Problem)
		}
		for _, r := range p.Reports {
			names = append(names, r.Pool.Name)
		}
	}
	if len(names) == 0 {
		return "it has no pool " + j.Pool
	}
	return "it has no pool " + j.Pool + "; it has " + strings.Join(names, ", ")
}

// notReady returns the newest event that a pool of the node is not ready, "" if there is none, or
// if a newer one says that it is ready again.
func (e *explanation) notReady(node string) string {
	for i := range e.PoolEvents.Items {
		event := &e.PoolEvents.Items[i]
		switch {
		case event.InvolvedObject.Name != node:
		case event.Reason == events.PoolReady:
			return ""
		case event.Reason == events.PoolNotReady:
			return event.Message
		}
	}
	return ""
}

// published returns what the node publishes for the class.
func (e *explanation) published(node string) *storagev1.CSIStorageCapacity {
	return e.Capacities.Find(func(c *storagev1.CSIStorageCapacity) bool {
		if c.StorageClassName != e.Class.It.Name || c.Capacity == nil || c.NodeTopology == nil {
			return false
		}
		s, err := metav1.LabelSelectorAsSelector(c.NodeTopology)
		n := e.nodeNamed(node)
		return c.NodeTopology.MatchLabels[contract.TopologyNode] == node ||
			err == nil && !s.Empty() && n != nil && s.Matches(labels.Set(n.Labels))
	})
}

// remedy returns what to do if no node can hold the volume.
func (e *explanation) remedy(judged []Node) string {
	most := int64(-1)
	for _, j := range judged {
		if j.Available != nil {
			most = max(most, *j.Available)
		}
	}
	if most > 0 && most < e.answer.Size {
		return fmt.Sprintf("request at most %s, free space, or add a disk", contract.Size(most))
	}
	return ""
}

// commonest returns what the most nodes lack, with their number.
func commonest(judged []Node) (text string) {
	count, most := map[string]int{}, 0
	for _, j := range judged {
		kind, _, _ := strings.Cut(j.Lacks[0], ":")
		if count[kind]++; count[kind] > most {
			most, text = count[kind], j.Lacks[0]
		}
	}
	if most < len(judged) {
		text = fmt.Sprintf("%s (%d of them)", text, most)
	}
	return text
}

// excludes says why the scheduler would not place the pod on the node, whatever storage it has; ""
// if it would, or if there is no pod.
func excludes(pod *corev1.Pod, n *corev1.Node) string {
	if pod == nil || pod.Spec.NodeName == n.Name {
		return ""
	}
	if may, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(n); err != nil || !may {
		return fmt.Sprintf("the nodeSelector or the affinity of pod %s leaves it out", pod.Name)
	}
	taint, found := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, pod.Spec.Tolerations,
		func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }, true)
	if found {
		return fmt.Sprintf("pod %s does not tolerate its taint %s", pod.Name, taint.ToString())
	}
	return ""
}

// allowed reports whether the class's topologies, if it has any, have the node.
func allowed(c *storagev1.StorageClass, n *corev1.Node) bool {
	if c == nil || len(c.AllowedTopologies) == 0 {
		return true
	}
	for _, term := range c.AllowedTopologies {
		all := true
		for _, e := range term.MatchLabelExpressions {
			value, has := n.Labels[e.Key]
			if e.Key == contract.TopologyNode && !has {
				value, has = n.Name, true
			}
			found := false
			for _, v := range e.Values {
				found = found || has && v == value
			}
			all = all && found
		}
		if all {
			return true
		}
	}
	return false
}
